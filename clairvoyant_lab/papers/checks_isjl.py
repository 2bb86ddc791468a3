"""Checks of the ISJL paper against itself; each yields what it finds."""

from __future__ import annotations

from collections.abc import Iterator

from clairvoyant_lab.papers.printed import Book, Check, Span
from clairvoyant_lab.papers.verdicts import Contradiction

__all__ = ["ISJL_CHECKS"]

ALPHAS = (50, 100, 150, 250, 300, 400, 500)


def _ljf_ratio(book: Book) -> Iterator[Contradiction]:
    """ISJL section 1.1 against Theorem 3.3: an upper or a lower bound."""
    first, second = "isjl.section1_1.ljf_cr_b2", "isjl.theorem3_3.ljf_cr_b2"
    relations = (book.numbers[first].relation, book.numbers[second].relation)
    if book[first] == book[second] and relations[0] != relations[1]:
        yield Contradiction(
            "ljf_ratio",
            (first, second),
            "Section 1.1 and Theorem 3.3",
            f"LJF's ratio is {relations[0]} B/(2B-1) in one and {relations[1]} B/(2B-1) in the other",
        )


def _a_max(book: Book) -> Iterator[Contradiction]:
    """ISJL section 3.3: A_max in the prose and in Algorithm 3."""
    prose, code = "isjl.section3_3.a_max_at_start_prose", "isjl.section3_3.a_max_at_start_algorithm"
    if book[prose] != book[code]:
        yield Contradiction(
            "a_max",
            (prose, code),
            "Section 3.3, prose and Algorithm 3",
            f"A_max is remaining time in one and progress in the other: when a job of "
            f"{book[prose]:.0f} tokens "
            f"starts it is {book[prose]:.0f} or {book[code]:.0f}",
        )


def _externality_twice(book: Book) -> Iterator[Contradiction]:
    """ISJL Table 1 against Table 2: one experiment, one externality cost."""
    for alpha in ALPHAS:
        first, second = (f"isjl.table{table}.isjl_{alpha}.tau_e" for table in (1, 2))
        if not book.span(first).meets(book.span(second)):
            yield Contradiction(
                f"table1_table2_{alpha}",
                (first, second),
                f"Table 1 and Table 2, α = {alpha}",
                f"τE is {book.text(first)} against {book.text(second)}",
            )


def _cost_arithmetic(book: Book) -> Iterator[Contradiction]:
    """ISJL Tables 1 and 2: costs add up, gains and break-even costs follow."""
    hundred = Span(100.0, 100.0)
    for name in ("fcfs", "ljf", *(f"isjl_{alpha}" for alpha in ALPHAS)):
        row = f"isjl.table1.{name}"
        parts = book.span(f"{row}.tau_q") + book.span(f"{row}.c_t") + book.span(f"{row}.tau_e")
        if not parts.meets(book.span(f"{row}.cost")):
            keys = (f"{row}.tau_q", f"{row}.c_t", f"{row}.tau_e", f"{row}.cost")
            yield Contradiction(
                f"table1_cost_{name}",
                keys,
                f"Table 1, {name}",
                f"{' + '.join(book.text(key) for key in keys[:3])} is not {book.text(keys[3])}",
            )
        base = book.span("isjl.table1.ljf.throughput")
        gain = hundred * (book.span(f"{row}.throughput") - base) / base
        # averages of five ratios and ratios of averages differ a little
        if not gain.meets(book.span(f"{row}.gain_pct"), slack=0.1):
            yield Contradiction(
                f"table1_gain_{name}",
                (f"{row}.throughput", f"{row}.gain_pct", "isjl.table1.ljf.throughput"),
                f"Table 1, {name}",
                f"the throughputs give {0.5 * (gain.low + gain.high):.2f} %, not "
                f"{book.text(f'{row}.gain_pct')}",
            )
    for alpha in ALPHAS:
        row = f"isjl.table2.isjl_{alpha}"
        ratio = book.span(f"{row}.tau_e") / book.span(f"{row}.saving_steps")
        if not ratio.meets(book.span(f"{row}.break_even_c"), slack=1e-4):
            yield Contradiction(
                f"table2_{alpha}",
                (f"{row}.tau_e", f"{row}.saving_steps", f"{row}.break_even_c"),
                f"Table 2, α = {alpha}",
                f"{book.text(f'{row}.tau_e')} / {book.text(f'{row}.saving_steps')} is not "
                f"{book.text(f'{row}.break_even_c')}",
            )


def _efficiency_claims(book: Book) -> Iterator[Contradiction]:
    """ISJL section 6's percentages against Table 3, and Table 3 against the model."""
    hundred = Span(100.0, 100.0)
    for batch in ("b16", "b32"):
        for measure, policy, word, sign in (
            ("throughput", "isjl_150", "over", 1.0),
            ("ael", "isjl_50", "below", -1.0),
        ):
            for base in ("ljf", "sjf"):
                ours, theirs = (
                    f"isjl.table3.{batch}.{policy}.{measure}",
                    f"isjl.table3.{batch}.{base}.{measure}",
                )
                claim = f"isjl.section6.{batch}.{measure}_{word}_{base}_pct"
                change = (
                    Span(sign, sign) * hundred * (book.span(ours) - book.span(theirs)) / book.span(theirs)
                )
                if not change.meets(book.span(claim)):
                    yield Contradiction(
                        f"section6_{batch}_{measure}_{base}",
                        (claim, ours, theirs),
                        "Section 6 and Table 3",
                        f"{book.text(ours)} against {book.text(theirs)} is "
                        f"{abs(100 * (book[ours] / book[theirs] - 1)):.0f} %, not {book.text(claim)}",
                    )
        keys = tuple(
            key
            for key in book.numbers
            if key.startswith(f"isjl.table3.{batch}.") and key.endswith(".throughput")
        )
        size = float(batch[1:])
        over = tuple(key for key in keys if book[key] > size)
        if over:
            yield Contradiction(
                f"table3_{batch}_unit",
                over,
                f"Table 3, B = {size:.0f}, and section 2",
                f"a batch of {size:.0f} processes at most {size:.0f} tokens a step, and eq. 18 divides "
                "by the "
                f"makespan in steps: {', '.join(book.text(key) for key in over)} are in another unit "
                "that is not "
                "stated",
            )


ISJL_CHECKS: tuple[Check, ...] = (
    _ljf_ratio,
    _a_max,
    _externality_twice,
    _cost_arithmetic,
    _efficiency_claims,
)
