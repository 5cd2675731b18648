"""The rivals, each as it is driven inside a process of its own (see arms.py).

An engine makes its data from Parquet files once, opens it, answers queries with the time that its
client saw (text in, rows out), and can say its settings. No cache of results or of filters is on:
with constants drawn from short lists a second hit would be no scan.
"""

import glob
import os
import re
import time
from importlib.metadata import version
from pathlib import Path

from compare import plain

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
KEYS = {
    "region": "r_regionkey", "nation": "n_nationkey", "supplier": "s_suppkey",
    "customer": "c_custkey", "part": "p_partkey", "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey", "lineitem": "l_orderkey, l_linenumber",
}
# Columns of few values.
FEW = {"l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "o_orderstatus",
       "o_orderpriority", "p_mfgr", "p_brand", "p_type", "p_container", "c_mktsegment", "n_name",
       "r_name"}
DECIMAL = re.compile(r"\b(\d+\.(\d+))m\b")


def plain_decimals(sql):
    """0.05m as the 0.05 of SQL, which is a decimal."""
    return DECIMAL.sub(r"\1", sql)


def arrow_rows(table):
    """The rows of an Arrow table."""
    columns = [[plain(v) for v in column.to_pylist()] for column in table.columns]
    return list(zip(*columns))


def sync(path):
    """A file, or all in a directory, is on disk. Not the whole file system (sync -f): an arm does
    not pay for what others on the machine have written."""
    path = Path(path)
    for each in [path, *path.rglob("*")]:
        if each.is_file() or each.is_dir():
            handle = os.open(each, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


class Engine:
    """What each engine has; `place` is the directory of a scale, `parquet` is in it."""

    package = ""
    keeps = ""  # What it makes in `place`; nothing if it reads the Parquet files.
    loads = True

    def __init__(self, place, threads):
        self.place, self.threads = Path(place), threads
        self.path = self.place / self.keeps
        self.connection = None

    def version(self):
        return version(self.package)

    def parquet(self, table):
        return str(self.place / "parquet" / f"{table}.parquet")

    def build(self):
        """Makes its tables; called once for a scale."""

    def open(self):
        raise NotImplementedError

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def settings(self):
        return {}

    def query(self, sql, many, indexes):
        """(seconds, rows)."""
        raise NotImplementedError


class DuckDB(Engine):
    """Native tables, in load order, as `create table as` makes them."""

    package = "duckdb"
    keeps = "tpch.duckdb"

    def connect(self, path):
        import duckdb
        return duckdb.connect(str(path), config={"threads": self.threads})

    def build(self):
        with self.connect(self.path) as db:
            for table in TABLES:
                db.execute(f"create table {table} as from '{self.parquet(table)}'")
            db.execute("force checkpoint")

    def open(self):
        self.connection = self.connect(self.path)

    def settings(self):
        return {"threads": self.threads}

    def query(self, sql, many, indexes):
        sql = plain_decimals(sql)
        db = self.connection
        # Arrow is 3 times faster for thousands of rows, and slower for a few.
        start = time.perf_counter()
        got = db.sql(sql).to_arrow_table() if many else db.execute(sql).fetchall()
        took = time.perf_counter() - start
        rows = arrow_rows(got) if many else [tuple(map(plain, row)) for row in got]
        return took, rows

    def load(self, parquet, table):
        """(seconds, bytes, {}): a file of its own, so that its size is the table's."""
        path = self.place / f"{table}.load.duckdb"
        path.unlink(missing_ok=True)
        start = time.perf_counter()
        with self.connect(path) as db:
            db.execute(f"create table {table} as from '{parquet}'")
            db.execute("force checkpoint")
        sync(path)
        took = time.perf_counter() - start
        size = path.stat().st_size
        path.unlink()
        return took, size, {}


class DuckDBParquet(DuckDB):
    """The Parquet files as views; what it knows of them is kept."""

    keeps = ""
    loads = False

    def build(self):
        pass

    def open(self):
        self.connection = self.connect(":memory:")
        self.connection.execute("set parquet_metadata_cache = true")
        for table in TABLES:
            self.connection.execute(
                f"create view {table} as from read_parquet('{self.parquet(table)}')")

    def settings(self):
        return {"threads": self.threads, "parquet_metadata_cache": True}


class DataFusion(Engine):
    """The Parquet files, with row filters off as they are by default."""

    package = "datafusion"
    loads = False
    filters = "false"

    def settings(self):
        return {"target_partitions": self.threads, "parse_float_as_decimal": True,
                "pushdown_filters": self.filters}

    def open(self):
        from datafusion import SessionConfig, SessionContext
        config = SessionConfig().with_target_partitions(self.threads)
        # As in the other engines; with floats, Q6 would lose rows and be slower.
        config = config.set("datafusion.sql_parser.parse_float_as_decimal", "true")
        config = config.set("datafusion.execution.parquet.pushdown_filters", self.filters)
        self.connection = SessionContext(config)
        for table in TABLES:
            self.connection.register_parquet(table, self.parquet(table))

    def close(self):
        self.connection = None

    def query(self, sql, many, indexes):
        import pyarrow
        sql = plain_decimals(sql)
        start = time.perf_counter()
        frame = self.connection.sql(sql)
        batches = frame.collect()
        took = time.perf_counter() - start
        return took, arrow_rows(pyarrow.Table.from_batches(batches)) if batches else []


class DataFusionFilters(DataFusion):
    """With row filters, as Cellar has them: a selective select is 4 to 7 times faster, a count by a
    date 2 times slower. Neither setting is the best one, so there are two arms."""

    filters = "true"


class ChDB(Engine):
    """MergeTree tables in load order, which is that of their keys; one part each, in LZ4. Left
    alone, a large part is merged into ZSTD(3): half the size, and scans take 1.5 to 3 times as
    long."""

    package = "chdb"
    keeps = "chdb"

    def settings(self):
        return {
            "max_threads": self.threads,
            # As the standard has it: NULL for what an outer join or an empty sum does not have.
            "join_use_nulls": 1, "aggregate_functions_null_for_empty": 1,
            "use_query_cache": 0, "use_query_condition_cache": 0,
        }

    def open(self):
        from chdb import session
        self.connection = session.Session(str(self.path))
        for name, value in self.settings().items():
            self.connection.query(f"set {name} = {value}")
        self.connection.query("create database if not exists bench")
        self.connection.query("use bench")

    def create(self, parquet, table, name):
        """An empty table for a file, with the types of ClickHouse's own schema of TPC-H."""
        import pyarrow.parquet
        columns = []
        for field in pyarrow.parquet.ParquetFile(parquet).schema_arrow:
            kind = {"int64": "Int64", "int32": "Int32", "date32[day]": "Date",
                    "decimal128(15, 2)": "Decimal(15, 2)"}.get(str(field.type), "String")
            if field.name in FEW:
                kind = "LowCardinality(String)"
            columns.append(f"{field.name} {kind}")
        self.connection.query(
            f"create table {name} ({', '.join(columns)}) engine = MergeTree "
            f"order by ({KEYS[table]}) settings default_compression_codec = 'LZ4'")

    def insert(self, parquet, name):
        self.connection.query(f"insert into {name} select * from file('{parquet}', Parquet)")

    def build(self):
        self.open()
        for table in TABLES:
            self.create(self.parquet(table), table, table)
            self.insert(self.parquet(table), table)
            self.connection.query(f"optimize table {table} final")
        self.close()

    def query(self, sql, many, indexes):
        import pyarrow
        sql = DECIMAL.sub(lambda m: f"toDecimal64('{m[1]}', {len(m[2])})", sql)
        start = time.perf_counter()
        got = self.connection.query(sql, "Arrow").bytes()
        took = time.perf_counter() - start
        return took, arrow_rows(pyarrow.ipc.open_file(got).read_all()) if got else []

    def load(self, parquet, table):
        """(seconds, bytes, other sizes). Merging is not in the time; sizes are after it."""
        name = f"{table}_load"
        self.connection.query(f"drop table if exists {name} sync")
        start = time.perf_counter()
        self.create(parquet, "lineitem", name)
        self.insert(parquet, name)
        sync(self.path)
        took = time.perf_counter() - start
        size = self.merged_size(name)
        self.connection.query(
            f"alter table {name} modify setting default_compression_codec = 'ZSTD(3)'")
        small = self.merged_size(name)
        self.connection.query(f"drop table {name} sync")
        return took, size, {"zstd 3": small}

    def merged_size(self, name):
        """Bytes of a table that is one part."""
        self.connection.query(f"optimize table {name} final")
        size = self.connection.query("select sum(bytes_on_disk) from system.parts "
                                     f"where active and table = '{name}'", "CSV").bytes()
        return int(size)


def postgres_programs():
    """Where initdb and postgres are, or None."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    found.sort(key=lambda path: int(path.split("/")[4]))
    return Path(found[-1]).parent if found else None
