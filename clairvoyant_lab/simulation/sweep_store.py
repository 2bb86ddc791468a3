"""Finished cells of a sweep in an SQLite file: each is committed when done, and none is written twice."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.scheduling.serial import SerialPolicy

__all__ = ["SweepStore", "cell_key"]

# raise it when a change of engine or generator changes results: old cells are then not reused
GENERATION = 1


def cell_key(*parameters: Any, policy: SerialPolicy) -> str:
    """Hash of everything a result depends on.

    A user's function counts by its name and byte code; what it reads from elsewhere is not seen.
    """
    own = [
        policy.name,
        policy.starvation_timeout_s,
        policy.promotion,
        policy.long_from_score,
        policy.rate_per_s,
        policy.dynamic,
        _function_text(policy.function),
    ]
    text = json.dumps([GENERATION, own, parameters], default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _function_text(function: object) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None if function is None else repr(function)
    constants = [constant for constant in code.co_consts if not hasattr(constant, "co_code")]
    return f"{code.co_code.hex()} {constants!r} {code.co_names!r}"


class SweepStore:
    """Rows by key.

    Parameters
    ----------
    path : str or Path
        Made if it isn't there.

    Raises
    ------
    DataError
        If the file is something else.
    ParameterError
        If it can't be made.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            self._db = sqlite3.connect(self.path, timeout=30.0)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS cells (key TEXT PRIMARY KEY, rows TEXT NOT NULL)")
            self._db.commit()
        except sqlite3.OperationalError as error:
            raise ParameterError("store", self.path, f"cannot be opened ({error})") from error
        except sqlite3.DatabaseError as error:
            raise DataError(f"is no sweep store ({error})", source=self.path) from error

    def read(self, keys: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of those keys that are there."""
        found = {}
        for key in keys:
            row = self._db.execute("SELECT rows FROM cells WHERE key = ?", (key,)).fetchone()
            if row is not None:
                found[key] = [
                    {name: math.nan if value is None else value for name, value in record.items()}
                    for record in json.loads(row[0])
                ]
        return found

    def write(self, results: Mapping[str, list[dict[str, Any]]]) -> None:
        """Keep rows; they are safe when this returns."""
        with self._db:
            for key, rows in results.items():
                strict = [
                    {n: None if isinstance(v, float) and math.isnan(v) else v for n, v in row.items()}
                    for row in rows
                ]
                self._db.execute("INSERT INTO cells VALUES (?, ?)", (key, json.dumps(strict)))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
