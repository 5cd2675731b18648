"""The tables that a run ends with, in at most 100 columns."""

import math
import statistics

from queries import GOALS, TPCH_MEAN_GOAL

WIDTH = 100
# Where seven arms stand beside one another.
SHORT = {"duckdb-parquet": "duck-pq", "datafusion": "df", "datafusion-filters": "df-filt",
         "postgresql": "pg"}


def middle_spread(times):
    """Max by min of the middle half: what noise leaves in the median."""
    times = sorted(times)
    cut = len(times) // 4
    middle = times[cut:len(times) - cut]
    return middle[-1] / middle[0] if middle[0] > 0 else math.inf


def figures(times):
    """Median, minimum and spread of some milliseconds."""
    return {"median": statistics.median(times), "min": min(times),
            "spread": middle_spread(times)}


def ms(value):
    """Milliseconds with about three digits that mean something."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def ratio(measured, rival):
    """How many times longer than Cellar's median a rival's is; None if one has none."""
    if "cellar" not in measured or rival not in measured:
        return None
    return measured[rival]["median"] / measured["cellar"]["median"]


def best_rival(measured):
    """The fastest that is not Cellar."""
    rivals = [arm for arm in measured if arm != "cellar"]
    return min(rivals, key=lambda arm: measured[arm]["median"], default=None)


def judge(name, result):
    """[(rival, goal, verdict)] of a query; one that Cellar cannot run is missed."""
    rows = []
    for rival, goal in GOALS.get(name, ()):
        got = ratio(result["measured"], rival)
        if got is None:
            word = "MISSED" if "cellar" in result["failed"] else "-"
        else:
            word = "MET" if got >= goal else "MISSED"
        rows.append((rival, goal, word))
    return rows


def verdict(name, result):
    """All goals of a query in a word."""
    words = {row[2] for row in judge(name, result)}
    return "MISSED" if "MISSED" in words else "MET" if "MET" in words else "-"


def detail(results, arms):
    """A line for each query and arm."""
    lines = [f"{'query':<13} {'arm':<19}{'median ms':>10}{'min ms':>10}{'spread':>8}"
             f"{'by cellar':>11}  goals", "-" * WIDTH]
    for name, result in results.items():
        goals = {rival: f"{goal:g}x {word}" for rival, goal, word in judge(name, result)}
        for at, arm in enumerate(arms):
            label = name if at == 0 else ""
            got = result["measured"].get(arm)
            if got is None:
                why = result["failed"].get(arm, "not run")
                lines.append(f"{label:<13} {arm:<19}{'fails':>10}  {why}"[:WIDTH])
                continue
            by = ratio(result["measured"], arm)
            by = f"{by:.2f}x" if by and arm != "cellar" else ""
            lines.append(f"{label:<13} {arm:<19}{ms(got['median']):>10}{ms(got['min']):>10}"
                         f"{got['spread']:>8.2f}{by:>11}  {goals.get(arm, '')}".rstrip())
    return lines


def summary(results, arms):
    """A line for each query: medians, the best rival's ratio, the verdict."""
    wide = min(14, (WIDTH - 13 - 10 - 8) // len(arms))
    head = "".join(f"{SHORT.get(arm, arm):>{wide}}" for arm in arms)
    lines = [f"{'median ms':<13}{head}{'best/ours':>10}{'goal':>8}", "-" * WIDTH]
    for name, result in results.items():
        measured = result["measured"]
        cells = "".join(f"{ms(measured[arm]['median']) if arm in measured else 'fails':>{wide}}"
                        for arm in arms)
        best = ratio(measured, best_rival(measured))
        best = f"{best:.2f}x" if best else "-"
        lines.append(f"{name:<13}{cells}{best:>10}{verdict(name, result):>8}")
    return lines


def tpch_means(results, arms):
    """Geometric means of the rivals' ratios over TPC-H's queries; the goal is for all 22."""
    names = [name for name in results if name.startswith("h")]
    lines = []
    for arm in arms if names and "cellar" in arms else ():
        ratios = [ratio(results[name]["measured"], arm) for name in names]
        ratios = [r for r in ratios if r]
        if arm == "cellar" or not ratios:
            continue
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        line = f"TPC-H, geometric mean of {arm} by cellar: {mean:.2f}x over {len(ratios)} queries"
        if arm == TPCH_MEAN_GOAL[0]:
            full = len(ratios) == 22
            word = ("MET" if mean >= TPCH_MEAN_GOAL[1] else "MISSED") if full else "- (not all 22)"
            line += f"; goal {TPCH_MEAN_GOAL[1]:g}x: {word}"
        lines.append(line)
    return lines


def failures(results):
    """What an arm could not run, and why."""
    return [f"{name}: {arm} fails: {why}" for name, result in results.items()
            for arm, why in result["failed"].items()]


def loads(rows, arms):
    """Load times and sizes; the yardstick is the Parquet file that each loads."""
    lines = [f"{'loaded from Parquet':<22}{'arm':<19}{'median s':>10}{'min s':>9}{'MB':>10}"
             f"{'by parquet':>12}{'by cellar':>11}", "-" * WIDTH]
    for table, row in rows.items():
        ours = row["arms"].get("cellar")
        lines.append(f"{table:<22}{'(parquet zstd)':<19}{'':>10}{'':>9}"
                     f"{row['parquet_bytes'] / 1e6:>10.1f}{'1.00':>12}")
        for arm in arms:
            got = row["arms"].get(arm)
            if got is None:
                lines.append(f"{'':<22}{arm:<19}{row['failed'].get(arm, 'reads Parquet')}"[:WIDTH])
                continue
            median, size = statistics.median(got["seconds"]), got["bytes"]
            by = median / statistics.median(ours["seconds"]) if ours else None
            lines.append(f"{'':<22}{arm:<19}{median:>10.2f}{min(got['seconds']):>9.2f}"
                         f"{size / 1e6:>10.1f}{size / row['parquet_bytes']:>12.2f}"
                         f"{f'{by:.2f}x' if by else '':>11}")
            for how, other in got["other"].items():
                lines.append(f"{'':<22}{f'  in {how}':<19}{'':>10}{'':>9}{other / 1e6:>10.1f}"
                             f"{other / row['parquet_bytes']:>12.2f}")
    return lines
