#!/usr/bin/env python3
"""Measures Cellar's SQL scans against DuckDB, DataFusion, chDB and PostgreSQL: interleaved, on the
same rows, with the same threads, and only as long as all give the same answers. See README.md.

Exit codes: 0 measured (whether goals are met or not), 1 answers differ or nothing could be
measured, 2 wrong usage or something is missing.
"""

import argparse
import datetime
import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALL = f"pip install -r {HERE / 'requirements.txt'}"
PACKAGES = {"cellar": (), "duckdb": ("duckdb", "pyarrow"), "duckdb-parquet": ("duckdb", "pyarrow"),
            "datafusion": ("datafusion", "pyarrow"),
            "datafusion-filters": ("datafusion", "pyarrow"), "chdb": ("chdb", "pyarrow"),
            "postgresql": ("psycopg", "pyarrow")}


class Differ(Exception):
    """Two arms gave different answers."""


class Broken(Exception):
    """An arm does not start."""


def arguments():
    parser = argparse.ArgumentParser(
        description="Cellar's scans against rivals', interleaved, answers compared.")
    add = parser.add_argument
    add("--cellar", metavar="PATH", help="the release binary of cellar")
    add("--cellar-dir", metavar="DIR", help="its database with TPC-H's tables; made if left out")
    add("--data", metavar="DIR", default="rivals-data", help="where data is kept (%(default)s)")
    add("--scale", type=float, default=1, help="TPC-H's scale: 1 is 6 million rows of lineitem")
    add("--arms", help="which, with commas (cellar,duckdb,duckdb-parquet,datafusion,chdb)")
    add("--with", dest="more", action="append", default=[], metavar="ARM",
        help="one more arm: postgresql, datafusion-filters")
    add("--queries", metavar="NAMES", help="which, with commas; --list shows them")
    add("--tpch", action="store_true", help="all 22 queries of TPC-H, h1 to h22")
    add("--heap", action="store_true", help="Cellar's tables have their rows in the heap")
    add("--list", action="store_true", help="show the queries of round 0 and end")
    add("--rounds", type=int, default=7, help="measured rounds of each query (%(default)s)")
    add("--cold", action="store_true", help="empty the caches before each query; needs root")
    add("--sizes", action="store_true", help="bytes on disk of lineitem and lineitem_nc")
    add("--loads", type=int, nargs="?", const=3, metavar="N", help="load times, N rounds (3)")
    add("--threads", type=int, default=2, help="of each arm (%(default)s)")
    add("--seed", type=int, default=1, help="of the queries' constants (%(default)s)")
    add("--timeout", type=float, default=300, help="seconds a query may take (%(default)s)")
    add("--json", metavar="FILE", help="keep the run, with each single time")
    args = parser.parse_args()
    if args.rounds < 1 or args.threads < 1 or args.scale <= 0 or (args.loads or 1) < 1:
        parser.error("--rounds, --threads, --loads and --scale are more than 0")
    return args


def refuse(words):
    print(f"scan.py: {words}", file=sys.stderr)
    sys.exit(2)


def chosen_arms(args):
    """The arms' names in order; refuses what is not there rather than leave it out."""
    default = ("cellar", "duckdb", "duckdb-parquet", "datafusion", "chdb")
    names = list(args.arms.split(",") if args.arms else default) + args.more
    for name in names:
        if name not in PACKAGES:
            refuse(f"there is no arm {name}: {', '.join(PACKAGES)}")
    names = list(dict.fromkeys(names))
    if "cellar" in names:
        if not args.cellar:
            refuse("give --cellar PATH of a release binary (cargo build --release), or --arms "
                   "without cellar")
        if not os.access(args.cellar, os.X_OK) or not Path(args.cellar).is_file():
            refuse(f"{args.cellar} is not a program")
        if "debug" in Path(args.cellar).resolve().parts:
            refuse(f"{args.cellar} is a debug build: cargo build --release")
        args.cellar = str(Path(args.cellar).resolve())
    # Even without DuckDB and the like, rows and yardsticks need pyarrow.
    wanted = {package for name in names for package in PACKAGES[name]} | {"pyarrow"}
    missing = sorted(p for p in wanted if importlib.util.find_spec(p) is None)
    if missing:
        refuse(f"not installed: {', '.join(missing)}. Install with: {INSTALL}")
    return names


def check_machine(args, names):
    """Affinity holds every arm to the threads, also those that ask for more beside them."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < args.threads:
        refuse(f"{args.threads} threads on {len(cores)} cores: give --threads {len(cores)}")
    os.sched_setaffinity(0, cores[:args.threads])
    if args.cold and not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        refuse("--cold writes /proc/sys/vm/drop_caches: run it as root")
    if "postgresql" in names:
        import engines
        if engines.postgres_programs() is None:
            refuse("PostgreSQL's server is not installed: apt-get install postgresql")
    os.environ["TOKIO_WORKER_THREADS"] = str(args.threads)  # DataFusion's


def chosen_queries(args):
    import queries
    names = args.queries.split(",") if args.queries else []
    for name in names:
        if name not in queries.BY_NAME:
            refuse(f"there is no query {name}: {', '.join(queries.BY_NAME)}")
    picked = [queries.BY_NAME[name] for name in names]
    if args.tpch:
        picked += [query for query in queries.TPCH if query not in picked]
    only_loads = (args.sizes or args.loads) and not picked
    return picked or ([] if only_loads else list(queries.SCAN))


def machine():
    """What the figures belong to."""
    def first(path, key):
        lines = Path(path).read_text().splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "?")
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    return {"cpu": first("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "memory": first("/proc/meminfo", "MemTotal"), "kernel": platform.release(),
            "python": platform.python_version(), "load": os.getloadavg(), "commit": commit}


def make_arms(args, names, where, directory):
    import arms
    made = []
    for name in names:
        if name == "cellar":
            made.append(arms.Cellar(args.cellar, directory, args.threads, args.timeout))
        else:
            made.append(arms.Rival(name, where, args.threads, args.timeout))
    return made


def make_ready(arm):
    """Makes an arm's tables and opens them; its version and settings. Without all arms there is no
    comparison."""
    import arms as arms_module
    try:
        arm.build()
        arm.open()
        return arm.describe()
    except arms_module.Failed as error:
        raise Broken(f"{arm.name} cannot be used: {error}") from None


def measure(query, arms, args, record):
    """Rounds of a query: each arm once unmeasured, then in an order that rotates."""
    import arms as arms_module
    import compare
    import report
    failed, rows = {}, []

    def ask(arm, sql):
        try:
            if args.cold:
                record["flushed"][arm.name] = arm.make_cold()
            return arm.query(query, sql)
        except arms_module.Failed as error:
            failed[arm.name] = " ".join(str(error).split())[:400]
            return None

    warm = [] if args.cold else [-1]
    for turn in warm + list(range(args.rounds)):
        sql = query.sql(args.seed, turn, args.scale)
        at = max(turn, 0) % len(arms)
        answers = {}
        for arm in arms[at:] + arms[:at]:
            got = None if arm.name in failed else ask(arm, sql)
            if got is None:
                continue
            answers[arm.name] = got[1]
            rows.append({"round": turn, "arm": arm.name, "ms": round(got[0], 4),
                         "rows": len(got[1])})
        given = [arm.name for arm in arms if arm.name in answers]
        for other in given[1:]:
            differs = compare.difference(query, answers[given[0]], answers[other])
            if differs:
                raise Differ(f"{query.name}, round {turn}: {given[0]} and {other} differ in "
                             f"{differs}\n\n{sql}\n\n{given[0]}:\n"
                             f"{compare.show_answer(answers[given[0]])}\n{other}:\n"
                             f"{compare.show_answer(answers[other])}")
    measured = {}
    for arm in arms:
        times = [r["ms"] for r in rows if r["arm"] == arm.name and r["round"] >= 0]
        if times and arm.name not in failed:
            measured[arm.name] = report.figures(times)
    return {"about": query.about, "measured": measured, "failed": failed, "times": rows}


def measure_loads(arms, where, rounds):
    """Load times and sizes of lineitem with and without its comment."""
    import arms as arms_module
    import data
    rows = {}
    for table in data.YARDSTICK:
        path = data.yardstick(where, table)
        row = rows[table] = {"parquet_bytes": path.stat().st_size, "arms": {}, "failed": {}}
        for turn in range(rounds):
            path.read_bytes()  # Each finds the source in memory.
            at = turn % len(arms)
            for arm in arms[at:] + arms[:at]:
                if arm.name in row["failed"]:
                    continue
                try:
                    got = arm.load(str(path), table)
                except arms_module.Failed as error:
                    row["failed"][arm.name] = " ".join(str(error).split())[:400]
                    continue
                if got:
                    mine = row["arms"].setdefault(arm.name, {"seconds": []})
                    mine["seconds"].append(got[0])
                    mine["bytes"], mine["other"] = got[1:]
    return rows


def header(record, args):
    """What ran, as people read it."""
    about = record["machine"]
    lines = [f"{record['date']}  {about['cpu']}, {about['cores']} cores, kernel {about['kernel']}",
             f"scale {args.scale:g}, {args.threads} threads, {args.rounds} rounds, "
             f"{'cold' if args.cold else 'warm'}, seed {args.seed}, load "
             f"{about['load'][0]:.2f} before and {record['load_after']:.2f} after, "
             f"commit {about['commit']}"]
    for name, arm in record["arms"].items():
        settings = ", ".join(f"{key}={value}" for key, value in arm["settings"].items())
        lines += textwrap.wrap(f"{name} {arm['version']}: {settings}", 100, subsequent_indent="  ")
    for name, how in record["flushed"].items():
        lines.append(f"cold {name}: {how}")
    if record["raw_device"]:
        fastest = max(record["raw_device"])
        lines.append(f"raw device, O_DIRECT 1 MB x {args.threads}: {fastest:.0f} MB/s at best, "
                     f"{min(record['raw_device']):.0f} at worst")
    return lines


def show(record, args, names):
    import report
    print("\n".join(header(record, args)))
    if record["queries"]:
        for part in (report.detail(record["queries"], names),
                     report.summary(record["queries"], names),
                     report.tpch_means(record["queries"], names)
                     + report.failures(record["queries"])):
            print("\n" + "\n".join(part)) if part else None
    if record["loads"]:
        print("\n" + "\n".join(report.loads(record["loads"], names)))


def run(args, names, picked):
    import data
    where = data.place(args.data, args.scale)
    try:
        directory = data.make(where, args.scale, args.cellar, args.cellar_dir, args.heap)
    except data.Missing as error:
        refuse(error)
    arms = make_arms(args, names, where, directory)
    lineitem = where / "parquet" / "lineitem.parquet"
    record = {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
              "machine": machine(), "arguments": vars(args), "flushed": {}, "raw_device": [],
              "lineitem": dict(zip(("rows", "row_groups"), data.disk_rows(lineitem))),
              "queries": {}, "loads": {}, "difference": None}
    code = 0
    try:
        record["arms"] = {arm.name: make_ready(arm) for arm in arms}
        text = json.dumps([record["arms"], record["arguments"]], sort_keys=True, default=str)
        record["settings_hash"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        for query in picked:
            print(f"{query.name}: {query.about}", file=sys.stderr, flush=True)
            if args.cold:
                record["raw_device"].append(data.raw_device(lineitem, args.threads) or 0)
            record["queries"][query.name] = measure(query, arms, args, record)
        if args.sizes or args.loads:
            record["loads"] = measure_loads(arms, where, args.loads or 1)
    except Differ as difference:
        record["difference"] = str(difference)
        code = 1
    except Broken as error:
        print(f"scan.py: {error}", file=sys.stderr)
        return 1
    finally:
        for arm in arms:
            arm.close()
    record["load_after"] = os.getloadavg()[0]
    if args.json:
        data.save(args.json, record)
    show(record, args, names)
    if record["difference"]:
        print(f"\nscan.py: {record['difference']}", file=sys.stderr)
    if record["queries"] and not any(q["measured"] for q in record["queries"].values()):
        code = 1
    return code


def main():
    args = arguments()
    picked = chosen_queries(args)
    if args.list:
        for query in picked:
            print(f"-- {query.name}: {query.about}\n{query.sql(args.seed, 0, args.scale)};\n")
        return 0
    names = chosen_arms(args)
    check_machine(args, names)
    return run(args, names, picked)


if __name__ == "__main__":
    sys.exit(main())
