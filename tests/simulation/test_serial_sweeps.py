"""Sweeps: one tidy frame, common random numbers, any executor, and a kill -9 in the middle."""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.simulation.sweeps import sweep

SETTINGS = {"taus_s": (None, 10.5), "rhos": (0.5, 0.8), "cs2s": (0.5, 2.0), "seeds": (1, 2, 3), "n": 300}


def test_a_sweep_is_every_combination_once() -> None:
    result = sweep(("fcfs", "sjf"), **SETTINGS, promotions=("oldest", "shortest"))
    frame = result.to_frame()
    # fcfs, sjf, sjf with tau under two rules; 2 loads, 2 C_s², 3 seeds; all, Short, Long
    assert len(frame) == 4 * 2 * 2 * 3 * 3
    assert not frame.duplicated(["policy", "promotion", "tau_s", "rho", "cs2", "seed", "class"]).any()
    assert result.cells_computed == 48
    one = frame.query("policy == 'fcfs' and rho == 0.8 and cs2 == 2.0 and seed == 3 and `class` == 'Short'")
    trace = cl.Trace.from_poisson(300, cl.simulation.workloads.paper_mix(2.0), rho=0.8, seed=3, accuracy=0.95)
    run = cl.simulate_serial(trace, "fcfs")
    assert one["p50_sojourn_s"].item() == run.percentile(50, cl.LengthClass.SHORT)


def test_paired_differences_are_narrower_than_unpaired_ones() -> None:
    result = sweep(("fcfs", "sjf"), (None,), (0.8,), (1.0,), range(10), n=500)
    pairs = result.differences("fcfs").query("`class` == 'all'").iloc[0]
    means = result.means().query("`class` == 'all'").set_index("policy")
    assert pairs["difference"] == pytest.approx(
        means.loc["sjf", "p50_sojourn_s"] - means.loc["fcfs", "p50_sojourn_s"]
    )
    unpaired = sum(
        (means.loc[p, "p50_sojourn_s_high"] - means.loc[p, "p50_sojourn_s"]) ** 2 for p in ("fcfs", "sjf")
    )
    assert pairs["difference_high"] - pairs["difference"] < unpaired**0.5
    assert pairs["change_pct"] < 0


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_give_the_same_frame(pool: type) -> None:
    here = sweep(("fcfs", "sjf"), **SETTINGS).to_frame()
    with pool(max_workers=2) as executor:
        there = sweep(("fcfs", "sjf"), **SETTINGS, executor=executor).to_frame()
    pd.testing.assert_frame_equal(here, there)


def test_a_dask_client_gives_the_same_frame(tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed") is None:
        if os.environ.get("REQUIRE_PEERS") == "1":
            pytest.fail("distributed is not installed, and REQUIRE_PEERS=1 asks for it")
        pytest.skip("distributed is not installed (extra: cluster)")
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None,
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        there = sweep(("fcfs", "sjf"), **SETTINGS, executor=client).to_frame()
    pd.testing.assert_frame_equal(sweep(("fcfs", "sjf"), **SETTINGS).to_frame(), there)


def test_a_store_gives_back_what_it_took_and_adds_policies(tmp_path: Path) -> None:
    store = tmp_path / "sweep.sqlite"
    first = sweep(("fcfs",), **SETTINGS, store=store)
    again = sweep(("fcfs",), **SETTINGS, store=store)
    assert (first.cells_computed, again.cells_computed, again.cells_reused) == (12, 0, 12)
    pd.testing.assert_frame_equal(first.to_frame(), again.to_frame())
    more = sweep(("fcfs", "sjf"), **SETTINGS, store=store)
    assert (more.cells_computed, more.cells_reused) == (24, 12)
    other = sweep(("fcfs",), **{**SETTINGS, "n": 301}, store=store)
    assert other.cells_reused == 0


def test_a_killed_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = tmp_path / "killed.sqlite"
    program = textwrap.dedent(
        """
        import sys
        from clairvoyant_lab.simulation.sweeps import sweep
        result = sweep(("fcfs", "sjf"), (None, 10.5), (0.8,), (1.0,), range(150), n=2000, store=sys.argv[1])
        print(result.cells_computed, result.cells_reused)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(store)])
    try:
        deadline = time.monotonic() + 60
        while stored(store) < 60:
            assert child.poll() is None, "the sweep ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    kept = stored(store)
    assert 60 <= kept < 450
    done = subprocess.run(
        [sys.executable, "-c", program, str(store)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == [str(450 - kept), str(kept)]
    assert stored(store) == 450


def stored(store: Path) -> int:
    if not store.exists():
        return 0
    try:
        with sqlite3.connect(store, timeout=5) as db:
            return int(db.execute("SELECT COUNT(*) FROM cells").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_bad_sweeps_are_refused() -> None:
    with pytest.raises(cl.ParameterError, match=r"service.*unknown"):
        sweep(service="weibull")
    with pytest.raises(cl.ParameterError, match="no classes"):
        sweep(service="gamma")
    with pytest.raises(cl.ParameterError, match="Did you mean 'fcfs'"):
        sweep(("sjf", "fcfs"), n=50).differences("fcf")
    frame = sweep(("fcfs", "oracle"), service="gamma", accuracy=None, n=50).to_frame()
    assert set(frame["class"]) == {"all"}
    assert np.isnan(frame["tau_s"]).all()
