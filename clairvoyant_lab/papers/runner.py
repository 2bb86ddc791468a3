"""Runs every topic's re-runs and sets them beside all published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from clairvoyant_lab.errors import unknown_name
from clairvoyant_lab.papers.derived import derive
from clairvoyant_lab.papers.ledger import Ledger, Measured, ledger_table
from clairvoyant_lab.papers.published import load_published

__all__ = ["TOPICS", "measure_all", "run_ledger"]

# Each is a module of this room with `measure(*, fast: bool, seed: int) -> list[Measured]`.
TOPICS: tuple[str, ...] = ("datasets", "prediction", "serial", "batch", "claims")


def measure_all(
    *,
    fast: bool = False,
    seed: int = 42,
    topics: Iterable[str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Measured]:
    """Run the topics' re-runs.

    Parameters
    ----------
    fast : bool
        Fewer seeds and smaller runs; wider intervals.
    seed : int
        Seed of every random draw.
    topics : iterable of str, optional
        Some of `TOPICS`; all by default.
    tell : callable, optional
        Called with each topic's name before it runs.

    Returns
    -------
    list of Measured
        In the order of the topics, then what follows from them (`papers.derived`), if all topics ran.

    Raises
    ------
    ParameterError
        A topic is unknown.
    """
    chosen = TOPICS if topics is None else tuple(topics)
    for topic in chosen:
        if topic not in TOPICS:
            raise unknown_name("topic", topic, TOPICS)
    measured: list[Measured] = []
    for topic in chosen:
        if tell is not None:
            tell(topic)
        measured.extend(import_module(f"clairvoyant_lab.papers.{topic}").measure(fast=fast, seed=seed))
    if topics is None:
        measured.extend(derive(measured))
    return measured


def run_ledger(
    *,
    fast: bool = False,
    seed: int = 42,
    topics: Iterable[str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Ledger:
    """Run the topics and return the ledger; with all topics, every published number has a row.

    Parameters are those of `measure_all`; with some topics, only what they measured is listed.
    """
    measured = measure_all(fast=fast, seed=seed, topics=topics, tell=tell)
    return ledger_table(measured, also=load_published() if topics is None else ())
