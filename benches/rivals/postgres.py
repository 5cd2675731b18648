"""PostgreSQL as a rival: a server of its own on a socket, as long as the process that drives it.

The scan set compares scans, so its indexes are off there; TPC-H has them, without which Q17 and
Q20 take hours.
"""

import ctypes
import io
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from compare import plain
from engines import KEYS, TABLES, Engine, plain_decimals, postgres_programs, sync

INDEXES = ("lineitem (l_partkey, l_suppkey)", "lineitem (l_suppkey)", "orders (o_custkey)",
           "partsupp (ps_suppkey)", "customer (c_nationkey)", "supplier (s_nationkey)")
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """The server ends, as by a fast shutdown, when this process does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


class PostgreSQL(Engine):
    """Unlogged tables."""

    package = "psycopg"
    keeps = "postgresql"

    def __init__(self, place, threads):
        super().__init__(place, threads)
        self.server = self.sockets = None
        # It refuses to be run by root.
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name

    def version(self):
        words = subprocess.run([postgres_programs() / "postgres", "--version"],
                               capture_output=True, text=True, check=True).stdout.split()
        return words[2]

    def settings(self):
        quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 >> 20
        return {
            "shared_buffers": f"{quarter}MB", "work_mem": "256MB", "maintenance_work_mem": "1GB",
            "max_parallel_workers_per_gather": self.threads,
            "max_parallel_workers": self.threads, "max_worker_processes": 8,
            "parallel_leader_participation": "off", "jit": "off", "random_page_cost": "1.1",
            "effective_io_concurrency": 200, "max_wal_size": "8GB", "wal_level": "minimal",
            "max_wal_senders": 0, "autovacuum": "off", "listen_addresses": "",
        }

    def build(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(self.path, "postgres", "postgres")
        subprocess.run([postgres_programs() / "initdb", "-D", self.path, "-A", "trust",
                        "--locale=C", "-E", "UTF8", "-U", "bench", "-N"], user=self.user,
                       check=True, stdout=subprocess.DEVNULL, cwd="/")
        self.open()
        run = self.connection.execute
        for table in TABLES:
            self.create(self.parquet(table), table)
            self.copy(self.parquet(table), table)
            run(f"alter table {table} add primary key ({KEYS[table]})")
        for index in INDEXES:
            run(f"create index on {index}")
        run("vacuum (analyze, freeze)")
        self.close()

    def open(self):
        import psycopg
        # The path of a socket may have 107 characters.
        self.sockets = Path(tempfile.mkdtemp(prefix="pg."))
        self.sockets.chmod(0o777)
        words = [postgres_programs() / "postgres", "-D", self.path, "-k", self.sockets]
        for name, value in self.settings().items():
            words += ["-c", f"{name}={value}"]
        log = open(self.place / "postgresql.log", "ab")
        self.server = subprocess.Popen(words, user=self.user, stdout=log, stderr=log, cwd="/",
                                       preexec_fn=die_with_parent)
        for _ in range(300):
            try:
                self.connection = psycopg.connect(host=str(self.sockets), user="bench",
                                                  dbname="postgres", autocommit=True)
                return
            except psycopg.OperationalError:
                if self.server.poll() is not None:
                    break
                time.sleep(0.1)
        raise RuntimeError(f"postgres does not start: see {log.name}")

    def close(self):
        super().close()
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait()
            shutil.rmtree(self.sockets, ignore_errors=True)
            self.server = None

    def create(self, parquet, table, kind="unlogged table"):
        import pyarrow.parquet
        kinds = {"int64": "bigint", "int32": "int", "date32[day]": "date",
                 "decimal128(15, 2)": "decimal(15, 2)"}
        schema = pyarrow.parquet.ParquetFile(parquet).schema_arrow
        columns = [f"{f.name} {kinds.get(str(f.type), 'text')} not null" for f in schema]
        self.connection.execute(f"create {kind} {table} ({', '.join(columns)})")

    def copy(self, parquet, table):
        import pyarrow.csv
        import pyarrow.parquet
        options = pyarrow.csv.WriteOptions(include_header=False)
        with self.connection.cursor().copy(f"copy {table} from stdin (format csv)") as copy:
            for batch in pyarrow.parquet.ParquetFile(parquet).iter_batches():
                text = io.BytesIO()
                pyarrow.csv.write_csv(batch, text, options)
                copy.write(text.getvalue())

    def query(self, sql, many, indexes):
        run, switch = self.connection.execute, "on" if indexes else "off"
        for kind in ("indexscan", "indexonlyscan", "bitmapscan"):
            run(f"set enable_{kind} = {switch}")
        sql = plain_decimals(sql)
        start = time.perf_counter()
        got = run(sql).fetchall()
        took = time.perf_counter() - start
        return took, [tuple(map(plain, row)) for row in got]

    def load(self, parquet, table):
        """(seconds, bytes without indexes, {}). A logged table: durable when the transaction that
        made it commits, and at wal_level minimal no log of its rows is written."""
        name = f"{table}_load"
        self.connection.execute(f"drop table if exists {name}")
        start = time.perf_counter()
        with self.connection.transaction():
            self.create(parquet, name, "table")
            self.copy(parquet, name)
        sync(self.path)
        took = time.perf_counter() - start
        size = self.connection.execute(f"select pg_table_size('{name}')").fetchone()[0]
        self.connection.execute(f"drop table {name}")
        return took, size, {}
