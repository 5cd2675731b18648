"""psycopg: its registry of types, and COPY in binary with every type."""
import datetime
import decimal
import sys
import uuid
import psycopg
from psycopg.types import TypeInfo
from psycopg.types.json import Jsonb

c = psycopg.connect(f"host=127.0.0.1 port={sys.argv[1]} user=cellar dbname=cellar", autocommit=True)
info = TypeInfo.fetch(c, "jsonb")
assert (info.oid, info.array_oid) == (3802, 3807), info
assert TypeInfo.fetch(c, "nosuch") is None
types = ["int2", "int4", "int8", "float4", "float8", "numeric", "bool", "text", "varchar", "bytea", "uuid", "date",
         "time", "timestamp", "timestamptz", "jsonb", "int4[]", "text[]"]
columns = ", ".join(f"c{at} {name}" for at, name in enumerate(types))
c.execute(f"create table t (id int primary key, {columns})")
utc = datetime.timezone.utc
row = (1, 1, 2, 3, 1.5, 2.5, decimal.Decimal("-12345.678"), True, "é\n", "v", b"\x00\xff", uuid.UUID(int=9),
       datetime.date(1999, 12, 31), datetime.time(1, 2, 3, 4), datetime.datetime(1999, 1, 2, 3, 4, 5, 6),
       datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=utc), {"a": [1]}, [1, None, 3], ["a", None, 'q"\\'])
nulls = (2,) + (None,) * len(types)
with c.cursor().copy("copy t from stdin (format binary)") as copy:
    copy.set_types(["int4"] + types)
    copy.write_row(row[:16] + (Jsonb(row[16]),) + row[17:])
    copy.write_row(nulls)
c.execute("set timezone to 'UTC'")
read = [tuple(r) for r in c.execute("select * from t order by id")]
assert read == [row, nulls], read
with c.cursor().copy("copy (select * from t order by id) to stdout (format binary)") as copy:
    copy.set_types(["int4"] + types)
    read = [tuple(r) for r in copy.rows()]
assert read == [row, nulls], read
for wrong in (b"no file", b"PGCOPY\n\xff\r\n\0" + b"\0" * 8 + b"\0\x01"):
    try:
        with c.cursor().copy("copy t from stdin (format binary)") as copy:
            copy.write(wrong)
        raise SystemExit("taken")
    except psycopg.errors.BadCopyFileFormat:
        pass
assert c.execute("select count(*) from t where id = any(%s)", [[1, 2, 3]]).fetchone() == (2,)

# Lengths of time, both ways and in both formats; whose columns the columns of a result are.
times = [datetime.timedelta(0), datetime.timedelta(hours=10), datetime.timedelta(days=-1, seconds=86395),
         datetime.timedelta(days=40, microseconds=1)]
for binary in (False, True):
    for time in times:
        own, text = c.cursor(binary=binary).execute("select %s::interval, %s::interval", (time, str(time))).fetchone()
        assert own == time and text == time, (time, own, text)
    between = c.cursor(binary=binary).execute("select timestamp '2024-03-01 12:00' - timestamp '2024-02-28'").fetchone()
    assert between == (datetime.timedelta(days=2, hours=12),), between
assert c.execute("select row_number() over (), rank() over (), ntile(1) over ()").fetchone() == (1, 1, 1)
c.execute("drop table if exists origins")
c.execute("create table origins (id int primary key, v varchar(7))")
oid = c.execute("select 'origins'::regclass::oid").fetchone()[0]
result = c.execute("select v as other, id, v || '!' from origins o where id > 0").pgresult
columns = [(result.ftable(at), result.ftablecol(at), result.ftype(at), result.fmod(at)) for at in range(3)]
assert columns == [(oid, 2, 1043, 11), (oid, 1, 23, -1), (0, 0, 25, -1)], columns
print("ok", psycopg.__version__)
