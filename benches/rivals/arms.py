"""Arms: Cellar's shell behind pipes, and each rival in a process of its own.

Own processes, because engines in one process share its allocator and may take it down with them,
and because a query that takes too long can only be ended with its process.
"""

import hashlib
import json
import multiprocessing
import os
import subprocess
import threading
import time
from decimal import Decimal
from pathlib import Path

import engines
import postgres

ENGINES = {"duckdb": engines.DuckDB, "duckdb-parquet": engines.DuckDBParquet,
           "datafusion": engines.DataFusion, "datafusion-filters": engines.DataFusionFilters,
           "chdb": engines.ChDB, "postgresql": postgres.PostgreSQL}
NAMES = ("cellar", *ENGINES)


class Failed(Exception):
    """An arm cannot run a query, or took too long. The others go on."""


def drop_caches():
    """The kernel forgets what files hold."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def read_program(pid):
    """Reads the program files of a process back: a cold query pays for data, not for code."""
    files = set()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/"):
            files.add(words[5])
    for path in files:
        try:
            with open(path, "rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass
        except OSError:
            pass  # Deleted since, or a device.


def serve(engine, pipe):
    """The process of a rival: does what the pipe says until it closes."""
    while True:
        try:
            verb, words = pipe.recv()
        except EOFError:
            engine.close()
            return
        try:
            pipe.send((True, getattr(engine, verb)(*words)))
        except Exception as error:  # What an engine raises is the other side's to judge.
            pipe.send((False, f"{type(error).__name__}: {error}"))


class Rival:
    """An engine behind a pipe."""

    def __init__(self, name, place, threads, timeout):
        self.name, self.timeout = name, timeout
        self.engine = ENGINES[name](place, threads)
        self.process = self.pipe = None
        self.is_open = False

    def describe(self):
        return {"version": self.engine.version(), "settings": self.engine.settings()}

    def call(self, verb, *words, timeout=None):
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, far = context.Pipe()
            self.process = context.Process(target=serve, args=(self.engine, far))
            self.process.start()
            far.close()
        try:
            self.pipe.send((verb, words))
            if timeout and not self.pipe.poll(timeout):
                self.kill()
                raise Failed(f"not done after {timeout} s")
            done, got = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.kill()
            raise Failed("its process died") from None
        if not done:
            raise Failed(got)
        return got

    def build(self):
        """Makes its tables, if it keeps any and they are not there; whole or not at all."""
        done = self.engine.place / f"{self.name}.done"
        if self.engine.keeps and not done.exists():
            subprocess.run(["rm", "-rf", self.engine.path], check=True)
            print(f"making {self.engine.path} ...", flush=True)
            self.call("build")
            self.close()
            os.sync()
            done.touch()

    def open(self):
        if not self.is_open:
            self.call("open")
            self.is_open = True

    def close(self):
        """Ends its process."""
        if self.process is not None:
            self.pipe.close()
            self.process.join(30)
            self.kill()

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process, self.is_open = None, False

    def query(self, query, sql):
        """(milliseconds as its client saw them, rows)."""
        self.open()
        indexes = query.name.startswith("h")
        took, rows = self.call("query", sql, query.many, indexes, timeout=self.timeout)
        return took * 1e3, rows

    def make_cold(self):
        """Closes the database, empties the caches, and opens it again."""
        if self.name == "chdb":
            # In a new process, whose code a first query brings in.
            self.close()
            self.open()
            self.call("query", "select sum(number) from numbers(1000)", False, False)
        if self.process is not None:
            self.call("close")
        drop_caches()
        if self.process is not None:
            read_program(self.process.pid)
        self.is_open = False
        self.open()
        return "closed, drop_caches, opened"

    def load(self, parquet, table):
        if not self.engine.loads:
            return None
        self.open()
        return self.call("load", parquet, table)


class Cellar:
    """One `cellar sql --format json --time` behind pipes: rows on stdout, times on stderr."""

    def __init__(self, binary, directory, threads, timeout):
        self.name, self.timeout, self.threads = "cellar", timeout, threads
        self.binary, self.directory = binary, str(directory)
        self.process = self.flushes = None

    def describe(self):
        digest = hashlib.sha256(Path(self.binary).read_bytes()).hexdigest()[:16]
        version = self.run("--version").split()[-1]
        return {"version": f"{version} (sha256 {digest})",
                "settings": {"threads": f"{self.threads} (by affinity)"}}

    def run(self, *words):
        """What a command of its own prints."""
        done = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"cellar {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def build(self):
        """Made with the Parquet files, in data.py."""

    def open(self):
        if self.process is None:
            self.process = subprocess.Popen(
                [self.binary, "sql", self.directory, "--format", "json", "--time"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # Opening may take longer than a query is allowed to.
            self.statement("select 1 as one", rows=True, timeout=max(60, self.timeout))

    def close(self):
        if self.process is not None:
            # It ends when there are no more statements.
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def statement(self, sql, rows, timeout=None):
        """(milliseconds that it says, rows)."""
        self.open()
        process = self.process
        late = threading.Event()
        timer = threading.Timer(timeout or self.timeout, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            process.stdin.write(" ".join(sql.split("\n")) + ";\n")
            process.stdin.flush()
            answer = process.stdout.readline() if rows else ""
            said = []
            # What it says beside the time: notices, and how far it is.
            for line in process.stderr:
                if line.startswith("Time: "):
                    return float(line.split()[1]), self.rows(answer) if rows else []
                said.append(line.strip())
        except BrokenPipeError:
            said = [process.stderr.read()]
        finally:
            timer.cancel()
        process.wait()
        self.process = None
        if late.is_set():
            raise Failed(f"not done after {timeout or self.timeout} s")
        raise Failed(" ".join(said).strip() or f"it ended with exit code {process.returncode}")

    @staticmethod
    def rows(line):
        """Rows of its JSON, decimals as such."""
        return json.loads(line, parse_float=Decimal,
                          object_pairs_hook=lambda pairs: tuple(value for _, value in pairs))

    def query(self, query, sql):
        return self.statement(engines.plain_decimals(sql), rows=True)

    def make_cold(self):
        """Empties its cache; a version that has none to empty is started again."""
        self.open()
        if self.flushes is not False:
            try:
                self.statement("alter system flush cell_cache", rows=False)
                self.flushes = True
            except Failed as error:
                if "CELLAR-03001" not in str(error):
                    raise
                self.flushes = False
        if not self.flushes:
            self.close()
        drop_caches()
        if not self.flushes:
            self.open()
        read_program(self.process.pid)
        return "flush cell_cache" if self.flushes else "drop_caches, started again (no flush yet)"

    def load(self, parquet, table):
        """(seconds, bytes of one copy, {}): a columnar table in a mirrored group of its own, durable
        when the command ends; the time has its process's start."""
        self.close()
        place = f"{self.directory}-mirrored"
        if not Path(place).is_dir():
            room = 2 + 3 * Path(parquet).stat().st_size // (1 << 30)
            self.run("init", place, "--disks", 2, "--disk-size", f"{room}G")
        start = time.perf_counter()
        self.run("load", place, parquet, "--table", table)
        took = time.perf_counter() - start
        files = json.loads(self.run("asm", place, "ls", "-s", "--format", "json",
                                    "+DATA/cellar/tables/*"))
        self.run("sql", place, "-c", f"drop table {table}")
        return took, sum(file["bytes"] for file in files), {}
