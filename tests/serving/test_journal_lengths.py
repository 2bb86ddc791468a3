"""A journal with calls of no known length (embeddings, uncounted answers) still has classes and a gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clairvoyant_lab.advice import deploy_gate, what_if
from clairvoyant_lab.journal import JournalRow, JournalWriter
from clairvoyant_lab.serving.recorder import journal_schema
from clairvoyant_lab.simulation.trace import Trace


def row(k: int, p_long: float, tokens: int | None, **more: Any) -> JournalRow:
    fields: dict[str, Any] = {
        "request_id": f"r{k}",
        "arrival_unix_s": 1000.0 + k,
        "path": "/v1/chat/completions",
        "outcome": "done",
        "status": 200,
        "origin": "model",
        "stated": None,
        "p_short": 1.0 - p_long,
        "p_medium": 0.0,
        "p_long": p_long,
        "predicted_tokens": 100.0 + 900.0 * p_long,
        "expected_service_s": 1.0,
        "token_cap": None,
        "prompt_tokens": 3,
        "response_tokens": tokens,
        "wait_s": 0.5,
        "first_token_s": 0.6,
        "service_s": 0.1 if tokens is None else 0.1 + tokens / 1000.0,
        "promoted": 0,
        "position": 1,
        "policy": "sjf",
        "model": "m",
        "stream": 0,
        "features": None,
        "ngrams": None,
    }
    return JournalRow(**{**fields, **more})


def embedding(k: int) -> JournalRow:
    more = {"path": "/v1/embeddings", "origin": "embedding", "predicted_tokens": 0.0}
    return row(k, 0.0, None, **more)


def read(path: Path, rows: list[JournalRow]) -> Trace:
    writer = JournalWriter(path, journal_schema())
    for item in rows:
        writer.put(item)
    writer.close()
    assert writer.failure is None
    return Trace.read(path)


def chats(n: int) -> list[JournalRow]:
    """Short and long in turn; the guess puts four of five pairs in order."""
    rng = np.random.default_rng(3)
    p_long = rng.uniform(0.0, 0.6, n) + np.where(np.arange(n) % 2, 0.35, 0.0)
    return [row(k, float(p_long[k]), 900 if k % 2 else 20) for k in range(n)]


def test_one_embedding_call_takes_nobodys_class_away(tmp_path: Path) -> None:
    trace = read(tmp_path / "j.sqlite", [*chats(4), embedding(4)])
    assert trace.response_tokens is not None
    assert trace.response_tokens.tolist() == [20, 900, 20, 900, 0]
    assert trace.length_class is not None
    assert trace.length_class.tolist() == [0, 2, 0, 2, 0]
    assert set(what_if(trace).to_frame()["class"]) == {"all", "Short", "Long"}


def test_an_answer_of_unknown_length_counts_as_what_was_predicted(tmp_path: Path) -> None:
    trace = read(tmp_path / "j.sqlite", [*chats(2), row(2, 0.9, None), row(3, 0.1, None), embedding(4)])
    assert trace.response_tokens is None
    assert trace.length_class is not None
    assert trace.length_class.tolist() == [0, 2, 2, 0, 0]


def test_embedding_calls_do_not_flatter_the_gate(tmp_path: Path) -> None:
    alone = deploy_gate(read(tmp_path / "a.sqlite", chats(80)), replicates=2)
    mixed = deploy_gate(
        read(tmp_path / "b.sqlite", [*chats(80), *(embedding(k) for k in range(80, 300))]), replicates=2
    )
    assert mixed.accuracy == alone.accuracy < 0.95
    assert (mixed.n_short, mixed.n_long) == (alone.n_short, alone.n_long) == (40, 40)
