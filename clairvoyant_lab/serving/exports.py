"""A journal as a trace of the simulator, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.journal_reader import Journal, read_journal

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.simulation.trace import Trace

__all__ = ["export_journal", "journal_trace"]

KINDS = ("trace", "training", "requests")


def journal_trace(journal: Journal | str | Path) -> Trace:
    """A journal as a trace: replay it in the simulator under any policy.

    Requests that were not served to their end are left out and counted in `dropped`.
    """
    from clairvoyant_lab.simulation.trace import Trace

    held = journal if isinstance(journal, Journal) else read_journal(journal)
    columns, dropped = held.trace_columns()
    arrival, service, score = (columns.pop(name) for name in ("arrival_s", "service_s", "score"))
    return Trace.from_arrays(
        arrival, service, score, source=held.path, service_model="as served", dropped=dropped, **columns
    )


def export_journal(path: str | Path, out: str | Path, kind: str = "trace") -> str:
    """Write a journal as a file and say in a sentence what was written."""
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    target = Path(out)
    if target.suffix not in (".parquet", ".csv", ".jsonl"):
        raise ParameterError("out", str(target), "end it in .parquet, .csv or .jsonl")
    journal = read_journal(path)
    dropped: dict[str, int] = {}
    if kind == "trace":
        trace = journal_trace(journal)
        frame, dropped = trace.to_frame(), trace.dropped
    elif kind == "training":
        rows = journal.training_set()
        frame, dropped = rows.to_frame(), rows.dropped
    else:
        frame = journal.to_frame()
    _write(frame, target)
    left_out = "".join(f"; left out: {count} {reason}" for reason, count in dropped.items())
    return f"{len(frame)} rows to {target}{left_out}"


def _write(frame: pd.DataFrame, target: Path) -> None:
    try:
        if target.suffix == ".parquet":
            frame.to_parquet(target, index=False)
        elif target.suffix == ".csv":
            frame.to_csv(target, index=False)
        else:
            frame.to_json(target, orient="records", lines=True)
    except OSError as error:
        raise ParameterError("out", str(target), f"cannot be written ({error.strerror or error})") from error
