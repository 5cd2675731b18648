"""SQLAlchemy and Alembic: what they read of the catalogs is what was made, and a migration brings the rest."""
import sys
import sqlalchemy as sa
import sqlalchemy.orm
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.migration import MigrationContext
from alembic.operations import Operations, ops

engine = sa.create_engine(f"postgresql+psycopg://cellar@127.0.0.1:{sys.argv[1]}/cellar")
meta = sa.MetaData()
people = sa.Table(
    "people", meta,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(40), nullable=False, server_default="nobody"),
    sa.Column("amount", sa.Numeric(10, 2)),
    sa.Column("born", sa.DateTime(timezone=True)),
    sa.Column("tags", sa.ARRAY(sa.Text)),
    sa.Column("more", sa.dialects.postgresql.JSONB),
    sa.UniqueConstraint("name", name="people_name"),
    sa.CheckConstraint("amount > 0", name="people_amount"),
    comment="who there is",
)
sa.Index("people_born", people.c.born)
meta.create_all(engine)
look = sa.inspect(engine)
assert look.get_table_names() == ["people"], look.get_table_names()
columns = {c["name"]: c for c in look.get_columns("people")}
assert list(columns) == ["id", "name", "amount", "born", "tags", "more"], columns
assert isinstance(columns["amount"]["type"], sa.Numeric) and columns["amount"]["type"].scale == 2
assert columns["name"]["type"].length == 40 and not columns["name"]["nullable"]
assert columns["born"]["type"].timezone and isinstance(columns["tags"]["type"], sa.ARRAY)
assert "nextval" in columns["id"]["default"], columns["id"]
assert look.get_pk_constraint("people")["constrained_columns"] == ["id"]
assert look.get_unique_constraints("people")[0]["name"] == "people_name"
assert look.get_check_constraints("people")[0]["name"] == "people_amount"
assert {i["name"] for i in look.get_indexes("people")} == {"people_name", "people_born"}
assert look.get_foreign_keys("people") == []
assert look.get_table_comment("people")["text"] == "who there is"
assert "public" in look.get_schema_names() and look.has_table("people")
assert look.get_sequence_names() == ["people_id_seq"], look.get_sequence_names()
with engine.begin() as c:
    c.execute(sa.text("create view grown as select id, name from people"))
assert sa.inspect(engine).get_view_names() == ["grown"]
assert "people" in sa.inspect(engine).get_view_definition("grown")
again = sa.MetaData()
again.reflect(engine)
assert set(again.tables["people"].columns.keys()) == set(columns)
with engine.connect() as c:
    context = MigrationContext.configure(c, opts={"compare_type": True, "compare_server_default": True})
    found = compare_metadata(context, meta)
    assert found == [], found
    people.append_column(sa.Column("height", sa.Float))
    sa.Table("places", meta, sa.Column("id", sa.BigInteger, primary_key=True), sa.Column("name", sa.Text))
    found = compare_metadata(context, meta)
    assert {f[0] for f in found} == {"add_table", "add_column"}, found
    script = produce_migrations(context, meta)
    work = Operations(context)
    def run(op):
        for one in getattr(op, "ops", []):
            run(one)
        if not isinstance(op, (ops.OpContainer,)):
            work.invoke(op)
    run(script.upgrade_ops)
    assert compare_metadata(context, meta) == []
    c.commit()
with sa.orm.Session(engine) as session:
    session.execute(people.insert(), [{"name": "a", "tags": ["x"], "more": {"k": [1]}}, {"name": "b", "tags": None, "more": sa.null()}])
    session.commit()
    got = session.execute(sa.select(people.c.tags, people.c.more).order_by(people.c.id)).all()
    assert got == [(["x"], {"k": [1]}), (None, None)], got
print("ok", sa.__version__)
