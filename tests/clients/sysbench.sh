# sysbench: its OLTP loads with several threads, from making the tables to dropping them.
set -eu
export PGSSLMODE=disable
for load in oltp_read_write oltp_read_only oltp_write_only oltp_point_select oltp_insert; do
  for step in prepare run cleanup; do
    told=$(sysbench "$load" --db-driver=pgsql --pgsql-host=127.0.0.1 --pgsql-port="$1" --pgsql-user=cellar \
      --pgsql-password= --pgsql-db=cellar --tables=2 --table-size=500 --threads=4 --time=0 --events=60 "$step" 2>&1) ||
      { echo "$load $step: $told"; exit 1; }
    case "$told" in *FATAL* | *ERROR*) echo "$load $step: $told"; exit 1 ;; esac
  done
done
echo "ok $(sysbench --version)"
