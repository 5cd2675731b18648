#!/usr/bin/env python3
"""Where the time of each query goes: in the cell, waiting for disks, above the cell.

    python3 benches/rivals/where.py --cellar target/release/cellar --db rivals-data/sf1/cellar [--scale 1]

The database is one that scan.py has made. Each query runs three times, warm; the last run is told. `cell` is
time of cores that filtered and aggregated encoded columns (v$cell_scan.compute_ms), `waits` that of workers
that waited for reads, `above` what is left of the time of all cores: DataFusion's joins, groups and sorts, planning,
and cores that had nothing to do.
"""

import argparse
import csv
import io
import os
import random
import re
import subprocess

import queries

SCANS = (
    "select coalesce(sum(compute_ms), 0), coalesce(sum(wait_ms), 0), coalesce(sum(row_groups), 0), "
    "coalesce(sum(row_groups_pruned + row_groups_by_header), 0), coalesce(sum(disk_bytes + cache_bytes), 0), "
    "coalesce(sum(returned_bytes), 0) from v$cell_scan where scan# > {after}"
)


def run(args, text):
    """The results of statements, each as rows, and the milliseconds that each took."""
    command = [args.cellar, "sql", args.db, "-f", "-", "--format", "csv", "--time"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    times = [float(found) for found in re.findall(r"Time: ([\d.]+) ms", done.stderr)]
    return list(csv.reader(io.StringIO(done.stdout))), times


def measured(args, query):
    """Milliseconds of a query, and what its scans did."""
    sql = query.text(random.Random(1), args.scale).replace("0.05m", "0.05").rstrip("; ")
    sql = re.sub(r"(\d\.\d+)m\b", r"\1", sql)
    count = "select coalesce(max(scan#), 0) as scan_count from v$cell_scan"
    # How many scans one run makes is known from the first two.
    rows, _ = run(args, f"{sql};\n{count};\n{sql};\n{count};")
    counts = [int(row[0]) for index, row in enumerate(rows) if rows[index - 1] == ["scan_count"]]
    scans = counts[1] - counts[0]
    rows, times = run(args, f"{sql};\n{sql};\n{sql};\n{SCANS.format(after=2 * scans)};")
    return times[2], [float(cell) for cell in rows[-1]]


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Where the time of each query goes.")
    parser.add_argument("--cellar", required=True, help="the release binary of cellar")
    parser.add_argument("--db", required=True, help="a database that scan.py has made")
    parser.add_argument("--scale", type=float, default=1, help="its scale (1)")
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    head = ("query", "ms", "cell %", "waits %", "above %", "row groups", "left out", "looked at", "returned")
    print(f"{cores} cores; shares of the time of all cores; bytes in KB")
    print("{:<14}{:>8}{:>8}{:>9}{:>9}{:>12}{:>10}{:>11}{:>10}".format(*head))
    for query in list(queries.SCAN) + list(queries.TPCH):
        took, (cell, waits, groups, left_out, looked, returned) = measured(args, query)
        whole = cores * took
        shares = [100 * cell / whole, 100 * waits / whole]
        shares.append(max(0.0, 100 - sum(shares)))
        print(
            f"{query.name:<14}{took:>8.1f}{shares[0]:>8.0f}{shares[1]:>9.0f}{shares[2]:>9.0f}"
            f"{groups:>12.0f}{left_out:>10.0f}{looked / 1000:>11.0f}{returned / 1000:>10.0f}"
        )


if __name__ == "__main__":
    main()
