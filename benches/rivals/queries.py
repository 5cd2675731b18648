"""The scan set: queries over lineitem, each with constants that differ from round to round.

A constant that stayed the same would let a cache of results or of filters win. `sum`, `topk`,
`minmax` and `group_top` have none; the arms' caches of results are off (see engines.py).
"""

import datetime
import random
from dataclasses import dataclass
from typing import Callable, Optional

import tpch


@dataclass(frozen=True)
class Query:
    """A query, and how its answers are compared."""

    name: str
    about: str
    # (random numbers, scale) -> the text; 0.05m in it is a decimal literal, see `plain`.
    text: Callable[[random.Random, float], str]
    # Positions of the columns it is ordered by; None where the order is open.
    order: Optional[tuple] = None
    # Whether LIMIT cuts: then rows that tie with the last one may be any of those that tie.
    limit: bool = False
    # Positions of averages and quotients: engines differ in the digits that they keep of these.
    approx: tuple = ()
    # Whether thousands of rows come back: then DuckDB hands them over as Arrow, which is faster.
    many: bool = False

    def sql(self, seed, turn, scale):
        """Its text in round `turn`; the same for each arm, and for each run with this seed."""
        return self.text(random.Random(f"{seed}/{self.name}/{turn}"), scale).strip()


def day(rng, first, last):
    """A day between two, as a literal's text."""
    first, last = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last)
    return first + datetime.timedelta(days=rng.randint(0, (last - first).days))


def date_range(rng, scale):
    """A year that begins on any day: about a seventh of the rows, in no clustered order."""
    start = day(rng, "1992-03-01", "1997-06-30")
    end = start + datetime.timedelta(days=364)
    return ("select count(*) as n from lineitem "
            f"where l_receiptdate between date '{start}' and date '{end}'")


def select_star(rng, scale):
    """About 22 rows that lie anywhere: one part's, of three quarters of the suppliers."""
    part = rng.randint(1, max(1, int(200_000 * scale)))
    suppliers = max(4, int(10_000 * scale))
    low = rng.randint(1, suppliers // 4)
    return (f"select * from lineitem where l_partkey = {part} "
            f"and l_suppkey between {low} and {low + suppliers * 3 // 4}")


def point(rng, scale):
    """The rows of one order: clustered, so that zone maps help. Order keys are 8 of each 32."""
    number = rng.randint(0, max(0, int(1_500_000 * scale) - 1))
    return f"select * from lineitem where l_orderkey = {number // 8 * 32 + number % 8 + 1}"


def ship_mode(rng, scale):
    """A seventh of the rows."""
    return f"select count(*) as n from lineitem where l_shipmode = '{rng.choice(tpch.MODES)}'"


def return_flag(rng, scale):
    """A quarter or a half of the rows."""
    return f"select count(*) as n from lineitem where l_returnflag = '{rng.choice('ANR')}'"


def star_join(rng, scale):
    """0.1 % of the parts."""
    return ("select sum(l_extendedprice) as s from lineitem, part where p_partkey = l_partkey "
            f"and p_brand = '{tpch.brand(rng)}' and p_container = '{tpch.container(rng)}'")


def star_join_1pc(rng, scale):
    """1 % of the parts."""
    size = rng.randint(1, 37)
    return ("select sum(l_extendedprice) as s from lineitem, part where p_partkey = l_partkey "
            f"and p_brand = '{tpch.brand(rng)}' and p_size between {size} and {size + 12}")


def like(rng, scale):
    """A word of the text's grammar, anywhere in the comment."""
    word = rng.choice(("special", "request", "express", "pending", "ironic", "sleep", "theodolite",
                       "pinto", "instruction", "foxes", "dolphin", "warthog"))
    return f"select count(*) as n from lineitem where l_comment like '%{word}%'"


def fixed(sql):
    """A query without constants."""
    return lambda rng, scale: sql


SCAN = (
    Query("q6", "TPC-H Q6: three filters, a sum of a product", tpch.q6),
    Query("q1", "TPC-H Q1: eight aggregates, four groups", tpch.q1, order=(0, 1),
          approx=(6, 7, 8)),
    Query("date_range", "count of an unclustered range of dates", date_range),
    Query("select_star", "select * of about 22 rows that lie anywhere", select_star),
    Query("point", "select * of one order, clustered", point),
    Query("shipmode", "count of l_shipmode = one of 7", ship_mode),
    Query("returnflag", "count of l_returnflag = one of 3", return_flag),
    Query("sum", "sum of a decimal column", fixed(
        "select sum(l_extendedprice) as s from lineitem")),
    Query("star_join", "join with 0.1 % of the parts, a sum", star_join),
    Query("star_join_1pc", "join with 1 % of the parts, a sum", star_join_1pc),
    Query("topk", "the 10 dearest rows", fixed(
        "select l_extendedprice, l_orderkey, l_linenumber from lineitem "
        "order by l_extendedprice desc limit 10"), order=(0,), limit=True),
    Query("minmax", "min, max and count of l_shipdate", fixed(
        "select min(l_shipdate) as lo, max(l_shipdate) as hi, count(l_shipdate) as n "
        "from lineitem")),
    Query("like", "count of l_comment like '%word%'", like),
    Query("group_top", "sums by l_suppkey, the 5 largest", fixed(
        "select l_suppkey, sum(l_extendedprice) as s, count(*) as n from lineitem "
        "group by l_suppkey order by s desc, l_suppkey limit 5"), order=(1, 0), limit=True),
)

# How TPC-H's answers are ordered and compared; what is not named has one row, or defaults.
_TPCH = {
    1: dict(order=(0, 1), approx=(6, 7, 8)),
    2: dict(order=(0, 2, 1, 3), limit=True),
    3: dict(order=(1, 2), limit=True),
    4: dict(order=(0,)),
    5: dict(order=(1,)),
    7: dict(order=(0, 1, 2)),
    8: dict(order=(0,), approx=(1,)),
    9: dict(order=(0, 1)),
    10: dict(order=(2,), limit=True),
    11: dict(order=(1,), many=True),
    12: dict(order=(0,)),
    13: dict(order=(1, 0)),
    14: dict(approx=(0,)),
    15: dict(order=(0,)),
    16: dict(order=(3, 0, 1, 2), many=True),
    17: dict(approx=(0,)),
    18: dict(order=(4, 3), limit=True),
    20: dict(order=(0,), many=True),
    21: dict(order=(1, 0), limit=True),
    22: dict(order=(0,)),
}

TPCH = tuple(
    Query(f"h{n}", f"TPC-H Q{n}", text, **_TPCH.get(n, {})) for n, text in tpch.ALL.items()
)

BY_NAME = {query.name: query for query in SCAN + TPCH}

# What the ratio of an arm's median to Cellar's has to be at least.
GOALS = {
    "q6": [("duckdb", 2.0)],
    "q1": [("duckdb", 2.5)],
    "date_range": [("duckdb", 4.0)],
    "select_star": [("duckdb", 3.0)],
    "shipmode": [("duckdb", 8.0)],
    "returnflag": [("duckdb", 8.0)],
    "sum": [("duckdb", 1.3)],
    "star_join": [("duckdb", 1.5)],
    "star_join_1pc": [("duckdb", 1.5)],
    "topk": [("duckdb", 1.0)],
    "minmax": [("duckdb", 1.0)],
}
for _n in range(1, 23):
    GOALS[f"h{_n}"] = [("datafusion", 1.5)]
for _n in (1, 6, 12, 14, 15):
    GOALS[f"h{_n}"].append(("duckdb", 1.0))

# The geometric mean over all 22, not over some.
TPCH_MEAN_GOAL = ("duckdb", 0.9)
