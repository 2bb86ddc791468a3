"""Where the papers contradict themselves, found by computing with what they printed.

Each check takes the published numbers and yields a `Contradiction` for every failure it finds. Printed
numbers are intervals of half a digit, round counts (27,000) intervals of half their last digit that isn't
zero: what rounding can explain is no contradiction.
"""

from __future__ import annotations

from collections.abc import Mapping

from clairvoyant_lab.papers.checks_clairvoyant import CLAIRVOYANT_CHECKS
from clairvoyant_lab.papers.checks_isjl import ISJL_CHECKS
from clairvoyant_lab.papers.printed import Book
from clairvoyant_lab.papers.verdicts import Contradiction, Published

__all__ = ["find_contradictions"]


def find_contradictions(published: Mapping[str, Published]) -> list[Contradiction]:
    """Run the checks over the published numbers.

    Parameters
    ----------
    published : mapping of str to Published
        The registry (`papers.published.load_published`), or a changed copy of it. The checks of a paper run
        if the mapping holds numbers of it, and then need all of them.

    Returns
    -------
    list of Contradiction
        One for every set of cells that can't all be true.
    """
    book = Book(published)
    found: list[Contradiction] = []
    for paper, checks in (("clairvoyant", CLAIRVOYANT_CHECKS), ("isjl", ISJL_CHECKS)):
        if any(number.paper == paper for number in published.values()):
            found.extend(clash for check in checks for clash in check(book))
    return found
