"""The rows, made once for each scale: Cellar generates TPC-H's tables, as columnar tables for itself
and as Parquet files for the others, so that every arm has the same rows in the same order and types.

    DATA/sf1/cellar        Cellar's database
    DATA/sf1/cellar-heap   the same tables with their rows in the heap, and with indexes
    DATA/sf1/parquet       the same rows as files, copied out
    DATA/sf1/tpch.duckdb   and chdb/, postgresql/: what the rivals make of them
"""

import json
import math
import os
import shutil
import subprocess
import time
from pathlib import Path

from engines import KEYS, TABLES

# A table of l_comment is half l_comment, which hides what an encoding does for the rest.
YARDSTICK = ("lineitem", "lineitem_nc")


class Missing(Exception):
    """Something has to be installed or given first."""


def place(data, scale):
    """The directory of a scale."""
    return Path(data).resolve() / f"sf{scale:g}"


def cellar(binary, *words):
    """Runs a command of Cellar's, which says on stderr why it failed."""
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"cellar {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def make(where, scale, binary, directory, heap=False):
    """Cellar's database and the Parquet files, if they are not there."""
    files = where / "parquet"
    have_files = all((files / f"{table}.parquet").exists() for table in TABLES)
    own = where / ("cellar-heap" if heap else "cellar")
    done = own.with_name(f"{own.name}.done")
    directory = Path(directory) if directory else own
    if binary is None:
        if have_files:
            return directory
        raise Missing(f"there are no Parquet files in {files} and no --cellar PATH to make them "
                      "with: give one, or the files of all 8 tables there")
    where.mkdir(parents=True, exist_ok=True)
    if directory == own and not done.exists():
        make_database(binary, own, scale)
        if heap:
            make_rows(binary, own)
        done.touch()
    if not directory.is_dir():
        raise Missing(f"there is no database {directory}: cellar init, then cellar load --tpch")
    if not have_files:
        copy_out(binary, scale, files)
    return directory


def make_database(binary, directory, scale, *how):
    """One disk without mirror: a rival has its rows once, too."""
    print(f"making {directory} ...", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    room = 2 + math.ceil((6 if directory.name == "cellar-heap" else 1.5) * scale)
    cellar(binary, "init", directory, "--disks", 1, "--disk-size", f"{room}G",
           "--redundancy", "external")
    cellar(binary, "load", directory, "--tpch", f"{scale:g}", *how)


def make_rows(binary, directory):
    """The tables as tables of rows, with the keys and indexes that PostgreSQL has."""
    from postgres import INDEXES
    for table in TABLES:
        cellar(binary, "sql", directory, "-c",
               f"create table {table}_rows using heap as select * from {table}; drop table {table};"
               f" alter table {table}_rows rename to {table};"
               f" alter table {table} add primary key ({KEYS[table]})")
    for index in INDEXES:
        cellar(binary, "sql", directory, "-c", f"create index on {index}")


def copy_out(binary, scale, files):
    """The same rows as Parquet files, `files`, whole or not at all."""
    print(f"making {files} ...", flush=True)
    new, group = files.with_name("parquet.new"), files.with_name("parquet.db")
    shutil.rmtree(new, ignore_errors=True)
    make_database(binary, group, scale, "--parquet")
    new.mkdir()
    for table in TABLES:
        cellar(binary, "asm", group, "cp", f"+DATA/{table}.parquet", new / f"{table}.parquet")
    shutil.rmtree(group)
    shutil.rmtree(files, ignore_errors=True)
    os.rename(new, files)


def yardstick(where, name):
    """A Parquet file (zstd 3, by pyarrow) of lineitem, or of lineitem without l_comment; made
    once. Both by one writer: Cellar's own files may be written otherwise."""
    import pyarrow.parquet as pq
    path = where / f"{name}.zstd.parquet"
    if not path.exists():
        source = pq.ParquetFile(where / "parquet" / "lineitem.parquet")
        names = [n for n in source.schema_arrow.names
                 if name == "lineitem" or n != "l_comment"]
        table = source.read(columns=names)
        new = path.with_suffix(".new")
        pq.write_table(table, new, compression="zstd", compression_level=3,
                       store_decimal_as_integer=True)
        os.rename(new, path)
    return path


def raw_device(path, threads, most=1 << 28):
    """MB/s of reading a file past the page cache, 1 MB a time and `threads` at once: what a cold
    scan can have at best."""
    import mmap
    from concurrent.futures import ThreadPoolExecutor
    step = 1 << 20
    size = min(os.path.getsize(path), most) // step * step
    if size == 0:
        return None
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def read(first):
        buffer = mmap.mmap(-1, step)
        for at in range(first * step, size, step * threads):
            os.preadv(file, [buffer], at)

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))
    took = time.perf_counter() - start
    os.close(file)
    return size / took / 1e6


def disk_rows(path):
    """(rows, row groups) of a Parquet file."""
    import pyarrow.parquet as pq
    about = pq.ParquetFile(path).metadata
    return about.num_rows, about.num_row_groups


def save(path, record):
    """Keeps a run."""
    text = json.dumps(record, indent=1, default=str)
    Path(path).write_text(text + "\n")
