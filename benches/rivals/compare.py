"""Whether two arms gave the same answer.

Whole numbers and decimals must be the same number. Where an engine answers in floating point, or
the column is an average or a quotient (`Query.approx`), 1e-9 of it may differ; a decimal quotient
may also differ by one unit of its last digit, because engines cut these off at 4 to 20 digits.
"""

import datetime
from decimal import Decimal

RELATIVE = 1e-9
# A quotient with fewer digits than this is not excused by them.
COARSEST_UNIT = Decimal("0.0001")


def plain(value):
    """A value as arms are compared in it: dates as text, the way Cellar's JSON has them."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode()
    return value


def is_number(value):
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def unit(value):
    """One unit of the last digit of a decimal; of others, nothing."""
    if not isinstance(value, Decimal) or not value.is_finite():
        return 0.0
    step = Decimal(1).scaleb(value.as_tuple().exponent)
    return float(step) if step <= COARSEST_UNIT else 0.0


def same(a, b, approx):
    """Whether two values are the same one."""
    if not (is_number(a) and is_number(b)):
        return a == b and type(a) is type(b)
    if a == b:
        return True
    if not approx and not isinstance(a, float) and not isinstance(b, float):
        return False
    x, y = float(a), float(b)
    slack = RELATIVE * max(abs(x), abs(y))
    if approx:
        # A trifle more than the unit, which floating point cannot say exactly.
        slack = max(slack, 1.000001 * unit(a), 1.000001 * unit(b))
    return abs(x - y) <= slack


def sorted_rows(rows, inexact):
    """Rows in an order in which both answers have them: by exact columns, then by the others."""
    def key(row):
        def part(value):
            return (value is not None, is_number(value), value if value is not None else 0)
        exact = [part(v) for i, v in enumerate(row) if i not in inexact]
        return exact, [part(v) for i, v in enumerate(row) if i in inexact]
    return sorted(rows, key=key)


def difference(query, a, b):
    """What differs between two answers to `query`, in words; None if nothing does."""
    if len(a) != len(b):
        return f"{len(a)} rows and {len(b)} rows"
    if not a:
        return None
    width = len(a[0])
    if any(len(row) != width for row in a + b):
        return f"{width} columns and {len(b[0])} columns"
    inexact = set(query.approx)
    inexact |= {i for i in range(width) if any(isinstance(row[i], float) for row in a + b)}

    def same_row(x, y, columns):
        return all(same(x[i], y[i], i in query.approx) for i in columns)

    if query.order:
        for at, (x, y) in enumerate(zip(a, b), 1):
            if not same_row(x, y, query.order):
                return f"row {at} in order:\n  {show(x)}\n  {show(y)}"
    if query.limit and len(a) > 1:
        # Any of the rows that tie with the last may have been left out.
        last = a[-1]
        a = [row for row in a if not same_row(row, last, query.order)]
        b = [row for row in b if not same_row(row, last, query.order)]
    for x, y in zip(sorted_rows(a, inexact), sorted_rows(b, inexact)):
        if not same_row(x, y, range(width)):
            return f"a row:\n  {show(x)}\n  {show(y)}"
    return None


def show(row):
    """A row as people read it."""
    return " | ".join("NULL" if value is None else str(value) for value in row)


def show_answer(rows, most=8):
    """The first rows of an answer."""
    lines = ["  " + show(row) for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"  ... {len(rows)} rows")
    return "\n".join(lines) or "  no rows"
