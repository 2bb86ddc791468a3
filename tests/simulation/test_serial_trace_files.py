"""Traces in files: read back to the bit, public formats, every row accounted for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.journal import JournalRow, JournalWriter
from clairvoyant_lab.serving.recorder import journal_schema
from clairvoyant_lab.simulation.profiles import (
    TokenPace,
    hardware_profile,
    profile_from_trace,
    profile_names,
)
from clairvoyant_lab.simulation.trace_files import read_trace
from clairvoyant_lab.simulation.workloads import paper_mix, poisson_trace


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_what_is_written_is_read_back(tmp_path: Path, ending: str) -> None:
    trace = poisson_trace(200, paper_mix(0.7), rho=0.8, seed=3, accuracy=0.9)
    trace = trace.with_columns(
        request_id=[f"r{i}" for i in range(200)],
        predicted_tokens=np.linspace(1, 900, 200),
        token_cap=[np.nan, 12.0] * 100,
    )
    path = tmp_path / f"trace.{ending}"
    trace.write(path)
    again = cl.Trace.read(path)
    assert list(again.columns()) == list(trace.columns())
    for name, values in trace.columns().items():
        got = again.columns()[name]
        assert got.dtype == values.dtype or name == "request_id"
        np.testing.assert_array_equal(got, values)


def test_azure_times_keep_seven_digits_with_crlf_and_no_final_newline(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_bytes(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        b"2023-11-16 18:15:46.6805900,374,44\r\n"
        b"2023-11-16 18:15:46.6805901,10,0\r\n"
        b"2023-11-16 18:15:46.6805902,10,7\r\n"
        b"not a time,1,1\r\n"
        b"2023-11-16 18:15:50,x,5\r\n"
        b"2023-11-16 18:15:50.9951690,396,109"
    )
    trace = read_trace(path, pace=TokenPace(100.0, 10.0, 0.5))
    assert trace.arrival_s.tolist() == [0.0, 2e-7, 4.3145790]
    assert trace.service_s.tolist() == [0.5 + 3.74 + 4.4, 0.5 + 0.1 + 0.7, 0.5 + 3.96 + 10.9]
    assert trace.dropped == {
        "time not readable": 1,
        "token count not readable": 1,
        "no response (failed)": 1,
    }
    assert trace.rows_read == 6 == len(trace) + sum(trace.dropped.values())
    assert "prompt tokens / 100 per s" in trace.service_model


@pytest.mark.parametrize("extra", [False, True])
def test_burstgpt_with_six_and_eight_columns(tmp_path: Path, extra: bool) -> None:
    path = tmp_path / "burst.csv"
    head = "Timestamp,Session ID,Elapsed time,Model" if extra else "Timestamp,Model"
    middle = ",s1,0.5,ChatGPT" if extra else ",ChatGPT"
    rows = [(5, 472, 18), (45, 1087, 230), (45, 3, 4), (20, 7, 0), (9, 9, 900)]
    lines = [f"{head},Request tokens,Response tokens,Total tokens,Log Type"]
    lines += [f"{t}{middle},{p},{r},{p + r},Conversation log" for t, p, r in rows]
    path.write_text("\n".join(lines))
    trace = cl.Trace.read(path)
    assert trace.arrival_s.tolist() == [0.0, 4.0, 40.0, 40.0]
    assert trace.response_tokens is not None
    assert trace.response_tokens.tolist() == [18, 900, 230, 4]  # equal times keep the file's order
    assert trace.dropped == {"no response (failed)": 1}
    assert trace.length_class is not None
    assert trace.length_class.tolist() == [0, 2, 1, 0]


def test_real_public_traces_come_whole(shared_dir: Path) -> None:
    azure = cl.Trace.read(shared_dir / "data" / "azure_llm_2023_conv.csv", pace="l4")
    assert azure.rows_read == 19366
    assert azure.rows_read == len(azure) + sum(azure.dropped.values())
    assert azure.length_class is not None
    # the notes on the papers: 0.23 % of this traffic is Long
    assert 100 * np.mean(azure.length_class == cl.LengthClass.LONG) == pytest.approx(0.23, abs=0.01)
    mooncake = cl.Trace.read(shared_dir / "data" / "mooncake_conversation_head.jsonl")
    assert mooncake.arrival_s[0] == 0.0
    assert (np.diff(mooncake.arrival_s) >= 0).all()
    assert mooncake.prompt_tokens is not None
    assert mooncake.prompt_tokens[0] == 6758


def test_unknown_columns_and_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(cl.DataError, match="no known trace format has the columns a, b"):
        cl.Trace.read(path)
    with pytest.raises(cl.DataError, match="no such file"):
        cl.Trace.read(tmp_path / "missing.csv")
    with pytest.raises(cl.ParameterError, match="parquet"):
        cl.Trace.from_arrays([0], [1]).write(tmp_path / "x.txt")


@pytest.mark.parametrize(
    ("arrival", "service", "column", "row"),
    [
        ([0, 2, 1], [1, 1, 1], "arrival_s", 2),
        ([0, float("nan")], [1, 1], "arrival_s", 1),
        ([0, 1], [1, -0.5], "service_s", 1),
        ([0, 1], [float("inf"), 1], "service_s", 0),
    ],
)
def test_bad_times_are_named(arrival: list[float], service: list[float], column: str, row: int) -> None:
    with pytest.raises(cl.DataError) as refused:
        cl.Trace.from_arrays(arrival, service)
    assert (refused.value.column, refused.value.row) == (column, row)


def test_bad_columns_are_named() -> None:
    with pytest.raises(cl.DataError, match=r"score.*not a finite number"):
        cl.Trace.from_arrays([0, 1], [1, 1], [0.5, float("nan")])
    with pytest.raises(cl.DataError, match=r"length_class.*no LengthClass"):
        cl.Trace.from_arrays([0], [1], length_class=[3])
    with pytest.raises(cl.ParameterError, match=r"scores.*Did you mean"):
        cl.Trace.from_arrays([0], [1], scores=[1])
    trace = cl.Trace.from_arrays([0], [1])
    with pytest.raises(ValueError, match="read-only"):
        trace.arrival_s[0] = 5.0


def test_profiles_say_where_each_number_comes_from() -> None:
    assert set(profile_names()) == {"m1", "rtx4090-gemma", "rtx4090-llama", "l4"}
    for name in profile_names():
        profile = hardware_profile(name)
        assert profile.source
        assert all(source for _, _, source in profile.classes.values())
        assert sum(share for share, _, _ in profile.classes.values()) == pytest.approx(1.0)
    assert hardware_profile("l4").service_model().mean_s == pytest.approx(6.2)
    m1 = hardware_profile("m1").classes[cl.LengthClass.LONG][1]
    assert float(m1.quantile(0.95)) == pytest.approx(55.8, rel=0.03)
    assert float(m1.quantile(0.5)) == pytest.approx(27.5, rel=0.03)
    with pytest.raises(cl.ParameterError, match="Did you mean 'l4'"):
        hardware_profile("l44")


def test_a_profile_of_ones_own_finds_the_pace() -> None:
    rng = np.random.default_rng(1)
    prompt, response = rng.integers(1, 3000, 500), rng.integers(1, 1500, 500)
    pace = TokenPace(400.0, 25.0, 0.3)
    trace = cl.Trace.from_arrays(
        np.arange(500.0), pace.service_s(prompt, response), prompt_tokens=prompt, response_tokens=response
    )
    own = profile_from_trace(trace)
    assert own.pace.decode_tokens_per_s == pytest.approx(25.0)
    assert own.pace.prefill_tokens_per_s == pytest.approx(400.0)
    assert own.service_model().mean_s == pytest.approx(trace.mean_service_s)


def test_a_journal_is_a_trace_and_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    writer = JournalWriter(path, journal_schema())
    for number, (outcome, tokens, service) in enumerate(
        [("done", 50, 2.0), ("gone_queued", None, None), ("done", 1000, 30.0), ("done", 100, 4.0)]
    ):
        writer.put(
            JournalRow(
                request_id=f"r{number}", arrival_unix_s=1e9 + number, path="/v1/chat/completions",
                outcome=outcome, status=200, origin="model", stated=None, p_short=0.7, p_medium=0.2,
                p_long=0.1 * number, predicted_tokens=100.0, expected_service_s=3.0, token_cap=None,
                prompt_tokens=10, response_tokens=tokens, wait_s=0.0, first_token_s=0.1, service_s=service,
                promoted=0, position=0, policy="sjf", model="m", stream=1, features=None, ngrams=None,
            )
        )  # fmt: skip
    writer.close()
    trace = cl.Trace.read(path)
    assert trace.arrival_s.tolist() == [0.0, 2.0, 3.0]
    assert trace.service_s.tolist() == [2.0, 30.0, 4.0]
    assert trace.rows_read == 4 == len(trace) + sum(trace.dropped.values())
    assert trace.length_class is not None
    assert trace.length_class.tolist() == [0, 2, 0]
    own = profile_from_trace(trace)
    assert own.service_model().mean_s == pytest.approx(12.0)
    assert cl.simulate_serial(trace, "sjf").order.tolist() == [0, 1, 2]
