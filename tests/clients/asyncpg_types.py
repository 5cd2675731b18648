"""asyncpg: types that it asks the catalogs for, arrays of parameters, COPY in binary."""
import asyncio
import datetime
import decimal
import io
import sys
import uuid
import asyncpg


async def main():
    c = await asyncpg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="cellar", database="cellar", ssl=False)
    assert await c.fetchval("select $1::int[]", [1, None, 3]) == [1, None, 3]
    await c.execute("create table t (id int primary key, word text, n numeric(10,3), at timestamptz, day date, "
                    "u uuid, b bytea, j jsonb, ia int[], ta text[], f float8, ok bool)")
    row = (1, "a", decimal.Decimal("1.500"), datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
           datetime.date(2026, 1, 2), uuid.UUID(int=7), b"\x00\xff", '{"a": 1}', [1, 2], ["x", None], 1.5, True)
    await c.execute("insert into t values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)", *row)
    assert tuple(await c.fetchrow("select * from t")) == row, await c.fetchrow("select * from t")
    assert [r["id"] for r in await c.fetch("select id from t where id = any($1::int[])", [1, 2])] == [1]
    more = [(at,) + row[1:] for at in range(2, 500)] + [(500,) + (None,) * 11]
    await c.copy_records_to_table("t", records=more)
    assert await c.fetchval("select count(*) from t") == 500
    assert tuple(await c.fetchrow("select * from t where id = 7")) == (7,) + row[1:]
    out = io.BytesIO()
    await c.copy_from_table("t", output=out, format="binary")
    await c.execute("truncate t")
    out.seek(0)
    await c.copy_to_table("t", source=out, format="binary")
    assert await c.fetchval("select count(*) from t") == 500
    assert tuple(await c.fetchrow("select * from t where id = 7")) == (7,) + row[1:]
    async with c.transaction():
        assert len([r async for r in c.cursor("select * from t order by id")]) == 500
    await c.set_type_codec("jsonb", encoder=str, decoder=lambda t: ("own", t), schema="pg_catalog")
    assert (await c.fetchval("select j from t where id = 1"))[0] == "own"
    await c.close()
    print("ok", asyncpg.__version__)


asyncio.run(main())
