#!/usr/bin/env python3
"""Measures commits of Cellar's redo log and of its store of rows against RocksDB, SQLite, redb, fjall, LMDB and bare
writes: interleaved, on the same file system, each record durable before its committer goes on; or, with --reads, reads
of rows in memory by their keys. See README.md.

Exit codes: 0 measured (whether goals are met or not), 1 an arm failed, 2 wrong usage or something
is missing.
"""

import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import report
import scan

WIDTH = 110
# Rivals by which Cellar is judged; raw is the yardstick of the disk.
YARDSTICK = "raw"
# Nothing is judged where others kept more cores busy than this: waiting for a core is longer than
# a commit.
OTHERS_MOST = 0.2
# Ours: the redo log alone, and the store of rows over it.
OURS = ("cellar", "heap", "heap-mirrored")
# (which of ours, committers): how many times the best rival.
GOALS = {("cellar", 1): 1.3, ("cellar", 64): 1.5, ("heap", 1): 1.0, ("heap", 64): 2.0}
DEFAULT = ("cellar", "heap", "heap-mirrored", "raw", "rocksdb", "sqlite", "sqlite-grouped", "redb", "redb-grouped", "fjall",
           "fjall-grouped", "lmdb", "lmdb-grouped")
# Those that find rows by key.
READS = ("heap", "rocksdb", "sqlite", "redb", "fjall", "lmdb")
# Of a read by one reader, in nanoseconds; and how many times the reads of one two readers make.
READ_GOALS = (2000, 1.8)


def arguments():
    parser = argparse.ArgumentParser(
        description="Commits of Cellar's redo log, its store and their rivals, interleaved.")
    add = parser.add_argument
    add("--program", metavar="PATH", help="the release binary of commit-rivals")
    add("--dir", metavar="DIR", default="rivals-data/commit",
        help="where files are made, on the disk that is measured (%(default)s); about 2 GB")
    add("--arms", help=f"which, with commas ({','.join(DEFAULT)})")
    add("--with", dest="more", action="append", default=[], metavar="ARM",
        help="one more arm: rocksdb-pipelined")
    add("--committers", default="1,64", help="how many, with commas (%(default)s)")
    add("--rows", type=int, default=0,
        help="that are there before, of which committers change any (0: one for each committer)")
    add("--reads", action="store_true",
        help="reads of rows by key, in memory, in place of commits; 100,000 rows if --rows does not say")
    add("--readers", default="1,2", help="with --reads: how many, with commas (%(default)s)")
    add("--bytes", type=int, default=1024, help="of a record (%(default)s)")
    add("--block", type=int, default=4096, choices=(512, 4096),
        help="of Cellar's log and of raw (%(default)s)")
    add("--cache", type=int, default=0, metavar="MIB",
        help="memory for pages; without, all rows stay in memory")
    add("--rounds", type=int, default=5, help="of all arms (%(default)s)")
    add("--seconds", type=float, default=2, help="that an arm is measured (%(default)s)")
    add("--warm", type=float, default=0.5, help="seconds before, uncounted (%(default)s)")
    add("--threads", type=int, default=2, help="cores of each arm, by affinity (%(default)s)")
    add("--json", metavar="FILE", help="keep the run, with each single figure")
    args = parser.parse_args()
    if args.reads and args.rows == 0:
        args.rows = 100_000
    if args.rounds < 1 or args.threads < 1 or args.seconds <= 0 or args.bytes < 8:
        parser.error("--rounds, --threads and --seconds are more than 0, --bytes at least 8")
    return args


def refuse(words):
    print(f"commit.py: {words}", file=sys.stderr)
    sys.exit(2)


def chosen(args):
    """(arms, numbers of committers); refuses what is not there rather than leave it out."""
    if not args.program or not os.access(args.program, os.X_OK):
        refuse("give --program PATH of commit-rivals: cd benches/rivals/commit && "
               "cargo build --release --features rocksdb")
    args.program = str(Path(args.program).resolve())
    if "debug" in Path(args.program).parts:
        refuse(f"{args.program} is a debug build: cargo build --release")
    there = subprocess.run([args.program, "list-reads" if args.reads else "list"], capture_output=True, text=True,
                           check=True).stdout.split()
    names = list(dict.fromkeys((args.arms.split(",") if args.arms else list(READS if args.reads else DEFAULT))
                               + args.more))
    for name in names:
        if name not in there:
            hint = ": build with --features rocksdb, or give --arms" if "rocksdb" in name else ""
            refuse(f"{args.program} has no arm {name}{hint}; it has {', '.join(there)}")
    asked = args.readers if args.reads else args.committers
    try:
        counts = [int(word) for word in asked.split(",")]
    except ValueError:
        refuse(f"{asked}: numbers with commas")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < args.threads:
        refuse(f"{args.threads} threads on {len(cores)} cores: give --threads {len(cores)}")
    os.sched_setaffinity(0, cores[:args.threads])
    return names, counts


def busy_seconds():
    """(seconds that all cores were busy, of those our children's, ended ones)."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = [int(word) for word in words]
    # User, nice, system, interrupts, soft interrupts, stolen.
    busy = sum(ticks[at] for at in (0, 1, 2, 5, 6, 7)) / os.sysconf("SC_CLK_TCK")
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy, ours.ru_utime + ours.ru_stime


def run_arm(args, arm, count):
    """What one process of an arm prints, and how many cores others kept busy meanwhile."""
    before, start = busy_seconds(), time.monotonic()
    words = [args.program, arm, "--dir", args.dir, "--bytes", args.bytes, "--seconds", args.seconds,
             "--warm", args.warm, "--block", args.block, "--workers", args.threads, "--rows", args.rows,
             "--cache", args.cache, "--readers" if args.reads else "--committers", count]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"commit.py: {arm}, {count} at once: {done.stderr.strip()}",
              file=sys.stderr)
        sys.exit(1)
    after, took = busy_seconds(), time.monotonic() - start
    got = json.loads(done.stdout)
    got["others"] = max(0, after[0] - before[0] - after[1] + before[1]) / took
    return got


def measure(args, names, counts):
    """Every arm once a round, in an order that rotates. A grouping of one is none."""
    runs = []
    for turn in range(args.rounds):
        for count in counts:
            arms = [n for n in names if count > 1 or not n.endswith("-grouped")]
            at = turn % len(arms)
            for arm in arms[at:] + arms[:at]:
                got = run_arm(args, arm, count)
                got["round"] = turn
                runs.append(got)
        print(f"round {turn + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return runs


def figures(runs):
    """Medians over the rounds of one arm with so many committers."""
    def median(of):
        return statistics.median(of(run) for run in runs)
    rates = [run["per_second"] for run in runs]
    result = {"per_second": statistics.median(rates), "spread": report.middle_spread(rates)}
    result |= {key: median(lambda run: run["us"][key]) for key in runs[0]["us"]}
    result["cpu_us"] = median(lambda run: run["cpu_us"])
    for key in ("writes", "flushes", "bytes"):
        result[f"{key}_each"] = median(lambda run: run["disk"][key] / max(run["commits"], 1))
    return result


def summary(runs, names, counts):
    """{committers: {arm: figures}}"""
    table = {}
    for committers in counts:
        mine = table[committers] = {}
        for arm in names:
            of_arm = [r for r in runs if r["arm"] == arm and r["committers"] == committers]
            if of_arm:
                mine[arm] = figures(of_arm)
    return table


def show_reads(record, args, names):
    """Medians over the rounds; two readers by one, round by round."""
    runs, times = record["runs"], {}
    counts = sorted({run["readers"] for run in runs})
    print(f"\n{'':<18}{'readers':>8}{'reads/s':>12}{'spread':>8}{'ns each':>9}{'ns CPU':>9}{'by 1':>8}")
    print("-" * WIDTH)
    for arm in names:
        of_arm = {n: [r for r in runs if r["arm"] == arm and r["readers"] == n] for n in counts}
        for count, mine in of_arm.items():
            rates = [run["per_second"] for run in mine]
            each, cpu = (statistics.median(run[key] for run in mine) for key in ("ns", "cpu_ns"))
            scale = ""
            if count > 1 and of_arm.get(1):
                ratios = [run["per_second"] / one["per_second"] for run, one in zip(mine, of_arm[1])]
                times[arm, count] = statistics.median(ratios)
                scale = f"{times[arm, count]:.2f}x"
            elif count == 1:
                times[arm, 1] = each
            print(f"{arm:<18}{count:>8}{statistics.median(rates):>12.0f}{report.middle_spread(rates):>8.2f}"
                  f"{each:>9.0f}{cpu:>9.0f}{scale:>8}")
    busy = record["others"][0] > OTHERS_MOST
    for count, goal, words in ((1, READ_GOALS[0], "ns a read"), (2, READ_GOALS[1], "times one reader's")):
        got = times.get(("heap", count))
        if got is not None:
            met = got <= goal if count == 1 else got >= goal
            word = "not judged, others were busy" if busy else "MET" if met else "MISSED"
            print(f"heap: {got:.3g} {words} (goal {goal:g}: {word})")


def judge(ours, committers, measured, others):
    """(best rival, how many times its commits `ours` does, the verdict); None without both."""
    rivals = [arm for arm in measured if arm not in (*OURS, YARDSTICK)]
    if ours not in measured or not rivals:
        return None
    best = max(rivals, key=lambda arm: measured[arm]["per_second"])
    got = measured[ours]["per_second"] / measured[best]["per_second"]
    goal = GOALS.get((ours, committers))
    word = "MET" if goal and got >= goal else "MISSED"
    if others > OTHERS_MOST:
        word = "not judged, others were busy"
    return best, got, goal, word


def show(record, args, names):
    about = record["machine"]
    print(f"{record['date']}  {about['cpu']}, {about['cores']} cores, kernel {about['kernel']}")
    rows = f"{args.rows} rows" if args.rows else "records"
    print(f"{rows} of {args.bytes} bytes, {args.threads} cores, {args.rounds} rounds of "
          f"{args.seconds:g} s, load {about['load'][0]:.2f} before and "
          f"{record['load_after']:.2f} after, commit {about['commit']}")
    where = "all in memory" if args.reads else f"files in {args.dir}, on {record['disk']}"
    print(f"{where}; others kept "
          f"{record['others'][0]:.2f} cores busy (median; at most {record['others'][1]:.2f})")
    for name in names:
        words = record["arms"].get(name)
        if words:
            more = f"; grouped {words['grouped']}" if "grouped" in words else ""
            print(f"{name} {words['version']}: {words['how']}{more}")
    if args.reads:
        show_reads(record, args, names)
        return
    for committers, measured in record["table"].items():
        plural = "" if committers == 1 else "s"
        print(f"\n{f'{committers} committer{plural}':<18}{'commits/s':>10}{'spread':>8}"
              f"{'cellar by':>11}{'p50 us':>9}{'p99 us':>9}{'p99.9':>9}{'writes':>8}"
              f"{'flushes':>9}{'KB':>8}{'CPU us':>9}")
        print("-" * WIDTH)
        ours = measured.get("cellar")
        for arm, got in measured.items():
            by = f"{ours['per_second'] / got['per_second']:.2f}x" if ours and arm != "cellar" else ""
            print(f"{arm:<18}{got['per_second']:>10.0f}{got['spread']:>8.2f}{by:>11}"
                  f"{got['p50']:>9.0f}{got['p99']:>9.0f}{got['p999']:>9.0f}"
                  f"{got['writes_each']:>8.2f}{got['flushes_each']:>9.2f}"
                  f"{got['bytes_each'] / 1024:>8.1f}{got['cpu_us']:>9.1f}")
        for arm in OURS:
            verdict = judge(arm, committers, measured, record["others"][0])
            if verdict:
                best, got, goal, word = verdict
                asked = f" (goal {goal:g}x: {word})" if goal else ""
                print(f"{arm} by the best rival, {best}: {got:.2f}x{asked}")
    print("\nwrites, flushes and KB are the disk's, for a commit; others' work is in them.")


def main():
    args = arguments()
    names, counts = chosen(args)
    record = {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
              "machine": scan.machine(), "arguments": vars(args)}
    runs = measure(args, names, counts)
    record["runs"] = runs
    record["arms"] = {run["arm"]: run["about"] for run in runs}
    record["disk"] = runs[0].get("disk", {}).get("name") or "no disk"
    others = [run["others"] for run in runs]
    record["others"] = (statistics.median(others), max(others))
    record["load_after"] = os.getloadavg()[0]
    record["table"] = {} if args.reads else summary(runs, names, counts)
    if args.json:
        Path(args.json).write_text(json.dumps(record, indent=1, default=str) + "\n")
    show(record, args, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
