"""A damaged journal is refused in words, whatever of it is damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clairvoyant_lab.errors import DataError
from clairvoyant_lab.journal import JournalRow, JournalWriter
from clairvoyant_lab.journal_reader import read_journal
from clairvoyant_lab.serving.recorder import journal_schema


def row(k: int, **more: Any) -> JournalRow:
    texts = {"path": "/v1/completions", "outcome": "done", "origin": "model", "stated": None}
    figures = dict.fromkeys(("p_short", "p_medium", "p_long", "wait_s", "first_token_s", "service_s"), 0.25)
    counts = dict.fromkeys(("promoted", "position", "stream"), 0)
    fields: dict[str, Any] = {
        **texts,
        **figures,
        **counts,
        "request_id": f"r{k}",
        "arrival_unix_s": 1000.0 + k,
        "status": 200,
        "predicted_tokens": 50.0,
        "expected_service_s": 1.0,
        "token_cap": None,
        "prompt_tokens": 3,
        "response_tokens": 10 + k,
        "policy": "sjf",
        "model": "m",
        "features": np.arange(19, dtype="<f4").tobytes(),
        "ngrams": None,
    }
    return JournalRow(**{**fields, **more})


def written(path: Path, rows: list[JournalRow]) -> Path:
    writer = JournalWriter(path, journal_schema())
    for item in rows:
        writer.put(item)
    writer.close()
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return written(tmp_path / "j.sqlite", [row(k) for k in range(5)])


@pytest.mark.parametrize(
    ("damage", "column"),
    [
        ("UPDATE requests SET response_tokens = 'many' WHERE number = 3", "response_tokens"),
        ("UPDATE requests SET features = 'text' WHERE number = 3", "features"),
        ("UPDATE requests SET p_long = x'00' WHERE number = 3", "p_long"),
        ("UPDATE requests SET origin = x'ff' WHERE number = 3", "origin"),
    ],
)
def test_a_cell_of_another_kind_is_named(journal: Path, damage: str, column: str) -> None:
    with sqlite3.connect(journal) as connection:
        connection.execute(damage)
    with pytest.raises(DataError, match="damaged") as caught:
        read_journal(journal)
    assert (caught.value.row, caught.value.column) == (2, column)


def test_text_that_is_none_is_refused(journal: Path) -> None:
    with sqlite3.connect(journal) as connection:
        connection.execute("UPDATE requests SET origin = CAST(x'ff' AS TEXT) WHERE number = 3")
    with pytest.raises(DataError, match="damaged"):
        read_journal(journal)
    with sqlite3.connect(journal) as connection:
        connection.execute("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE name = 'format_version'")
    with pytest.raises(DataError, match="no journal"):
        read_journal(journal)
    with pytest.raises(DataError, match="cannot be used"):
        JournalWriter(journal, journal_schema())


def test_feature_names_that_are_no_list_are_refused(journal: Path) -> None:
    with sqlite3.connect(journal) as connection:
        connection.execute("UPDATE meta SET value = '[' WHERE name = 'feature_names'")
    with pytest.raises(DataError, match="feature_names"):
        read_journal(journal).training_set()


def test_a_length_below_zero_is_a_length_not_known(tmp_path: Path) -> None:
    rows = [row(0, response_tokens=-1), row(1, prompt_tokens=-1)]
    held = read_journal(written(tmp_path / "j.sqlite", rows))
    assert held.columns["response_tokens"] == [None, 11]
    assert held.columns["prompt_tokens"] == [3, None]
    assert held.training_set().dropped == {"length not known": 1}
