#!/usr/bin/env python3
"""Changes of many rows in Cellar's heap beside PostgreSQL: COPY, CREATE INDEX, UPDATE, DELETE and
INSERT .. SELECT of a tenth of a table, in turns, each durable, and the same rows in both after
every statement. See README.md.

Exit codes: 0 measured, 1 the tables differ, 2 wrong usage or something is missing.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import arms
import postgres

GOALS = {"copy": 1.5, "index": 1.5, "update": 1.0, "update indexed": 1.0, "delete": 1.0,
         "insert select": 1.0}

TABLE = "create table t (id int primary key, k int not null, pad text not null)"

# In this order; each is one transaction. What the next round needs follows outside the time.
STEPS = (
    ("copy", "copy t from '{csv}' (format csv)"),
    ("index", "create index t_k on t (k)"),
    ("update", "update t set pad = 'changed' where id % 10 = 3"),
    ("update indexed", "update t set k = k + 1 where id % 10 = 5"),
    ("delete", "delete from t where id % 10 = 7"),
    ("insert select", "insert into t select id + 100000000, k, pad from t where id % 10 = 1"),
)

SUMS = "select count(*), sum(id), sum(k), sum(length(pad)) from t"


class LoggedPostgreSQL(postgres.PostgreSQL):
    """PostgreSQL with tables that survive a crash."""

    keeps = "postgresql-change"

    def settings(self):
        return super().settings() | {"wal_level": "replica", "wal_compression": "off",
                                     "synchronous_commit": "on", "checkpoint_timeout": "30min"}

    def build(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(mode=0o700, parents=True)
        if os.getuid() == 0:
            shutil.chown(self.path, "postgres", "postgres")
        programs = postgres.postgres_programs()
        subprocess.run([programs / "initdb", "-D", self.path, "-A", "trust", "--locale=C", "-E",
                        "UTF8", "-U", "bench", "-N"], user=self.user, check=True,
                       stdout=subprocess.DEVNULL, cwd="/")

    def statement(self, sql):
        start = time.perf_counter()
        self.connection.execute(sql)
        return (time.perf_counter() - start) * 1e3

    def sums(self):
        return [int(value) for value in self.connection.execute(SUMS).fetchone()]


class HeapCellar(arms.Cellar):
    """Cellar, a table in the heap."""

    def build(self, gigabytes, memory):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.run("init", self.directory, "--disks", 1, "--redundancy", "external",
                 "--disk-size", f"{gigabytes}G")
        self.run("sql", self.directory, "-c", f"alter system set memory_target = '{memory}G'")

    def change(self, sql):
        return self.statement(sql, rows=False)[0]

    def sums(self):
        return [int(value) for value in self.statement(SUMS, rows=True)[1][0]]


def write_csv(path, rows):
    """Keys of the index are spread; a row has about 100 bytes."""
    with open(path, "w") as out:
        for number in range(rows):
            out.write(f"{number},{number * 2654435761 % 1000003},{'x' * 60}{number}\n")
    os.chmod(path, 0o644)


def run_round(cellar, rival, csv, first):
    """The milliseconds of each step, of both."""
    took = {}
    sides = [("cellar", cellar.change), ("postgresql", rival.statement)]
    for _, run in sides:
        run("drop table if exists t")
        run(TABLE)
    for at, (name, sql) in enumerate(STEPS):
        order = sides if (at + first) % 2 == 0 else sides[::-1]
        took[name] = {side: run(sql.format(csv=csv)) for side, run in order}
        ours, theirs = cellar.sums(), rival.sums()
        if ours != theirs:
            print(f"change.py: after {name}: {ours} is not {theirs}", file=sys.stderr)
            sys.exit(1)
        rival.statement("checkpoint")
    return took


def report(rows, rounds):
    print(f"\n{rows:,} rows, {len(rounds)} rounds: milliseconds, median (min to max)")
    result = {}
    for name, _ in STEPS:
        times = {side: [took[name][side] for took in rounds] for side in ("cellar", "postgresql")}
        middle = {side: statistics.median(of) for side, of in times.items()}
        ratio = middle["postgresql"] / middle["cellar"]
        word = "MET" if ratio >= GOALS[name] else "MISSED"
        shown = [f"{side} {middle[side]:9.0f} ({min(of):.0f} to {max(of):.0f})"
                 for side, of in times.items()]
        print(f"{name:<15} {'  '.join(f'{text:<36}' for text in shown)} {ratio:5.2f}x  "
              f"{GOALS[name]:g}x {word}", flush=True)
        result[name] = {"times": times, "ratio": ratio}
    return result


def arguments():
    parser = argparse.ArgumentParser(description="Changes of many rows beside PostgreSQL.")
    add = parser.add_argument
    add("--cellar", metavar="PATH", required=True, help="the release binary of cellar")
    add("--data", metavar="DIR", default="rivals-data", help="where data is kept (%(default)s)")
    add("--rows", default="100000,1000000", help="sizes of the table, with commas (%(default)s)")
    add("--rounds", type=int, default=3, help="of each size (%(default)s)")
    add("--memory", type=int, default=8, help="GB of memory_target (%(default)s)")
    add("--json", metavar="FILE", help="keep each single time")
    return parser.parse_args()


def main():
    args = arguments()
    if postgres.postgres_programs() is None:
        print("change.py: no PostgreSQL: apt-get install postgresql", file=sys.stderr)
        sys.exit(2)
    sizes = [int(size) for size in args.rows.split(",")]
    place = Path(args.data).resolve() / "change"
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o755)
    cellar = HeapCellar(args.cellar, place / "cellar", 2, 3600)
    rival = LoggedPostgreSQL(place, 2)
    result = {}
    for rows in sizes:
        csv = place / f"{rows}.csv"
        write_csv(csv, rows)
        cellar.build(4 + rows // 1_000_000, args.memory)
        rival.build()
        rival.open()
        rounds = [run_round(cellar, rival, csv, number) for number in range(args.rounds)]
        result[rows] = report(rows, rounds)
        cellar.close()
        rival.close()
        csv.unlink()
        shutil.rmtree(place / "cellar")
        shutil.rmtree(rival.path)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
