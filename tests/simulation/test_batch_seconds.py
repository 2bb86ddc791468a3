"""Batch runs read in seconds, and the lengths of batch workloads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.simulation.batch_time import (
    FootprintTime,
    MeasuredTime,
    UnitTime,
    step_profile,
    time_run,
)
from clairvoyant_lab.simulation.batch_workloads import lmsys_like_lengths, trace_lengths

LENGTHS = lmsys_like_lengths(300, 1)


def run(name="isjl", **keywords):
    return cl.simulate_batch(LENGTHS, cl.batch_policy(name, alpha=40), 16, **keywords)


def test_profile_adds_up_to_the_runs_measures():
    for name in ("fcfs", "isjl"):
        done = run(name)
        running, largest = step_profile(done.start_steps, done.lengths)
        assert running.sum() == done.tokens
        assert largest.sum() == done.sum_max_progress
        assert (running * largest).sum() == done.externality + done.intrinsic
        assert running.max() <= 16


def test_unit_time_is_steps():
    done = run()
    timed = time_run(done, UnitTime(0.5))
    assert timed.makespan_s == done.makespan_steps * 0.5
    assert (timed.finish_s == done.finish_steps * 0.5).all()


def test_footprint_time_is_equation_3():
    done = run("fcfs")
    timed = time_run(done, FootprintTime(base_s=0.01, per_token_s=1e-6))
    expected = 0.01 * done.makespan_steps + 1e-6 * (done.externality + done.intrinsic)
    assert timed.makespan_s == pytest.approx(expected)
    assert timed.summary()["p50_latency_s"] <= timed.summary()["p99_latency_s"]
    assert "latency_s" in timed.to_frame()


def test_measured_table_interpolates_and_holds_its_edges():
    table = pd.DataFrame(
        [(1, 1, 1.0), (1, 101, 2.0), (11, 1, 3.0), (11, 101, 4.0)],
        columns=["running", "context_tokens", "step_s"],
    )
    model = MeasuredTime.from_frame(table)
    seconds = model.seconds(np.array([1, 6, 11, 50, 0]), np.array([51, 51, 101, 900, 0]))
    assert seconds.tolist() == [1.5, 2.5, 4.0, 4.0, 1.0]
    assert time_run(run(), model).makespan_s > 0
    with pytest.raises(DataError, match="no time for 11"):
        MeasuredTime.from_frame(table.iloc[:3])
    with pytest.raises(DataError, match="twice"):
        MeasuredTime.from_frame(pd.concat([table, table]))
    with pytest.raises(DataError, match="step_s"):
        MeasuredTime.from_frame(table.drop(columns="step_s"))
    with pytest.raises(ParameterError):
        MeasuredTime(np.array([2, 1]), np.array([1]), np.ones((2, 1)))
    single = MeasuredTime(np.array([4]), np.array([9]), np.array([[0.25]]))
    assert single.seconds(np.array([1, 7]), np.array([2, 99])).tolist() == [0.25, 0.25]


def test_release_counts_in_seconds():
    release = np.arange(LENGTHS.size) * 3
    done = cl.simulate_batch(LENGTHS, cl.batch_policy("online", alpha=40), 16, release_steps=release)
    timed = time_run(done, UnitTime(2.0))
    assert (timed.latency_s == 2.0 * done.latency_steps).all()


def test_models_refuse_nonsense():
    with pytest.raises(ParameterError):
        UnitTime(0)
    with pytest.raises(ParameterError):
        FootprintTime(0.1, -1)

    class Wrong:
        def seconds(self, running, largest):
            return np.full(running.shape, np.nan)

    with pytest.raises(ParameterError, match="finite time"):
        time_run(run(), Wrong())


def test_lmsys_like_lengths_match_section_6():
    lengths = lmsys_like_lengths()
    assert lengths.size == 2_000
    assert lengths.mean() == pytest.approx(126, abs=0.5)
    assert np.median(lengths) == pytest.approx(90, abs=2)
    assert lengths.var() == pytest.approx(14_938, rel=0.01)
    assert lengths.max() == 905
    assert (np.sort(lengths) == np.sort(lmsys_like_lengths(seed=5))).all()
    assert (lengths != lmsys_like_lengths(seed=5)).any()
    with pytest.raises(ParameterError):
        lmsys_like_lengths(0)


def test_trace_lengths(tmp_path, shared_dir: Path):
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nx,5,7\ny,1,0\n")
    assert trace_lengths(path).tolist() == [12, 1]
    path.write_text("prompt_tokens,response_tokens\n5,7\n0,0\n")
    with pytest.raises(DataError, match="row 1"):
        trace_lengths(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="ContextTokens"):
        trace_lengths(path)
    with pytest.raises(DataError, match="can't be read"):
        trace_lengths(tmp_path / "none.csv")
    azure = trace_lengths(shared_dir / "data" / "azure_llm_2023_conv.csv", n=500)
    assert azure.size == 500
    assert azure.min() >= 1
