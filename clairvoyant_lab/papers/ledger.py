"""The ledger: what a paper printed, what we get, and a verdict that is computed from the two.

A topic module (`papers/serial.py`, `papers/batch.py`, ...) re-runs numbers and hands back `Measured` values:

    from clairvoyant_lab.papers.ledger import Measured, ledger_table

    def measure(*, fast: bool, seed: int) -> list[Measured]:
        run = ...
        return [
            Measured(
                "clairvoyant.table10.cs2_2.0.fcfs.p50_s",     # a key of papers/published_*.toml
                value=20.4, low=19.1, high=21.7, n=5,         # published unit; 95 % interval; n runs or rows
                how='table10(promotion="oldest")',            # the call that made it
                variant="oldest",                             # only if one number is re-run in several ways
                because="promotion by age is FCFS as τ → 0",  # shown only if the verdict is "differs"
            ),
            Measured.not_run("clairvoyant.table9...", how="clairvoyant-lab bench burst --backend URL",
                             why="needs an RTX 4090"),
        ]

A notebook ends with `ledger_table(measure(fast=fast, seed=seed))`, which shows itself as a table; `also=`
takes keys to list even though nothing ran for them. Verdicts are computed in `papers/verdicts.py`,
contradictions of a paper with itself in `papers/contradictions.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.papers.verdicts import (
    VERDICT_KINDS,
    Contradiction,
    Measured,
    Published,
    Verdict,
    count_of_kind,
    format_number,
    judge,
)
from clairvoyant_lab.results import counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "VERDICT_KINDS",
    "Contradiction",
    "Ledger",
    "LedgerRow",
    "Measured",
    "Published",
    "Verdict",
    "judge",
    "ledger_table",
]


@dataclass(frozen=True)
class LedgerRow:
    """One line of the ledger: a published number, ours, and the verdict."""

    published: Published
    measured: Measured | None
    verdict: Verdict

    @property
    def ours(self) -> str:
        """Our number with its interval, in words."""
        measured = self.measured
        if measured is None or measured.value is None:
            return "—"
        text = format_number(measured.value, self.published)
        if measured.low is not None and measured.high is not None and measured.low < measured.high:
            ends = (format_number(end, self.published) for end in (measured.low, measured.high))
            text += f" [{', '.join(ends)}]"
        return text

    @property
    def how(self) -> str:
        """The call that made ours, or the command that would."""
        return self.published.how if self.measured is None else self.measured.how


@dataclass(frozen=True)
class Ledger:
    """Rows "published | ours | verdict"; shows itself as a table in a notebook.

    Parameters
    ----------
    rows : tuple of LedgerRow
        In the order of the paper.
    """

    rows: tuple[LedgerRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[LedgerRow]:
        return iter(self.rows)

    def summary(self) -> dict[str, int]:
        """Return how many rows have each verdict, and how many of the reproduced are weak evidence."""
        seen = Counter(row.verdict.kind for row in self.rows)
        weak = sum(row.verdict.weak for row in self.rows)
        return {"rows": len(self.rows), **{kind: seen[kind] for kind in VERDICT_KINDS}, "weak": weak}

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row a line.

        Columns: key, variant, paper, table, cell, unit, published, published_text, ours, low, high, n,
        verdict, verdict_text, difference, weak, how, note. Numbers are in `unit`.
        """
        import pandas as pd

        return pd.DataFrame([_record(row) for row in self.rows], columns=list(_COLUMNS))

    def to_markdown(self, *, with_source: bool = True, with_counts: bool = True) -> str:
        """Return a markdown table.

        Parameters
        ----------
        with_source : bool
            Begin each row with the paper and table.
        with_counts : bool
            Put a line with the number of verdicts of each kind above the table.
        """
        first = 0 if with_source else 1
        header = _HEADER[first:]
        lines = [_counts(self.summary()), ""] if with_counts else []
        lines += [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        for row in self.rows:
            cells = (text.replace("|", "\\|").replace("\n", " ") for text in _cells(row)[first:])
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def lines(self, most: int = 5) -> list[str]:
        """Return up to `most` one-line verdicts: what differs first, what did not run last."""
        order = {
            kind: place
            for place, kind in enumerate(("differs", "contradiction", "reproduced", "not run here"))
        }
        ranked = sorted(self.rows, key=lambda row: order[row.verdict.kind])
        return [f"{row.published.table}, {row.published.cell}: {row.verdict.text}" for row in ranked[:most]]

    def to_html(self, *, with_source: bool = True, with_counts: bool = True) -> str:
        """Return an HTML table; every text is escaped, each verdict has a colour and its word.

        Parameters are those of `to_markdown`.
        """
        first = 0 if with_source else 1
        cell = "text-align:left;padding:2px 8px"
        head = "".join(f"<th style='{cell}'>{escape(name)}</th>" for name in _HEADER[first:])
        body = []
        for row in self.rows:
            mark = f";border-left:4px solid {_COLOURS[row.verdict.kind]}"
            cells = "".join(
                f"<td style='{cell};vertical-align:top{mark if place == _VERDICT_COLUMN else ''}'>"
                f"{escape(text)}</td>"
                for place, text in enumerate(_cells(row))
                if place >= first
            )
            body.append(f"<tr data-verdict='{escape(row.verdict.kind)}'>{cells}</tr>")
        caption = (
            f"<caption style='text-align:left;font-weight:600'>{escape(_counts(self.summary()))}</caption>"
        )
        return (
            f"<table class='clairvoyant-ledger'>{caption if with_counts else ''}"
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


_HEADER = ("where", "cell", "published", "ours [interval]", "n", "verdict", "source of ours")
_VERDICT_COLUMN = 5
_NAMES = {"clairvoyant": "Clairvoyant", "isjl": "ISJL"}
# Okabe-Ito: told apart under the common colour deficiencies; the word stands beside the colour anyway
_COLOURS: Mapping[str, str] = {
    "reproduced": "#009E73",
    "differs": "#D55E00",
    "contradiction": "#CC79A7",
    "not run here": "#999999",
}
_COLUMNS = (
    *(
        "key",
        "variant",
        "paper",
        "table",
        "cell",
        "unit",
        "published",
        "published_text",
        "ours",
        "low",
        "high",
    ),
    *("n", "verdict", "verdict_text", "difference", "weak", "how", "note"),
)


def _cells(row: LedgerRow) -> tuple[str, ...]:
    published, measured = row.published, row.measured
    variant = f" ({measured.variant})" if measured is not None and measured.variant else ""
    note = (
        f"; {measured.note}" if measured is not None and measured.note and measured.value is not None else ""
    )
    return (
        f"{_NAMES.get(published.paper, published.paper)} {published.table}",
        published.cell + variant,
        _printed(published),
        row.ours,
        "—" if measured is None or measured.n is None else f"{measured.n:,}",
        row.verdict.text + note,
        row.how if measured is not None and measured.ran else "—",
    )


def _printed(published: Published) -> str:
    """Return the printed text with its unit; words and formulas with the value they stand for."""
    unit = "" if not published.unit or published.text.endswith(published.unit) else f" {published.unit}"
    if f"{abs(published.value):.10g}" in published.text.replace(",", ""):
        return published.text + unit
    return f"{published.text} ({published.value:g}{unit})"


def _record(row: LedgerRow) -> dict[str, object]:
    published, measured = row.published, row.measured
    return {
        "key": published.key,
        "variant": "" if measured is None else measured.variant,
        "paper": published.paper,
        "table": published.table,
        "cell": published.cell,
        "unit": published.unit,
        "published": published.value,
        "published_text": published.text,
        "ours": None if measured is None else measured.value,
        "low": None if measured is None else measured.low,
        "high": None if measured is None else measured.high,
        "n": None if measured is None else measured.n,
        "verdict": row.verdict.kind,
        "verdict_text": row.verdict.text,
        "difference": row.verdict.difference,
        "weak": row.verdict.weak,
        "how": row.how,
        "note": "" if measured is None else measured.note,
    }


def _counts(summary: Mapping[str, int]) -> str:
    weak = f" ({summary['weak']} of them weakly)" if summary["weak"] else ""
    parts = ", ".join(
        f"{count_of_kind(summary[kind], kind)}{weak if kind == 'reproduced' else ''}"
        for kind in VERDICT_KINDS
        if summary[kind]
    )
    return f"{counted(summary['rows'], 'row')}: {parts}" if parts else "no rows"


def ledger_table(
    measured: Iterable[Measured],
    *,
    published: Mapping[str, Published] | None = None,
    contradictions: Iterable[Contradiction] | None = None,
    also: Iterable[str] = (),
) -> Ledger:
    """Set measured numbers beside the published ones and compute every verdict.

    Parameters
    ----------
    measured : iterable of Measured
        What a topic module's `measure` returned.
    published : mapping of str to Published, optional
        The registry; by default all of both papers (`papers.published.load_published`).
    contradictions : iterable of Contradiction, optional
        By default those that `papers.contradictions.find_contradictions` computes.
    also : iterable of str
        Keys to show even if nothing was measured for them: each gets its own row, with the measurement of
        the number that it repeats (`Published.same_as`) if there is one.

    Returns
    -------
    Ledger
        In the order of the registry; within one key, in the order measured.

    Raises
    ------
    ParameterError
        A key is not in the registry, or one key and variant was measured twice.
    """
    if published is None:
        from clairvoyant_lab.papers.published import load_published

        published = load_published()
    if contradictions is None:
        from clairvoyant_lab.papers.contradictions import find_contradictions

        contradictions = find_contradictions(published)
    clashes = list(contradictions)
    ours: dict[str, list[Measured]] = {}
    seen: set[tuple[str, str]] = set()
    for item in measured:
        if item.key not in published:
            raise unknown_name("key", item.key, list(published))
        if (item.key, item.variant) in seen:
            raise ParameterError(
                "key", item.key, f"measured twice as variant {item.variant!r}; name the variants"
            )
        seen.add((item.key, item.variant))
        ours.setdefault(item.key, []).append(item)
    wanted = set(ours)
    for key in also:
        if key not in published:
            raise unknown_name("also", key, list(published))
        wanted.add(key)
    rows: list[LedgerRow] = []
    for key, number in published.items():
        if key not in wanted:
            continue
        own = [clash for clash in clashes if key in clash.keys]
        repeated = [replace(item, key=key) for item in ours.get(number.same_as, ())]
        items: list[Measured | None] = [*(ours.get(key) or repeated)] or [None]
        rows.extend(LedgerRow(number, item, judge(number, item, own)) for item in items)
    return Ledger(tuple(rows))
