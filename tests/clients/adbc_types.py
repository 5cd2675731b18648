"""ADBC's driver for PostgreSQL: results by COPY in binary as Arrow, types, parameters, ingestion of Arrow tables."""
import datetime
import decimal
import sys
import adbc_driver_postgresql
import adbc_driver_postgresql.dbapi as db
import pyarrow as pa

utc = datetime.timezone.utc
with db.connect(f"postgresql://cellar@127.0.0.1:{sys.argv[1]}/cellar?sslmode=disable") as c, c.cursor() as cur:
    cur.execute("create table t (id int primary key, s smallint, b bigint, r real, d float8, n numeric(12,3), "
                "t text, v varchar(10), by bytea, da date, ti time, ts timestamp, tz timestamptz, u uuid, j jsonb, "
                "ia int[], ta text[], ok bool)")
    cur.execute("insert into t values (1,2,3,1.5,2.5,12.345,'\u00e9','v','\\x00ff','2026-01-02','01:02:03.000004',"
                "'2026-01-02 03:04:05.000006','2026-01-02 03:04:05+00','00000000-0000-0000-0000-000000000007',"
                "'{\"a\": 1}','{1,NULL,3}','{a,NULL}',true), (2" + ",null" * 17 + ")")
    c.commit()
    cur.execute("select * from t order by id")
    one, none = cur.fetch_arrow_table().to_pylist()
    assert [none[name] for name in none][1:] == [None] * 17, none
    wanted = {"id": 1, "s": 2, "b": 3, "r": 1.5, "d": 2.5, "n": "12.345", "t": "\u00e9", "v": "v", "by": b"\x00\xff",
              "da": datetime.date(2026, 1, 2), "ti": datetime.time(1, 2, 3, 4),
              "ts": datetime.datetime(2026, 1, 2, 3, 4, 5, 6), "ia": [1, None, 3], "ta": ["a", None], "ok": True}
    assert {name: one[name] for name in wanted} == wanted, one
    assert one["tz"].timestamp() == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=utc).timestamp(), one
    assert str(one["u"]).endswith("7") and one["j"] == '{"a": 1}', one
    cur.execute("select id, t from t where id = $1", (1,))
    assert cur.fetchall() == [(1, "\u00e9")]
    cur.executemany("insert into t (id, t) values ($1, $2)", [(10, "a"), (11, None)])
    c.commit()
    rows = 1000
    table = pa.table({
        "id": pa.array(range(rows), pa.int32()), "x": pa.array([at * 0.5 for at in range(rows)]),
        "s": [f"s{at}" for at in range(rows)], "b": [bytes([at % 256]) for at in range(rows)],
        "d": pa.array([datetime.date(2026, 1, 1)] * rows), "ok": [at % 2 == 0 for at in range(rows)],
        "ts": pa.array([datetime.datetime(2026, 1, 1, 1, 2, 3)] * rows, pa.timestamp("us")),
        "tz": pa.array([datetime.datetime(2026, 1, 1, 1, 2, 3)] * rows, pa.timestamp("us", "UTC")),
        "big": pa.array(range(rows), pa.int64()), "sm": pa.array([1] * rows, pa.int16()),
        "f": pa.array([1.5] * rows, pa.float32()), "l": pa.array([[1, 2]] * rows, pa.list_(pa.int32())),
        "de": pa.array([decimal.Decimal("1.25")] * rows),
    })
    for mode, count in (("create", 1000), ("append", 2000), ("replace", 1000), ("create_append", 2000)):
        cur.adbc_ingest("ingested", table, mode=mode)
        c.commit()
        cur.execute("select count(*), sum(big) from ingested")
        assert cur.fetchone()[0] == count, mode
    cur.execute("select * from ingested order by big limit 1")
    back = cur.fetch_arrow_table().to_pylist()[0]
    assert (back["s"], back["l"], back["b"]) == ("s0", [1, 2], b"\x00"), back
    # A NUMERIC of which nothing more is said has ten digits behind the point here.
    assert decimal.Decimal(back["de"]) == decimal.Decimal("1.25"), back
    found = c.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
    tables = [t for own in found for s in own["catalog_db_schemas"] or [] for t in s["db_schema_tables"] or []]
    named = {t["table_name"]: [k["constraint_name"] for k in t["table_constraints"] or []] for t in tables}
    assert named == {"t": ["t_pkey"], "ingested": []}, named
    assert c.adbc_get_table_schema("t").names == list(one), c.adbc_get_table_schema("t")
    try:
        cur.execute("select nope")
        raise SystemExit("taken")
    except db.ProgrammingError as error:
        assert error.sqlstate == "42703", error
    c.rollback()
print("ok", adbc_driver_postgresql.__version__)
