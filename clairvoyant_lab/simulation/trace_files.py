"""Traces in files: our own columns as parquet, CSV or JSONL, and four public formats.

Formats are told apart by their columns: ours (`arrival_s`, `service_s`, ...), Azure LLM inference
(`TIMESTAMP, ContextTokens, GeneratedTokens`), BurstGPT (`Timestamp, Request tokens, Response tokens, ...`,
6 columns or 8 with session and elapsed time), Mooncake (JSONL: `timestamp` in ms, `input_length`,
`output_length`), and a journal (SQLite) of the proxy. Public formats carry tokens, not seconds: a `TokenPace`
turns them into service times, and the trace says which.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name
from clairvoyant_lab.simulation.profiles import TokenPace, hardware_profile
from clairvoyant_lab.simulation.trace import OPTIONAL_COLUMNS, Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMATS", "read_trace", "write_trace"]

FORMATS = ("own", "azure", "burstgpt", "mooncake", "journal")
_ENDINGS = (".parquet", ".csv", ".jsonl")

# format -> (time column, prompt tokens, response tokens)
_TOKEN_COLUMNS = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
    "mooncake": ("timestamp", "input_length", "output_length"),
}


def read_trace(
    path: str | Path,
    format: str | None = None,
    pace: TokenPace | str | None = None,
    limit: int | None = None,
) -> Trace:
    """Read a trace; the format is told by the columns unless it is given.

    Rows that can't be used are left out and counted by reason: `rows_read = len(trace) + sum(dropped)`.
    Times start at 0 and ascend; rows of equal time keep the file's order.

    Parameters
    ----------
    path : str or Path
    format : str, optional
        One of `FORMATS`.
    pace : TokenPace or str, optional
        For token formats: a pace, or the name of a hardware profile. Default: profile `m1`.
    limit : int, optional
        Read the first so many rows only.

    Raises
    ------
    DataError
        No such file, no known format, or no usable row.
    ParameterError
        For an unknown format or profile.
    """
    source = Path(path)
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if limit is not None and limit < 1:
        raise ParameterError("limit", limit, "give a number of rows, 1 or more; None reads all")
    if not source.is_file():
        raise DataError("there is no such file", source=str(path))
    if format == "journal" or (format is None and _is_sqlite(source)):
        return _read_journal(source, limit)
    frame = _read_table(source, limit)
    found = format or _told_by(list(map(str, frame.columns)), source)
    if found == "own":
        return _from_own(frame, source)
    speed = pace if isinstance(pace, TokenPace) else hardware_profile("m1" if pace is None else pace).pace
    return _from_tokens(frame, found, speed, source)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace's columns as parquet, CSV or JSONL by the file's ending; `read_trace` reads them back.

    Raises
    ------
    ParameterError
        For another ending, or a place that can't be written.
    """
    target = Path(path)
    if target.suffix not in _ENDINGS:
        raise ParameterError("path", str(path), f"end it in one of {', '.join(_ENDINGS)}")
    frame = trace.to_frame()
    try:
        if target.suffix == ".parquet":
            frame.to_parquet(target, index=False)
        elif target.suffix == ".csv":
            # Python's own float text: 17 digits, read back to the bit
            frame.to_csv(target, index=False, lineterminator="\n")
        else:
            with target.open("w", encoding="utf-8") as file:
                for record in frame.to_dict(orient="records"):
                    filled = {k: v for k, v in record.items() if not (isinstance(v, float) and v != v)}
                    file.write(json.dumps(filled) + "\n")
    except OSError as error:
        raise ParameterError("path", str(path), f"cannot be written ({error.strerror or error})") from error


def _is_sqlite(source: Path) -> bool:
    with source.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


def _read_table(source: Path, limit: int | None) -> pd.DataFrame:
    import pandas as pd

    try:
        if source.suffix == ".parquet":
            frame = pd.read_parquet(source)
            return frame if limit is None else frame.head(limit)
        if source.suffix in (".jsonl", ".json"):
            return _read_jsonl(source, limit)
        # as text: Trace turns it into numbers with Python's own parser, to the last bit
        return pd.read_csv(source, nrows=limit, dtype=str, skipinitialspace=True)
    except (ValueError, OSError, pd.errors.ParserError) as error:
        raise DataError(f"cannot be read as a table ({error})", source=str(source)) from error


def _read_jsonl(source: Path, limit: int | None) -> pd.DataFrame:
    import pandas as pd

    records: list[dict[str, Any]] = []
    with source.open(encoding="utf-8") as file:
        for line in file:
            if limit is not None and len(records) >= limit:
                break
            if not line.strip():
                continue
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                records.append({})  # an unreadable row is read, and then dropped with a reason
    return pd.DataFrame.from_records(records)


def _told_by(columns: list[str], source: Path) -> str:
    if {"arrival_s", "service_s"} <= set(columns):
        return "own"
    for name, needed in _TOKEN_COLUMNS.items():
        if set(needed) <= set(columns):
            return name
    wanted = "; ".join(f"{name}: {', '.join(needed)}" for name, needed in _TOKEN_COLUMNS.items())
    raise DataError(
        f"no known trace format has the columns {', '.join(columns)}. "
        f"Known: own: arrival_s, service_s; {wanted}",
        source=str(source),
    )


def _from_own(frame: pd.DataFrame, source: Path) -> Trace:
    for name in ("arrival_s", "service_s"):
        if name not in frame.columns:
            raise DataError("is missing", source=str(source), column=name)
    columns: dict[str, Any] = {}
    for name in ("arrival_s", "service_s", *OPTIONAL_COLUMNS):
        # a column that some file kept but no row filled is no column
        if name in frame.columns and not frame[name].isna().all():
            columns[name] = frame[name].to_numpy()
    if not {"arrival_s", "service_s"} <= set(columns):
        raise DataError("has no rows with times", source=str(source))
    try:
        return Trace(source=str(source), service_model="as in the file", **columns)
    except DataError as error:
        raise DataError(error.reason, source=str(source), row=error.row, column=error.column) from error


def _from_tokens(frame: pd.DataFrame, name: str, pace: TokenPace, source: Path) -> Trace:
    import pandas as pd

    time_name, prompt_name, response_name = _TOKEN_COLUMNS[name]
    for column in (time_name, prompt_name, response_name):
        if column not in frame.columns:
            raise DataError(f"is missing in a {name} trace", source=str(source), column=column)
    prompt = pd.to_numeric(frame[prompt_name], errors="coerce").to_numpy(dtype=np.float64)
    response = pd.to_numeric(frame[response_name], errors="coerce").to_numpy(dtype=np.float64)
    time_s = _seconds(frame[time_name], name)
    dropped: dict[str, int] = {}
    keep = np.ones(len(frame), dtype=np.bool_)
    for reason, bad in (
        ("time not readable", ~np.isfinite(time_s)),
        ("token count not readable", ~(np.isfinite(prompt) & np.isfinite(response))),
        ("token count negative", (prompt < 0) | (response < 0)),
        ("no response (failed)", response == 0),
    ):
        count = int(np.sum(keep & bad))
        if count:
            dropped[reason] = count
        keep &= ~bad
    if not keep.any():
        raise DataError(f"no usable row: {dropped}", source=str(source))
    rows = np.flatnonzero(keep)
    rows = rows[np.argsort(time_s[rows], kind="stable")]
    prompt_tokens, response_tokens = prompt[rows].astype(np.int64), response[rows].astype(np.int64)
    return Trace(
        arrival_s=_from_zero(time_s[rows]),
        service_s=pace.service_s(prompt_tokens, response_tokens),
        prompt_tokens=prompt_tokens,
        response_tokens=response_tokens,
        source=f"{source} ({name})",
        service_model=pace.describe(),
        rows_read=len(frame),
        dropped=dropped,
    )


def _from_zero(time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    return time_s - time_s[0]


def _seconds(column: pd.Series[Any], name: str) -> NDArray[np.float64]:
    """Seconds from the earliest readable time; NaN where unreadable."""
    import pandas as pd

    if name == "azure":
        # up to seven fractional digits: whole nanoseconds, so no digit is lost in a float of the epoch
        stamps = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
        nanos = stamps.astype("datetime64[ns, UTC]")
        good = nanos.notna().to_numpy()
        whole = nanos.dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
        out = np.full(len(column), np.nan)
        if good.any():
            out[good] = (whole[good] - whole[good].min()) / 1e9
        return out
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    return numbers / 1000.0 if name == "mooncake" else numbers


def _read_journal(source: Path, limit: int | None) -> Trace:
    from clairvoyant_lab.journal_reader import read_journal

    try:
        journal = read_journal(source)
    except sqlite3.DatabaseError as error:
        raise DataError(f"cannot be read as a journal ({error})", source=str(source)) from error
    columns, dropped = journal.trace_columns()
    if not columns["arrival_s"].size:
        raise DataError(f"no request was served to its end: {dropped}", source=str(source))
    trace = Trace(
        source=str(source), service_model="as served", rows_read=len(journal), dropped=dropped, **columns
    )
    return trace if limit is None else trace.take(slice(0, limit))
