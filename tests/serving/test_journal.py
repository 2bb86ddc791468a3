"""The journal: what it holds, what it survives, what it gives back; shadow estimates and τ from outside."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clairvoyant_lab.errors import DataError, SchemaMismatchError
from clairvoyant_lab.journal import JournalRow, JournalSchema, JournalWriter
from clairvoyant_lab.journal_reader import read_journal
from clairvoyant_lab.scheduling.serial import serial_policy
from clairvoyant_lab.serving.exports import export_journal, journal_trace
from clairvoyant_lab.serving.history import Pace
from clairvoyant_lab.serving.recorder import journal_schema
from clairvoyant_lab.serving.shadow import compare_on_window
from clairvoyant_lab.simulation.serial import simulate_serial


def row(k: int, **more: Any) -> JournalRow:
    fields: dict[str, Any] = {
        "request_id": f"r{k}",
        "arrival_unix_s": 1000.0 + k,
        "path": "/v1/completions",
        "outcome": "done",
        "status": 200,
        "origin": "model",
        "stated": None,
        "p_short": 0.75,
        "p_medium": 0.0,
        "p_long": 0.25,
        "predicted_tokens": 50.0,
        "expected_service_s": 1.0,
        "token_cap": None,
        "prompt_tokens": 3,
        "response_tokens": 10 + k,
        "wait_s": 0.5,
        "first_token_s": 0.6,
        "service_s": 2.0,
        "promoted": 0,
        "position": 1,
        "policy": "sjf",
        "model": "m",
        "stream": 0,
        "features": np.arange(19, dtype="<f4").tobytes(),
        "ngrams": None,
    }
    return JournalRow(**{**fields, **more})


def written(path: Path, rows: list[JournalRow]) -> Path:
    writer = JournalWriter(path, journal_schema())
    for item in rows:
        writer.put(item)
    writer.close()
    assert writer.failure is None
    return path


def test_what_goes_in_comes_out_as_a_trace_and_a_training_set(tmp_path: Path) -> None:
    rows = [
        row(2, token_cap=12),
        row(0),
        row(1),
        row(3, outcome="gone_running"),
        row(4, response_tokens=None),
    ]
    rows += [row(5, features=None), row(6, token_cap=900)]
    journal = read_journal(written(tmp_path / "j.sqlite", rows))
    trace = journal_trace(journal)
    assert list(trace.request_id) == ["r0", "r1", "r2", "r4", "r5", "r6"]
    assert list(trace.arrival_s) == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]
    assert trace.response_tokens is None, "one row lacks it"
    assert trace.dropped == {"ended as gone_running": 1}
    assert simulate_serial(trace, serial_policy("sjf", starvation_timeout_s=5.0)).sojourn_s.size == 6
    learn = journal.training_set()
    assert list(learn.response_tokens) == [10, 11, 16]
    assert learn.features.shape == (3, 19)
    assert learn.dropped == {
        "cut by its token cap": 1,
        "ended as gone_running": 1,
        "length not known": 1,
        "no features": 1,
    }
    assert list(learn.to_frame().columns[:1]) == ["prompt_token_len"]


@pytest.mark.parametrize("kind", ["trace", "training", "requests"])
@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_exports(tmp_path: Path, kind: str, ending: str) -> None:
    path = written(tmp_path / "j.sqlite", [row(k) for k in range(4)])
    said = export_journal(path, tmp_path / f"out{ending}", kind)
    assert said.startswith("4 rows")
    assert (tmp_path / f"out{ending}").stat().st_size > 0


def test_a_journal_of_another_schema_is_refused_with_both_names(tmp_path: Path) -> None:
    path = written(tmp_path / "j.sqlite", [row(0)])
    other = JournalSchema("lexical-20", "feedbeef", ("a",))
    with pytest.raises(SchemaMismatchError, match=r"lexical-19.*lexical-20 \(feedbeef\)"):
        JournalWriter(path, other)


def test_what_is_no_journal_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_journal(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to be looked at" * 10)
    with pytest.raises(DataError, match="no journal"):
        read_journal(tmp_path / "text.sqlite")
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE meta (name, value)").connection.close()
    with pytest.raises(DataError, match="lacks"):
        read_journal(tmp_path / "other.sqlite")
    with pytest.raises(DataError, match="cannot be opened"):
        JournalWriter(tmp_path / "text.sqlite" / "x.sqlite", journal_schema())


def test_it_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "j.sqlite", journal_schema())
    for k in range(3):
        writer.put(row(k))
    deadline = time.monotonic() + 3.0
    while writer.written < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(read_journal(tmp_path / "j.sqlite")) == 3
    writer.close()


def test_a_full_disk_ends_the_journal_with_a_word_and_nothing_else(tmp_path: Path) -> None:
    told: list[str] = []
    writer = JournalWriter(tmp_path / "j.sqlite", journal_schema(), on_failure=told.append, most_pages=12)
    for k in range(2000):
        writer.put(row(k))
    writer.close()
    assert writer.failure is not None
    assert "full" in writer.failure
    assert told == [writer.failure]
    assert writer.lost == 2000
    writer.put(row(1))
    assert writer.lost == 2001


def test_a_row_that_cannot_be_kept_stops_the_journal_with_a_word(tmp_path: Path) -> None:
    told: list[str] = []
    writer = JournalWriter(tmp_path / "j.sqlite", journal_schema(), on_failure=told.append)
    writer.put(row(1, response_tokens=2**63))  # no number of SQLite's; the error is none of SQLite's either
    writer.close()
    assert told == [writer.failure]
    assert "too large" in told[0]
    assert (writer.written, writer.lost, writer.pending) == (0, 1, 0)


async def test_requests_go_on_when_the_journal_stops(make_stack: Any, tmp_path: Path) -> None:
    stack = await make_stack(journal=str(tmp_path / "j.sqlite"))
    assert (await stack.ask(tokens=1))[0] == 200
    writer = stack.proxy.recorder._writer
    writer._connection.execute("PRAGMA max_page_count=1")
    for k in range(200):
        writer.put(row(k, request_id="x" * 4000))
    await stack.until(lambda: stack.proxy.recorder.state()["state"] == "stopped", within_s=4.0)
    await stack.check_idle_and_well()
    assert stack.proxy.recorder.state()["lost"] >= 200


async def test_the_proxys_rows_hold_figures_and_features(make_stack: Any, tmp_path: Path) -> None:
    from clairvoyant_lab.prompts import extract_features

    stack = await make_stack(journal=str(tmp_path / "j.sqlite"), journal_ngrams=True)
    await stack.ask(tokens=30, path="/api/chat", stream=True, p=0.3, text="Explain a queue.")
    await stack.ask(fault="status")
    await stack.ask(path="/v1/embeddings")
    await stack.proxy.stop(grace_s=1.0)
    journal = read_journal(tmp_path / "j.sqlite")
    first, failed, embedding = journal.to_frame().to_dict("records")
    assert (first["outcome"], first["response_tokens"], first["stream"]) == ("done", 30, 1)
    assert first["p_long"] == pytest.approx(0.3)
    assert first["wait_s"] <= first["first_token_s"] <= first["wait_s"] + first["service_s"]
    assert (failed["outcome"], failed["status"]) == ("backend_status", 500)
    assert embedding["origin"] == "embedding"
    assert np.frombuffer(journal.columns["features"][0], "<f4").shape == extract_features("x").shape
    assert len(journal.columns["ngrams"][0]) > 8
    assert len(journal_trace(journal)) == 2


async def test_a_row_names_the_model_that_foresaw_it(make_stack: Any, tmp_path: Path) -> None:
    stack = await make_stack(journal=str(tmp_path / "j.sqlite"))
    waiting = [asyncio.create_task(stack.ask(f"m{k}", tokens=20)) for k in range(3)]
    await stack.until(lambda: len(stack.proxy.line.waiting) == 2)
    await stack.proxy.swap_model("other")
    await asyncio.gather(*waiting, stack.ask("after"))
    await stack.proxy.stop(grace_s=1.0)
    assert read_journal(tmp_path / "j.sqlite").columns["model"] == ["sharegpt-rich"] * 3 + ["other"]


async def test_a_very_long_prompt_is_read_off_the_event_loop_for_the_journal_too(
    make_stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = await make_stack(journal=str(tmp_path / "j.sqlite"))
    threads = []
    taken = stack.proxy.recorder.features

    def watched(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return taken(*given)

    monkeypatch.setattr(stack.proxy.recorder, "features", watched)
    for text in ("word", "word " * 20_000):
        await stack.ask(text=text)
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threads[0]


KILLED = """
import sys, asyncio, json
from clairvoyant_lab.journal import JournalWriter
from clairvoyant_lab.serving.recorder import journal_schema
sys.path.insert(0, sys.argv[2])
from test_journal import row
import time
writer = JournalWriter(sys.argv[1], journal_schema())
k = 0
while True:
    writer.put(row(k, arrival_unix_s=time.time()))
    print(k, flush=True)
    k += 1
    time.sleep(0.01)
"""


def test_kill_9_loses_at_most_the_last_second(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    handed_over: list[tuple[float, int]] = []
    # until twenty rows are older than the second that may be lost
    while len(handed_over) <= 20 or time.monotonic() - handed_over[20][0] < 1.1:
        handed_over.append((time.monotonic(), int(process.stdout.readline())))
    killed_at = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    kept = set(read_journal(path).columns["request_id"])
    due = [k for at, k in handed_over if killed_at - at > 1.0]
    assert len(due) >= 20
    assert all(f"r{k}" in kept for k in due)
    # and the file goes on
    written(path, [row(10**6)])
    assert "r1000000" in read_journal(path).columns["request_id"]


# -- shadow and tau ---------------------------------------------------------------------------------


async def test_shadow_mode_stays_fcfs_and_counts_what_would_have_been(make_stack: Any) -> None:
    import asyncio

    stack = await make_stack(shadow=True, policy=None)
    tasks = [asyncio.create_task(stack.ask("run", tokens=300))]
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    for k, p in enumerate((0.9, 0.1, 0.5)):
        tasks.append(asyncio.create_task(stack.ask(f"w{k}", p=p, tokens=1)))
        await stack.until(lambda k=k: len(stack.proxy.line.waiting) == k + 1)
    await asyncio.gather(*tasks)
    assert stack.served() == ["run", "w0", "w1", "w2"]
    # of three dispatches with a choice of 3, 2, 1: w0 differs, w1 is right, w2 is no choice
    assert stack.proxy.shadow.state() == {"policy": "sjf_tokens", "decisions": 2, "agreed": 1}


async def test_shadow_mode_is_switched_on_and_off_live(stack: Any) -> None:
    from clairvoyant_lab.serving import AsyncProxyClient

    async with AsyncProxyClient(stack.proxy.url) as client:
        state = await client.set_policy(shadow=True)
        assert (state.name, state.shadow["name"]) == ("fcfs", "sjf_tokens")
        state = await client.set_policy(starvation_timeout_s=4.0)
        assert (state.name, state.shadow["starvation_timeout_s"]) == ("fcfs", 4.0)
        state = await client.set_policy(shadow=False)
        assert (state.name, state.starvation_timeout_s, state.shadow) == ("sjf_tokens", 4.0, None)


def finished(k: int, arrival_s: float, service_s: float, p_long: float, tokens: int) -> Any:
    from clairvoyant_lab.serving.history import Finished

    proba = (1 - p_long, 0.0, p_long)
    return Finished(
        request_id=f"r{k}",
        arrival_unix_s=0.0,
        arrival_s=arrival_s,
        path="/v1/completions",
        outcome="done",
        status=200,
        origin="model",
        stated=None,
        probabilities=proba,
        predicted_tokens=float(tokens),
        expected_service_s=service_s,
        token_cap=None,
        prompt_tokens=None,
        response_tokens=tokens,
        wait_s=0.0,
        first_token_s=None,
        service_s=service_s,
        promoted=False,
        position=1,
        policy="fcfs",
        stream=False,
    )


def test_the_estimate_is_the_simulators_and_needs_enough_requests() -> None:
    rng = np.random.default_rng(2)
    long = rng.random(300) < 0.5
    arrival = np.cumsum(rng.exponential(8.0, 300))
    records = [
        finished(
            k, float(arrival[k]), 8.9 if long[k] else 3.5, 0.9 if long[k] else 0.1, 900 if long[k] else 50
        )
        for k in range(300)
    ]
    got = compare_on_window(records, serial_policy("sjf"), 1)
    assert got["under_policy"]["short_p50_s"] < got["fcfs"]["short_p50_s"]
    assert got["short_p50_gain_low"] <= got["short_p50_gain"] <= got["short_p50_gain_high"]
    assert got["short_p50_gain"] == pytest.approx(
        1 - got["under_policy"]["short_p50_s"] / got["fcfs"]["short_p50_s"]
    )
    json.dumps(got, allow_nan=False)
    few = compare_on_window(records[:5], serial_policy("sjf"), 1)
    assert (few["n"], few["fcfs"]) == (5, None)


async def test_tau_auto_is_three_times_the_mean_service_of_short_answers(make_stack: Any) -> None:
    stack = await make_stack(tau_mode="auto")
    assert not await stack.proxy.tuner.tune(), "nothing seen yet"
    stack.proxy.history.short_service_s.extend([1.0, 3.0] * 5)
    assert await stack.proxy.tuner.tune()
    assert stack.proxy.line.policy.starvation_timeout_s == 6.0
    stack.proxy.history.short_service_s.extend([2.05] * 1)
    assert not await stack.proxy.tuner.tune(), "within a twentieth it stays"


async def test_tau_in_shadow_mode_is_the_watched_policys(make_stack: Any) -> None:
    stack = await make_stack(tau_mode="auto", shadow=True)
    stack.proxy.history.short_service_s.extend([2.0] * 10)
    assert await stack.proxy.tuner.tune()
    assert stack.proxy.shadow.policy.starvation_timeout_s == 6.0
    assert stack.proxy.line.policy.starvation_timeout_s is None


def test_the_pace_is_learnt_and_forgets() -> None:
    pace = Pace()
    rng = np.random.default_rng(1)
    for tokens in rng.integers(10, 900, 200):
        pace.learn(int(tokens), 0.5 + 0.03 * tokens)
    assert (pace.overhead_s, pace.per_token_s) == (
        pytest.approx(0.5, abs=0.01),
        pytest.approx(0.03, abs=1e-4),
    )
    for tokens in rng.integers(10, 900, 300):
        pace.learn(int(tokens), 0.01 * tokens)
    assert pace.per_token_s == pytest.approx(0.01, abs=2e-3)
    same = Pace()
    for _ in range(5):
        same.learn(10, 1.0)
    assert same.expected_s(20) == pytest.approx(2.0)


async def test_tau_calibrated_comes_from_the_recent_traffic(
    make_stack: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "clairvoyant_lab.proxy")
    stack = await make_stack(tau_mode="calibrated", starvation_timeout_s=0.001)
    assert not await stack.proxy.tuner.tune(), "too little seen yet"
    rng = np.random.default_rng(2)
    arrival = np.cumsum(rng.exponential(8.0, 400))
    for k in range(400):
        long = bool(rng.random() < 0.5)
        service, tokens, p = (8.9, 900, 0.9) if long else (3.5, 50, 0.1)
        stack.proxy.history.recent.append(finished(k, float(arrival[k]), service, p, tokens))
    stack.proxy.history.outcomes["done"] += 400
    assert await stack.proxy.tuner.tune()
    timeout = stack.proxy.line.policy.starvation_timeout_s
    assert timeout is None or timeout > 3.0, "a tau that promotes everyone is no advice"
    assert "on the last 400 requests: " in caplog.text
    assert "against FCFS" in caplog.text, "the log says what the timeout buys and costs"
    assert not await stack.proxy.tuner.tune(), "not again before as many have come"


def test_a_file_that_another_program_locks_for_a_while_loses_no_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j.sqlite"
    writers = [JournalWriter(path, journal_schema()) for _ in range(2)]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for k in range(10):
        writers[k % 2].put(row(k))
    deadline = time.monotonic() + 20.0
    while caplog.text.count("has locked the journal") < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    other.execute("COMMIT")
    for k in range(10, 20):
        writers[k % 2].put(row(k))
    for writer in writers:
        writer.close()
        assert (writer.failure, writer.lost, writer.written) == (None, 0, 10)
    assert caplog.text.count("has locked the journal") == 2, "told once each, and then it waits"
    (n,) = other.execute("SELECT COUNT(DISTINCT request_id) FROM requests").fetchone()
    other.close()
    assert n == 20
