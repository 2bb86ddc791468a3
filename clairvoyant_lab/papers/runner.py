"""Runs every topic's re-runs and sets them beside all published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from clairvoyant_lab.errors import unknown_name
from clairvoyant_lab.papers.derived import derive
from clairvoyant_lab.papers.ledger import Ledger, Measured, ledger_table
from clairvoyant_lab.papers.published import load_published
from clairvoyant_lab.papers.reference_files import reference_folder

__all__ = ["TOPICS", "measure_all", "run_ledger"]

# Each is a module of this room with `measure(*, fast: bool, seed: int) -> list[Measured]`.
TOPICS: tuple[str, ...] = ("datasets", "prediction", "serial", "batch", "claims")
# Those whose `measure` also takes `reference_dir`.
_READ_FILES = ("prediction", "claims")


def measure_all(
    *,
    fast: bool = False,
    seed: int = 42,
    topics: Iterable[str] | None = None,
    tell: Callable[[str], None] | None = None,
    reference_dir: str | Path | None = None,
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
    reference_dir : str or Path, optional
        Folder of the authors' files; by default what `CLAIRVOYANT_REFERENCE_DIR` names
        (`papers.reference_files`). What needs them is else "not run here".

    Returns
    -------
    list of Measured
        In the order of the topics, then what follows from them (`papers.derived`), if all topics ran.

    Raises
    ------
    ParameterError
        A topic is unknown, or the folder is not there.
    """
    chosen = TOPICS if topics is None else tuple(topics)
    for topic in chosen:
        if topic not in TOPICS:
            raise unknown_name("topic", topic, TOPICS)
    folder = reference_folder(reference_dir)
    measured: list[Measured] = []
    for topic in chosen:
        if tell is not None:
            tell(topic)
        files = {"reference_dir": folder} if topic in _READ_FILES else {}
        module = import_module(f"clairvoyant_lab.papers.{topic}")
        measured.extend(module.measure(fast=fast, seed=seed, **files))
    if topics is None:
        measured.extend(derive(measured))
    return measured


def run_ledger(
    *,
    fast: bool = False,
    seed: int = 42,
    topics: Iterable[str] | None = None,
    tell: Callable[[str], None] | None = None,
    reference_dir: str | Path | None = None,
) -> Ledger:
    """Run the topics and return the ledger; with all topics, every published number has a row.

    Parameters are those of `measure_all`; with some topics, only what they measured is listed.
    """
    measured = measure_all(fast=fast, seed=seed, topics=topics, tell=tell, reference_dir=reference_dir)
    return ledger_table(measured, also=load_published() if topics is None else ())
