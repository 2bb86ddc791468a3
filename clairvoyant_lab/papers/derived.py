"""Claims that sum up other numbers: ranges over a table, and arithmetic between two printed ones.

They are made of what the topics measured, after all topics ran; nothing is run twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clairvoyant_lab.papers.ledger import Measured
from clairvoyant_lab.papers.published import load_published

__all__ = ["derive"]

_C = "clairvoyant."
_ZERO_SHOT = tuple(f"{_C}table7.{cell}" for cell in ("a.oasst1", "a.dolly", "c.sharegpt", "c.dolly"))
_PROMPT_LENGTH = tuple(f"{_C}table8.prompt_length.{corpus}" for corpus in ("sharegpt", "oasst1"))


def derive(measured: Sequence[Measured]) -> list[Measured]:
    """Make the rows that follow from measured ones; what was not measured yields nothing.

    Parameters
    ----------
    measured : sequence of Measured
        Rows of the topics.
    """
    return [
        *_copies(measured, {"Model A": f"{_C}table6.a.ranking_pct", "Model C": f"{_C}table6.c.ranking_pct"}),
        *_ends(f"{_C}section5_1.zero_shot_range_pct", _values(measured, _ZERO_SHOT), "Table 7, off-diagonal"),
        *_ends(f"{_C}section5_1.prompt_length_range_pct", _values(measured, _PROMPT_LENGTH), "Table 8"),
        *_enough_rows(measured),
        *_cell_sizes(measured),
        *_printed_arithmetic(),
    ]


def _values(measured: Iterable[Measured], keys: Sequence[str]) -> list[Measured]:
    return [row for row in measured if row.key in keys and row.value is not None]


def _copies(measured: Sequence[Measured], sources: dict[str, str]) -> list[Measured]:
    key = f"{_C}section1.in_distribution_ranking_pct"
    return [
        replace(row, key=key, variant=variant)
        for variant, source in sources.items()
        for row in _values(measured, (source,))
        if not row.variant
    ]


def _ends(key: str, rows: list[Measured], where: str) -> list[Measured]:
    """The smallest and the largest of some measured numbers, for a range that was printed."""
    if not rows:
        return []
    because = next((row.because for row in rows if row.because), "")
    found = []
    for variant, pick in (("lowest", min), ("highest", max)):
        row = pick(rows, key=lambda row: row.value if row.value is not None else 0.0)
        note = f"{row.key.removeprefix(_C)} {row.variant}".strip()
        found.append(
            replace(row, key=key, variant=variant, note=note, because=because, how=f"{variant} of {where}")
        )
    return found


def _enough_rows(measured: Sequence[Measured]) -> list[Measured]:
    """Section 5.1: do 240 rows of the target domain suffice?"""
    rows = _values(measured, (f"{_C}section5_1.retrained.n240_pct",))
    if not rows:
        return []
    printed = load_published()[f"{_C}section5_1.retrained.n240_pct"]
    enough = printed.value - printed.allowance
    reached = [row for row in rows if row.value is not None and row.value >= enough]
    key = f"{_C}section5_1.retrained.n_needed"
    how = rows[0].how
    if reached:
        return [Measured(key, 240, how=how, note=f"{reached[0].variant} reaches the printed accuracy")]
    ours = ", ".join(f"{row.value:.1f} % on {row.variant or 'ours'}" for row in rows)
    return [Measured.no_value(key, how=how, because=f"240 rows give {ours}, not the printed {printed.text}")]


def _cell_sizes(measured: Sequence[Measured]) -> list[Measured]:
    """Table 7: how many rows lie behind a cell."""
    key = f"{_C}table7.rows_per_cell"
    rows: dict[str, Measured] = {}
    for row in _values(measured, _ZERO_SHOT):
        if row.n is not None:
            corpus = row.key.rpartition(".")[2]
            because = f"all rows of {corpus} that are at hand, not a sample of 600"
            rows.setdefault(corpus, Measured(key, row.n, how=row.how, variant=corpus, because=because))
    return list(rows.values())


def _printed_arithmetic() -> list[Measured]:
    """How many times slower: one printed number over another, as a check of the third."""
    numbers = load_published()
    found = []
    for key, over, under in (
        ("section3_3.embedding_slower_times", "section3_3.embedding_p99_ms", "section3_3.model_a_ms"),
        ("table8.clairvoyant.faster_times", "table8.distilbert.p99_ms", "table8.clairvoyant.p99_ms"),
    ):
        top, bottom = numbers[_C + over], numbers[_C + under]
        found.append(
            Measured(
                _C + key,
                top.value / bottom.value,
                how=f"{top.text} / {bottom.text}",
                note="arithmetic on printed numbers; the larger one was not run here",
            )
        )
    return found
