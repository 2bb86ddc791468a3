"""The request log: a SQLite file with figures and features, never text.

One row a request that has ended. Rows go to a thread that commits twice a second, so the event loop never
waits for a disk and a `kill -9` loses at most the last second. A journal is a trace (replay it under any
policy) and a training set (features beside the length that came).
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from clairvoyant_lab.errors import DataError, SchemaMismatchError

__all__ = ["FORMAT_VERSION", "JournalRow", "JournalSchema", "JournalWriter", "open_for_reading"]

log = logging.getLogger("clairvoyant_lab.journal")

FORMAT_VERSION = 2
"""2 added `surface`. A journal of format 1 is read as it is, and gets the column when it is continued."""

ADDED = ("surface",)
COMMIT_EVERY_S = 0.5
_MOST_PENDING = 200_000


@dataclass(frozen=True, slots=True)
class JournalSchema:
    """What the features in a journal mean.

    Attributes
    ----------
    name, hash : str
        Of the feature schema, as `prompts.schema` defines it.
    feature_names : tuple of str
        Column names of the feature vector.
    short_below, long_from : int
        Class bounds in response tokens.
    words_hash : str or None
        Of the schema that the n-gram ids and the surface counts belong to; None where they are not kept.
    surface_names : tuple of str
        Column names of the surface counts.
    """

    name: str
    hash: str
    feature_names: tuple[str, ...]
    short_below: int = 200
    long_from: int = 800
    words_hash: str | None = None
    surface_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One request. Times in seconds, lengths in tokens; None where something is not known or did not happen.

    `features` are float32 in the order of the schema, little-endian. `ngrams` (hashed n-gram ids, int32) and
    `surface` (counts of the prompt's surface, float32) are kept only on request.
    """

    request_id: str
    arrival_unix_s: float
    path: str
    outcome: str
    status: int
    origin: str
    stated: str | None
    p_short: float
    p_medium: float
    p_long: float
    predicted_tokens: float
    expected_service_s: float
    token_cap: int | None
    prompt_tokens: int | None
    response_tokens: int | None
    wait_s: float
    first_token_s: float | None
    service_s: float | None
    promoted: int
    position: int
    policy: str
    model: str
    stream: int
    features: bytes | None
    ngrams: bytes | None
    surface: bytes | None = None


COLUMNS = tuple(field.name for field in fields(JournalRow))

_TYPES = {"str": "TEXT", "float": "REAL", "int": "INTEGER", "bytes": "BLOB"}
_READ_AS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "float": (float, int),
    "int": (int,),
    "bytes": (bytes,),
}

KINDS: dict[str, tuple[type, ...]] = {
    item.name: _READ_AS[str(item.type).split(" ", 1)[0]] + ((type(None),) if "None" in str(item.type) else ())
    for item in fields(JournalRow)
}
"""What a cell of each column can be."""


def _create_statement() -> str:
    columns = []
    for item in fields(JournalRow):
        kind = str(item.type)
        sql = _TYPES[kind.split(" ", 1)[0]]
        columns.append(f"{item.name} {sql}{'' if 'None' in kind else ' NOT NULL'}")
    return f"CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY, {', '.join(columns)})"


_INSERT = f"INSERT INTO requests ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class JournalWriter:
    """Writes a journal from a thread of its own.

    Parameters
    ----------
    path : path
        The file; it is made, or continued if it speaks the same schema.
    schema : JournalSchema
        What the features mean.
    on_failure : callable, optional
        Called once, from the thread, with the reason when the journal gives up (a full disk, say).
    most_pages : int, optional
        Limit of the file in SQLite pages; tests use it as a full disk.

    Raises
    ------
    DataError
        If the file cannot be opened or is no journal.
    SchemaMismatchError
        If the file holds features or n-grams of another schema, or was written by a later version.
    """

    def __init__(
        self,
        path: str | Path,
        schema: JournalSchema,
        *,
        on_failure: Callable[[str], None] | None = None,
        most_pages: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.written = 0
        self.lost = 0
        self.failure: str | None = None
        self._on_failure = on_failure
        self._pending: deque[JournalRow] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._locked = False
        self._connection = self._open(schema, most_pages)
        self._thread = threading.Thread(target=self._run, name="clairvoyant-journal", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Rows not yet committed."""
        return len(self._pending)

    def put(self, row: JournalRow) -> None:
        """Hand over a row; never blocks, never raises. After a failure rows are only counted."""
        if self.failure is not None or len(self._pending) >= _MOST_PENDING:
            self.lost += 1
            return
        self._pending.append(row)

    def close(self) -> None:
        """Write what is pending and close the file."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout=30.0)
        self._connection.close()

    def _open(self, schema: JournalSchema, most_pages: int | None) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, check_same_thread=False, isolation_level=None, timeout=2.0
            )
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"cannot be opened as a journal ({error})", source=str(self.path)) from error
        try:
            # WAL with NORMAL: a commit is in the operating system's hands, so it outlives a kill -9
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
            held = dict(connection.execute("SELECT name, value FROM meta").fetchall())
            _check_schema(held, schema, self.path)
            connection.execute(_create_statement())
            _migrate(connection)
            connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", _meta_of(schema))
            if most_pages is not None:
                connection.execute(f"PRAGMA max_page_count={int(most_pages)}")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            connection.close()
            raise DataError(f"cannot be used as a journal ({error})", source=str(self.path)) from error
        except SchemaMismatchError:
            connection.close()
            raise
        return connection

    def _run(self) -> None:
        while True:
            self._wake.wait(COMMIT_EVERY_S)
            closing = self._closing
            self._commit(last=closing)
            if closing:
                return

    def _commit(self, *, last: bool) -> None:
        if not self._pending or self.failure is not None:
            return
        rows = [self._pending.popleft() for _ in range(len(self._pending))]
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany(_INSERT, [astuple(row) for row in rows])
            self._connection.execute("COMMIT")
            self.written += len(rows)
            self._locked = False
        except Exception as error:  # a thread that dies in silence would leave the journal "writing" for ever
            if self._connection.in_transaction:
                self._roll_back()
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_BUSY and not last:
                # another program holds the file, which passes: the rows wait for the next try
                self._pending.extendleft(reversed(rows))
                if not self._locked:
                    log.warning("another program has locked the journal; its rows wait")
                self._locked = True
                return
            self.failure = str(error)
            self.lost += len(rows) + len(self._pending)
            self._pending.clear()
            log.warning("the journal stops (%s); requests go on without it", error)
            if self._on_failure is not None:
                self._on_failure(self.failure)

    def _roll_back(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            log.warning("the journal's last transaction could not be rolled back (%s)", error)


def open_for_reading(path: str | Path) -> tuple[sqlite3.Connection, dict[str, str]]:
    """Open a journal to read it, also while a proxy writes it.

    Returns
    -------
    connection : sqlite3.Connection
        Read-only; the table is `requests`, its columns those of `JournalRow` and `number`. A journal of an
        older format lacks the columns of `ADDED`.
    meta : dict of str to str
        Schema name and hash, feature names (JSON), class bounds, time of creation.

    Raises
    ------
    DataError
        If there is no such file or it is no journal of ours.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError("there is no such file", source=str(file))
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        columns = [row[1] for row in connection.execute("PRAGMA table_info(requests)")]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DataError(f"is no journal ({error})", source=str(file)) from error
    missing = [name for name in COLUMNS if name not in columns and name not in ADDED]
    if missing:
        connection.close()
        raise DataError(
            f"is no journal of format {FORMAT_VERSION}: it lacks {', '.join(missing)}", source=str(file)
        )
    return connection, meta


def _meta_of(schema: JournalSchema) -> list[tuple[str, str]]:
    rows = [
        ("format_version", str(FORMAT_VERSION)),
        ("schema_name", schema.name),
        ("schema_hash", schema.hash),
        ("feature_names", json.dumps(schema.feature_names)),
        ("short_below", str(schema.short_below)),
        ("long_from", str(schema.long_from)),
        ("created_unix_s", repr(time.time())),
    ]
    if schema.words_hash is not None:
        rows += [("words_hash", schema.words_hash), ("surface_names", json.dumps(schema.surface_names))]
    return rows


def _migrate(connection: sqlite3.Connection) -> None:
    """Give a journal of format 1 the columns that came later; its rows keep None there."""
    connection.execute("BEGIN IMMEDIATE")  # two proxies may open one old file at once
    held = {row[1] for row in connection.execute("PRAGMA table_info(requests)")}
    for name in ADDED:
        if name not in held:
            connection.execute(f"ALTER TABLE requests ADD COLUMN {name} BLOB")
    connection.execute(
        "UPDATE meta SET value = ? WHERE name = 'format_version' AND value <> ?",
        (str(FORMAT_VERSION), str(FORMAT_VERSION)),
    )
    connection.execute("COMMIT")


def _check_schema(held: dict[str, str], schema: JournalSchema, path: Path) -> None:
    version = held.get("format_version")
    if version not in (None, "1", str(FORMAT_VERSION)):
        raise SchemaMismatchError(
            f"{path} is a journal of format {version}; this version writes {FORMAT_VERSION}"
        )
    if "schema_hash" in held and held["schema_hash"] != schema.hash:
        raise SchemaMismatchError(
            f"{path} holds features of schema {held.get('schema_name')} ({held['schema_hash']}); "
            f"this version speaks {schema.name} ({schema.hash}): use another file"
        )
    words = held.get("words_hash")
    if words is not None and schema.words_hash is not None and words != schema.words_hash:
        raise SchemaMismatchError(
            f"{path} holds n-grams of schema {words}; this version speaks {schema.words_hash}: use another "
            "file"
        )
