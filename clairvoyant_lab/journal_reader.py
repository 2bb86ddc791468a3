"""Reads a journal: as a table, as trace columns, as a training set."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError
from clairvoyant_lab.journal import ADDED, COLUMNS, KINDS, open_for_reading
from clairvoyant_lab.lengths import classify_lengths
from clairvoyant_lab.results import summary_html, summary_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Journal", "TrainingSet", "read_journal"]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingSet:
    """Features and lengths of the requests that can teach something.

    Attributes
    ----------
    features : ndarray of float32, shape (n, 19)
    response_tokens : ndarray of int64, shape (n,)
    arrival_unix_s : ndarray of float64, shape (n,)
        Ascending: hold out a tail, not a random part.
    p_long : ndarray of float64, shape (n,)
        What the model in use said then, after the token cap.
    ngrams : list of ndarray of int32
        Hashed n-gram ids; empty where a row has none.
    surface : ndarray of float32, shape (n, 14)
        Counts of the prompt's surface; NaN where a row has none. No columns if the journal never kept any.
    has_words : ndarray of bool, shape (n,)
        Whether a row has both.
    token_cap : ndarray of float64, shape (n,)
        Most tokens the answer was allowed; NaN for no cap.
    by_model : ndarray of bool, shape (n,)
        Whether `p_long` is a model's: not where the client stated a class, or the model failed.
    model : ndarray of str, shape (n,)
        Name of the model in use then.
    words_hash : str or None
        Schema of n-grams and surface counts.
    dropped : dict of str to int
        Rows left out, by reason.
    """

    features: NDArray[np.float32]
    response_tokens: NDArray[np.int64]
    arrival_unix_s: NDArray[np.float64]
    p_long: NDArray[np.float64]
    ngrams: list[NDArray[np.int32]]
    surface: NDArray[np.float32]
    has_words: NDArray[np.bool_]
    token_cap: NDArray[np.float64]
    by_model: NDArray[np.bool_]
    model: NDArray[np.str_]
    feature_names: tuple[str, ...]
    words_hash: str | None = None
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.response_tokens.size)

    def take(self, rows: NDArray[np.int64]) -> TrainingSet:
        """Rows by number."""
        return replace(
            self,
            features=self.features[rows],
            response_tokens=self.response_tokens[rows],
            arrival_unix_s=self.arrival_unix_s[rows],
            p_long=self.p_long[rows],
            ngrams=[self.ngrams[row] for row in rows],
            surface=self.surface[rows],
            has_words=self.has_words[rows],
            token_cap=self.token_cap[rows],
            by_model=self.by_model[rows],
            model=self.model[rows],
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a request: the features by name, `response_tokens`, `p_long`, `arrival_unix_s`."""
        import pandas as pd

        frame = pd.DataFrame(self.features, columns=list(self.feature_names))
        frame["response_tokens"] = self.response_tokens
        frame["p_long"] = self.p_long
        frame["arrival_unix_s"] = self.arrival_unix_s
        return frame


@dataclass(frozen=True, eq=False, repr=False)
class Journal:
    """A journal in memory; make one with `read_journal`.

    Attributes
    ----------
    path : str
    meta : dict of str to str
        Schema name and hash, class bounds, time of creation.
    columns : dict of str to list
        The table as it lies in the file.
    """

    path: str
    meta: dict[str, str]
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.columns["request_id"])

    def __repr__(self) -> str:
        return summary_text("Journal", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Journal", self.summary())

    def to_frame(self) -> pd.DataFrame:
        """One row a request, without the binary columns."""
        import pandas as pd

        binary = ("features", "ngrams", "surface")
        return pd.DataFrame({k: v for k, v in self.columns.items() if k not in binary})

    def summary(self) -> dict[str, object]:
        """Counts by outcome, span, how many rows can teach a rich model, latencies of finished requests."""
        outcome = self.columns["outcome"]
        arrival = self.columns["arrival_unix_s"]
        done = [i for i, name in enumerate(outcome) if name == "done"]
        wait = np.array([self.columns["wait_s"][i] for i in done], dtype=np.float64)
        rows: dict[str, object] = {
            "requests": len(self),
            "span_s": float(max(arrival) - min(arrival)) if arrival else 0.0,
            "schema": f"{self.meta.get('schema_name')} {self.meta.get('schema_hash')}",
        }
        words = zip(self.columns["ngrams"], self.columns["surface"], strict=True)
        rows["with_ngrams"] = sum(ids is not None and surface is not None for ids, surface in words)
        for name in sorted(set(outcome)):
            rows[f"outcome {name}"] = outcome.count(name)
        if wait.size:
            rows["wait_p50_s"] = float(np.percentile(wait, 50))
            rows["wait_p95_s"] = float(np.percentile(wait, 95))
            rows["promoted"] = int(sum(self.columns["promoted"]))
        return rows

    def trace_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
        """Columns of a trace, in order of arrival, and how many rows were left out and why.

        A row is a request that was served to its end (`done` with a service time); the arrival times
        start at 0. Counts that some row lacks are left out as a column. An embedding call answers with 0
        tokens; if an answer's length is not known, each row has a class all the same, then the predicted one.
        """
        dropped: dict[str, int] = {}
        rows: list[int] = []
        for i, name in enumerate(self.columns["outcome"]):
            if name != "done" or self.columns["service_s"][i] is None:
                reason = f"ended as {name}" if name != "done" else "no service time"
                dropped[reason] = dropped.get(reason, 0) + 1
            else:
                rows.append(i)
        rows.sort(key=lambda i: (self.columns["arrival_unix_s"][i], i))
        arrival = self._column("arrival_unix_s", rows, np.float64)
        out: dict[str, NDArray[Any]] = {
            "arrival_s": arrival - arrival[0] if arrival.size else arrival,
            "service_s": self._column("service_s", rows, np.float64),
            "score": self._column("p_long", rows, np.float64),
            "request_id": np.array([self.columns["request_id"][i] for i in rows], dtype=np.str_),
            "predicted_tokens": self._column("predicted_tokens", rows, np.float64),
            "expected_service_s": self._column("expected_service_s", rows, np.float64),
        }
        proba = np.stack(
            [self._column(f"p_{c}", rows, np.float64) for c in ("short", "medium", "long")], axis=1
        )
        out["predicted_class"] = proba.argmax(axis=1).astype(np.int8)
        out["token_cap"] = np.array(
            [np.nan if self.columns["token_cap"][i] is None else self.columns["token_cap"][i] for i in rows],
            dtype=np.float64,
        )
        embedding = [self.columns["origin"][i] == "embedding" for i in rows]
        prompt = [self.columns["prompt_tokens"][i] for i in rows]
        answer = [
            0 if none else self.columns["response_tokens"][i] for i, none in zip(rows, embedding, strict=True)
        ]
        for name, values in (("prompt_tokens", prompt), ("response_tokens", answer)):
            if values and all(value is not None for value in values):
                out[name] = np.array(values, dtype=np.int64)
        if "response_tokens" not in out:
            known = [value is not None for value in answer]
            tokens = np.array([0 if value is None else value for value in answer], dtype=np.int64)
            out["length_class"] = np.where(known, classify_lengths(tokens), out["predicted_class"])
        return out, dropped

    def training_set(self) -> TrainingSet:
        """Features beside the lengths that came, of answers that ended by themselves.

        An answer that reached its token cap is censored (it would have been longer) and left out.
        """
        names = _names(self.meta, "feature_names", self.path)
        dropped: dict[str, int] = {}
        rows: list[int] = []
        cols = self.columns
        for i in range(len(self)):
            reason = None
            if cols["outcome"][i] != "done":
                reason = f"ended as {cols['outcome'][i]}"
            elif cols["response_tokens"][i] is None:
                reason = "length not known"
            elif cols["features"][i] is None:
                reason = "no features"
            elif cols["token_cap"][i] is not None and cols["response_tokens"][i] >= cols["token_cap"][i]:
                reason = "cut by its token cap"
            if reason is None:
                rows.append(i)
            else:
                dropped[reason] = dropped.get(reason, 0) + 1
        rows.sort(key=lambda i: (cols["arrival_unix_s"][i], i))
        surface_names = _names(self.meta, "surface_names", self.path)
        features = np.zeros((len(rows), len(names)), dtype=np.float32)
        surface = np.full((len(rows), len(surface_names)), np.nan, dtype=np.float32)
        ngrams = [np.empty(0, np.int32) for _ in rows]
        has_words = np.zeros(len(rows), dtype=np.bool_)
        for row, i in enumerate(rows):
            features[row] = self._numbers("features", i, "<f4", len(names))
            if surface_names and cols["ngrams"][i] is not None and cols["surface"][i] is not None:
                surface[row] = self._numbers("surface", i, "<f4", len(surface_names))
                ngrams[row] = self._numbers("ngrams", i, "<i4", None).astype(np.int32)
                has_words[row] = True
        caps = [np.nan if cols["token_cap"][i] is None else cols["token_cap"][i] for i in rows]
        return TrainingSet(
            features=features,
            response_tokens=self._column("response_tokens", rows, np.int64),
            arrival_unix_s=self._column("arrival_unix_s", rows, np.float64),
            p_long=self._column("p_long", rows, np.float64),
            ngrams=ngrams,
            surface=surface,
            has_words=has_words,
            token_cap=np.array(caps, dtype=np.float64),
            by_model=np.array([cols["origin"][i] == "model" for i in rows], dtype=np.bool_),
            model=np.array([cols["model"][i] for i in rows], dtype=np.str_),
            feature_names=names,
            words_hash=self.meta.get("words_hash"),
            dropped=dropped,
        )

    def _numbers(self, name: str, i: int, dtype: str, size: int | None) -> NDArray[Any]:
        """The numbers of a binary cell, or an error that names it."""
        blob = self.columns[name][i]
        held = len(blob) // 4
        if len(blob) % 4 or (size is not None and held != size):
            raise DataError(
                f"has {len(blob)} bytes where {'whole numbers of 4' if size is None else 4 * size} belong",
                source=self.path,
                row=i,
                column=name,
            )
        return np.frombuffer(blob, dtype=dtype)

    def _column(self, name: str, rows: list[int], dtype: Any) -> NDArray[Any]:
        values = self.columns[name]
        return np.array([values[i] for i in rows], dtype=dtype)


def read_journal(path: str | Path) -> Journal:
    """Read a journal, also while a proxy writes it.

    Raises
    ------
    DataError
        If there is no such file, it is no journal of ours, or it is damaged.
    """
    connection, meta = open_for_reading(path)
    try:
        held = {row[1] for row in connection.execute("PRAGMA table_info(requests)")}
        chosen = [f"NULL AS {name}" if name in ADDED and name not in held else name for name in COLUMNS]
        rows = connection.execute(f"SELECT {', '.join(chosen)} FROM requests ORDER BY number").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DataError(f"is damaged ({error})", source=str(path)) from error
    finally:
        connection.close()
    columns = {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}
    for name, kinds in KINDS.items():
        _refuse_other_kinds(columns[name], kinds, name, str(path))
    for name in ("prompt_tokens", "response_tokens"):  # a backend may say -1 where it does not know
        columns[name] = [None if value is None or value < 0 else value for value in columns[name]]
    return Journal(str(path), meta, columns)


def _refuse_other_kinds(values: list[Any], kinds: tuple[type, ...], name: str, source: str) -> None:
    if set(map(type, values)) <= set(kinds):
        return
    row = next(i for i, value in enumerate(values) if type(value) not in kinds)
    raise DataError(f"is damaged: {values[row]!r} does not belong here", source=source, row=row, column=name)


def _names(meta: dict[str, str], key: str, source: str) -> tuple[str, ...]:
    try:
        return tuple(json.loads(meta.get(key, "[]")))
    except (TypeError, ValueError) as error:
        raise DataError(f"is damaged: its {key} are no list ({error})", source=source) from error
