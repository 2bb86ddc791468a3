"""Files as streams of records: JSON arrays, JSON lines, CSV and parquet, whole or cut, with flat memory."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import ijson

from clairvoyant_lab.errors import DataError, ParameterError

__all__ = ["FORMATS", "Records", "read_records"]

FORMATS = ("json", "jsonl", "csv", "parquet")
_SUFFIXES = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
# where a JSON object keeps its records
_LIST_IN_OBJECT = re.compile(rb'^\{[^\[]*"(data|rows|examples|items|train)"\s*:\s*\[')
_BLOCK = 1 << 18
_CSV_FIELD_LIMIT = 1 << 27


class Records:
    """A stream of records of one file; `notes` says, once it has run, what the file was missing.

    Parameters
    ----------
    path : Path or bytes
        A file, or its content (a widget's upload).
    name : str
        How messages call it.
    file_format : str
        One of `FORMATS`.
    size_bytes : int
        For a progress bar.
    """

    def __init__(self, path: Path | bytes, name: str, file_format: str, size_bytes: int) -> None:
        self.name = name
        self.file_format = file_format
        self.size_bytes = size_bytes
        self.position_bytes = 0
        self.notes: list[str] = []
        self._path = path

    def __iter__(self) -> Iterator[Any]:
        self.notes.clear()
        if self.file_format == "parquet":
            yield from self._parquet()
            return
        with self._open() as raw:
            stream = _Utf8(raw, self)
            if self.file_format == "json":
                yield from self._json(stream)
            elif self.file_format == "jsonl":
                yield from self._lines(stream)
            else:
                yield from self._csv(stream)
            if stream.repaired:
                self.notes.append(f"{stream.repaired} bytes were not UTF-8; they were read as Windows-1252")

    def _open(self) -> IO[bytes]:
        return io.BytesIO(self._path) if isinstance(self._path, bytes) else self._path.open("rb")

    def _json(self, stream: _Utf8) -> Iterator[Any]:
        head = stream.peek().lstrip()
        inside = _LIST_IN_OBJECT.search(head)
        if head[:1] == b"[":
            records = "item"
        elif inside is not None:
            records = f"{inside[1].decode()}.item"
        else:
            records = ""  # objects one after another
        whole = 0
        try:
            for record in ijson.items(stream, records, use_float=True, multiple_values=True):
                whole += 1
                yield record
        except ijson.IncompleteJSONError as error:
            if whole == 0:
                raise DataError(
                    f"no JSON array of records ({_first_line(error)})", source=self.name
                ) from error
            what = "cut off" if stream.at_end() else "broken"
            self.notes.append(
                f"{what} at byte {stream.consumed:,} inside item {whole:,}: {whole:,} whole items read, "
                "the rest is missing"
            )
        except ijson.JSONError as error:
            raise DataError(f"no JSON ({_first_line(error)})", source=self.name, row=whole) from error

    def _lines(self, stream: _Utf8) -> Iterator[Any]:
        broken = 0
        row = -1
        for line in stream.lines():
            if not line.strip():
                continue
            row += 1
            try:
                record = json.loads(line)
            except ValueError as error:
                if row == 0:
                    raise DataError(f"no JSON lines ({error})", source=self.name, row=0) from error
                broken += 1
                yield {"_broken": str(error)}
                continue
            yield record
        if broken:
            self.notes.append(f"{broken:,} lines were no JSON")

    def _csv(self, stream: _Utf8) -> Iterator[Any]:
        csv.field_size_limit(_CSV_FIELD_LIMIT)
        head = stream.peek().decode("utf-8", "replace").split("\n", 1)[0]
        delimiter = max(",\t;", key=head.count)
        rows = csv.reader(stream.lines(), delimiter=delimiter)
        header = [name.strip() for name in next(rows)]
        if len(set(header)) != len(header) or not all(header):
            raise DataError("the first line must name the columns, each once", source=self.name, row=0)
        ragged = 0
        try:
            for cells in rows:
                if not cells:
                    continue
                if len(cells) != len(header):
                    ragged += 1
                    yield {"_broken": f"{len(cells)} cells for {len(header)} columns"}
                    continue
                yield dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise DataError(f"no CSV ({error})", source=self.name, row=rows.line_num) from error
        if ragged:
            self.notes.append(f"{ragged:,} rows had another number of cells than the header")

    def _parquet(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        source = io.BytesIO(self._path) if isinstance(self._path, bytes) else str(self._path)
        try:
            with pq.ParquetFile(source) as file:
                for batch in file.iter_batches(batch_size=1024):
                    yield from batch.to_pylist()
        except pa.ArrowException as error:
            raise DataError(f"no parquet file ({_first_line(error)})", source=self.name) from error


def read_records(source: str | Path | bytes, file_format: str | None = None, name: str = "upload") -> Records:
    """Open a file, or the bytes of an upload, as a stream of records.

    Parameters
    ----------
    source : str, Path or bytes
        Where the records are.
    file_format : {"json", "jsonl", "csv", "parquet"}, optional
        Guessed from the suffix, else from the first bytes.
    name : str
        What to call an upload in messages (its file name; also used to guess the format).

    Raises
    ------
    DataError
        When there is no such file, or it is empty.
    ParameterError
        When the format is unknown.
    """
    if isinstance(source, bytes):
        path: Path | bytes = source
        size, suffix, head = len(source), Path(name).suffix, source[:64]
    else:
        path = Path(source)
        name = path.name
        if not path.is_file():
            raise DataError("no such file", source=str(source))
        size, suffix = path.stat().st_size, path.suffix
        with path.open("rb") as file:
            head = file.read(64)
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError("the file is empty", source=name)
    guessed = file_format or _SUFFIXES.get(suffix.lower())
    if guessed is None:
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        guessed = "parquet" if start[:4] == b"PAR1" else {b"[": "json", b"{": "jsonl"}.get(start[:1], "csv")
    if guessed not in FORMATS:
        raise ParameterError("file_format", guessed, f"give one of {', '.join(FORMATS)}")
    return Records(path, name, guessed, size)


class _Utf8:
    """Bytes of a file as clean UTF-8: a BOM is obeyed, stray bytes are read as Windows-1252 and counted."""

    def __init__(self, raw: IO[bytes], owner: Records) -> None:
        self._raw = raw
        self._owner = owner
        self.repaired = 0
        self.consumed = 0
        start = raw.read(4)
        raw.seek(0)
        if start[:3] == codecs.BOM_UTF8:
            self.consumed = raw.seek(3)
        encoding = "utf-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8"
        self._decoder = codecs.getincrementaldecoder(encoding)("strict" if encoding == "utf-16" else _HANDLER)
        self._ready = b""
        self._ended = False

    def at_end(self) -> bool:
        return self._ended or not self._fill()

    def peek(self) -> bytes:
        while len(self._ready) < 4096 and self._fill():
            pass
        return self._ready[:4096]

    def _fill(self) -> bool:
        if self._ended:
            return False
        block = self._raw.read(_BLOCK)
        self.consumed += len(block)
        self._owner.position_bytes = self.consumed
        _here.repaired = 0
        try:
            self._ready += self._decoder.decode(block, final=not block).encode("utf-8", "replace")
        except UnicodeDecodeError as error:
            raise DataError(f"no readable text ({error.reason})", source=self._owner.name) from error
        self.repaired += _here.repaired
        self._ended = not block
        return bool(block)

    def read(self, size: int = -1) -> bytes:
        """Give up to `size` bytes (as ijson asks)."""
        while not self._ended and (size < 0 or len(self._ready) < max(size, 1)):
            if not self._fill():
                break
        cut = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:cut], self._ready[cut:]
        return out

    def lines(self) -> Iterator[str]:
        """Give lines as text, with their newline, split at \\n only."""
        parts: list[bytes] = []
        while True:
            if not self._ready and not self._fill():
                break
            *whole, rest = self._ready.split(b"\n")
            self._ready = b""
            for line in whole:
                parts.append(line)
                yield b"".join(parts).decode("utf-8") + "\n"
                parts = []
            if rest:
                parts.append(rest)
        if parts:
            yield b"".join(parts).decode("utf-8")


_HANDLER = "clairvoyant-windows-1252"
_here = threading.local()


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    stray = error.object[error.start : error.end]
    _here.repaired = getattr(_here, "repaired", 0) + len(stray)
    return stray.decode("cp1252", "replace"), error.end


codecs.register_error(_HANDLER, _as_windows_1252)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
