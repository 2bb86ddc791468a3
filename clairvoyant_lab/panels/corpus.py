"""The class-bound panel: what counts as Short and Long decides whether a corpus can teach (section 4.2)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, LengthClass
from clairvoyant_lab.panels.controls import Slider
from clairvoyant_lab.panels.panel import Panel, View

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bounds_panel"]


def bounds_panel(
    corpus: str = "sharegpt",
    *,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    **options: Any,
) -> Panel:
    """Make the panel.

    Parameters
    ----------
    corpus : str
        Name or path, as `load_corpus` takes it.
    short_below, long_from : int
        Where the bounds start, in tokens.
    **options
        Further arguments of `load_corpus`, as `tokenizer="tekken"`.
    """
    frozen = tuple(sorted(options.items()))

    def draw(short_below: int, long_from: int) -> View:
        return _draw(_rows(corpus, frozen), short_below, long_from)

    def code(short_below: int, long_from: int) -> str:
        arguments = "".join(f", {name}={value!r}" for name, value in options.items())
        return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.figures.corpora import length_histogram
from clairvoyant_lab.figures.show import show

rows = cl.load_corpus({corpus!r}{arguments})
report = cl.starvation_report(rows, short_below={short_below}, long_from={long_from})
figure = length_histogram(report)
show(figure)
"""

    controls = [
        Slider(
            "short_below",
            "Short below (tokens)",
            short_below,
            min(10, short_below),
            max(790, short_below),
            10,
        ),
        Slider("long_from", "Long from (tokens)", long_from, min(200, long_from), max(3_000, long_from), 10),
    ]
    return Panel("Class bounds", controls, draw, code)


def _bound(name: str, label: str, value: int, low: int, high: int) -> Slider:
    return Slider(name, label, value, min(low, value), max(high, value), 10)


@functools.lru_cache(maxsize=4)
def _rows(corpus: str, options: tuple[tuple[str, Any], ...]) -> pd.DataFrame:
    from clairvoyant_lab.corpora import load_corpus

    return load_corpus(corpus, **dict(options))


def _draw(rows: pd.DataFrame, short_below: int, long_from: int) -> View:
    from clairvoyant_lab.corpora import starvation_report
    from clairvoyant_lab.figures.corpora import length_histogram

    report = starvation_report(rows, short_below=short_below, long_from=long_from)
    numbers: list[tuple[object, ...]] = [("class", "rows", "share (%)", "95 % interval")]
    for one in LengthClass:
        interval = f"{100 * report.low[one]:.1f} to {100 * report.high[one]:.1f}"
        numbers.append((one.label, int(report.counts[one]), f"{100 * report.shares[one]:.1f}", interval))
    numbers.append(("balanced sample", report.balanced_rows, "", ""))
    change = report.what_would_change()
    sentence = f"Verdict: {report.verdict} ({report.rule})."
    if change:
        sentence += f" {change[0][0].upper()}{change[0][1:]}."
    return View(length_histogram(report), sentence, numbers)
