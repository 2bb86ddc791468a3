"""How results show themselves: one small HTML table with everything escaped, text as the fallback."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

__all__ = ["MISSING", "counted", "format_value", "summary_html", "summary_text"]

# what stands in a table where a figure does not exist: α of a policy without one, an interval of one run
MISSING = "n/a"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun in the right number: `1 row`, `1,204 rows`.

    Parameters
    ----------
    count : int
        How many.
    one : str
        The noun for one.
    many : str, optional
        For any other number; with an s by default.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def format_value(value: object) -> str:
    """Format one figure for people: four significant digits for floats, thousands separators for ints."""
    if isinstance(value, bool) or value is None:
        return "none" if value is None else ("yes" if value else "no")
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) or hasattr(value, "dtype"):
        number = float(value)  # type: ignore[arg-type]
        if math.isnan(number):
            return MISSING
        return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.4g}"
    return str(value)


def summary_text(title: str, rows: Mapping[str, object]) -> str:
    """One `name: value` line a row under a title."""
    width = max((len(name) for name in rows), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {format_value(value)}" for name, value in rows.items())])


def summary_html(title: str, rows: Mapping[str, object]) -> str:
    """Return a two-column HTML table under a caption; every text is escaped."""
    body = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:right'>{escape(format_value(value))}</td></tr>"
        for name, value in rows.items()
    )
    return (
        "<table><caption style='text-align:left;font-weight:600'>"
        f"{escape(title)}</caption><tbody>{body}</tbody></table>"
    )
