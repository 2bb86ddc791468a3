"""How results show themselves: small HTML tables with everything escaped, text as the fallback."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MISSING",
    "counted",
    "format_column",
    "format_value",
    "frame_html",
    "summary_html",
    "summary_text",
]

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
    if value is None:
        return "none"
    if isinstance(value, bool) or _kind(value) == "b":
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) or _kind(value) in "iuf":
        number = float(value) + 0.0  # type: ignore[arg-type]  # no -0
        if math.isnan(number):
            return MISSING
        whole = abs(number) < 1e15 and (number.is_integer() or abs(number) >= 999.5)
        return f"{number:,.0f}" if whole else f"{number:.4g}"
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


def format_column(values: Sequence[object]) -> tuple[list[str], bool]:
    """Format one column of a table for people.

    Parameters
    ----------
    values : sequence
        Its cells; None and NaN stand for what does not exist.

    Returns
    -------
    texts : list of str
        Numbers with as many digits after the point as they have, at most four and at most so many that the
        largest shows five in all; True and False as yes and no; and `MISSING`.
    numeric : bool
        Whether all that exists is a number, so that the column is set to the right.
    """
    there = [value for value in values if not _is_missing(value)]
    numeric = bool(there) and all(_is_number(value) for value in there)
    if not numeric:
        return [MISSING if _is_missing(value) else format_value(value) for value in values], False
    numbers = [None if _is_missing(value) else float(value) + 0.0 for value in values]  # type: ignore[arg-type]
    digits = _digits([abs(number) for number in numbers if number])
    if digits is None:
        return [MISSING if number is None else format_value(number) for number in numbers], True
    return [MISSING if number is None else f"{number:,.{digits}f}" for number in numbers], True


def _digits(sizes: Sequence[float]) -> int | None:
    """Digits after the point for all of a column, or None if no one number of them suits."""
    if not sizes:
        return 0
    if not math.isfinite(max(sizes)) or max(sizes) >= 1e15:
        return None
    most = min(4, max(0, 4 - math.floor(math.log10(max(sizes)))))
    needed = next((d for d in range(most) if all(abs(v - round(v, d)) <= 1e-9 * v for v in sizes)), most)
    return needed if min(sizes) >= 0.5 * 10.0**-needed else None  # else the smallest would be shown as 0


def frame_html(frame: pd.DataFrame, caption: str = "") -> str:
    """Return a frame as an HTML table for people; the frame keeps its types.

    Parameters
    ----------
    frame : DataFrame
        An index that has names or holds texts comes first; one that only counts rows is left out.
    caption : str
        Stands above the table.
    """
    index = frame.index
    counts_only = index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"
    levels = [] if counts_only else [index.get_level_values(place) for place in range(index.nlevels)]
    columns = [format_column(level.tolist()) for level in levels]
    columns += [format_column(frame.iloc[:, place].tolist()) for place in range(frame.shape[1])]
    names = ["" if level.name is None else str(level.name) for level in levels]
    names += [" ".join(map(str, name)).strip() if isinstance(name, tuple) else str(name) for name in frame]
    style = [f"style='text-align:{'right' if numeric else 'left'}'" for _, numeric in columns]
    head = "".join(f"<th {own}>{escape(name)}</th>" for name, own in zip(names, style, strict=True))
    rows = zip(*(texts for texts, _ in columns), strict=True)
    body = "".join(
        "<tr>"
        + "".join(f"<td {own}>{escape(text)}</td>" for text, own in zip(row, style, strict=True))
        + "</tr>"
        for row in rows
    )
    above = f"<caption style='text-align:left'>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_missing(value: object) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or _kind(value) in "iuf"


def _kind(value: object) -> str:
    """Numpy's letter for the kind of a single number, truth or text; a dash for all else."""
    return getattr(getattr(value, "dtype", None), "kind", "-") if getattr(value, "ndim", None) == 0 else "-"
