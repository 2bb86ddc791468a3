"""Benchmarks in virtual time, and a live burst against our own emulated backend."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import clairvoyant_lab as cl
from clairvoyant_lab.bench import bench_burst, bench_poisson, bench_replay
from clairvoyant_lab.bench.live import bench_live_burst, bench_live_poisson
from clairvoyant_lab.bench.simulated import trace_at_load
from clairvoyant_lab.cli.app import app
from clairvoyant_lab.serving.threaded import ThreadedEmulator, ThreadedStack
from clairvoyant_lab.simulation.workloads import paper_mix, poisson_trace

SHORT, LONG = cl.LengthClass.SHORT, cl.LengthClass.LONG


def test_a_burst_of_table_9_size_gives_its_longest_waits() -> None:
    report = bench_burst("rtx4090-gemma", runs=20, seed=1)
    # all the work is done at the end, whatever the order: Table 9 prints 573 to 579 s
    assert report.percentile("fcfs", LONG, 99).mean() == pytest.approx(578.8, rel=0.05)
    assert report.percentile("sjf", SHORT, 99).mean() == pytest.approx(177.8, rel=0.05)
    frame = report.to_frame().set_index(["policy", "class"])
    assert frame.loc[("sjf", "Short"), "p50_cut_pct"] > 60
    assert frame.loc[("fcfs", "Short"), "p50_cut_pct"] == 0
    assert frame.loc[("sjf", "Short"), "throughput_per_s"] == pytest.approx(
        frame.loc[("fcfs", "Short"), "throughput_per_s"]
    )


def test_the_same_seed_gives_the_same_report() -> None:
    one, two = (bench_poisson("l4", 0.8, 300, runs=3, seed=7).to_frame() for _ in range(2))
    assert one.equals(two)
    assert not one.equals(bench_poisson("l4", 0.8, 300, runs=3, seed=8).to_frame())


def test_a_replay_scales_the_load_and_keeps_the_work() -> None:
    trace = poisson_trace(1000, paper_mix(0.5), rho=0.5, seed=1, accuracy=0.9)
    faster = trace_at_load(trace, 0.9)
    assert faster.load == pytest.approx(0.9)
    np.testing.assert_array_equal(faster.service_s, trace.service_s)
    slow, fast = (bench_replay(trace, rho=rho).to_frame()["p50_s"].sum() for rho in (None, 0.9))
    assert fast > slow
    with pytest.raises(cl.ParameterError, match="no load to scale"):
        trace_at_load(cl.Trace.from_arrays([0, 0], [1, 1]), 0.5)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: bench_burst("m1", -1, 5), "n_short"),
        (lambda: bench_burst("m2", 5, 5), "profile"),
        (lambda: bench_burst("l4", 5, 5, 5), "shares"),
        (lambda: bench_poisson("l4", runs=0), "runs"),
        (lambda: bench_poisson("l4", policies=("sjf", "sjf")), "policies"),
    ],
)
def test_bad_benchmarks_are_named(call: object, field: str) -> None:
    with pytest.raises(cl.ParameterError) as refused:
        call()  # type: ignore[operator]
    assert refused.value.field == field


def test_nothing_at_the_url_is_an_error_of_ours() -> None:
    with pytest.raises(cl.BackendError, match="nothing answers"):
        bench_live_burst("http://127.0.0.1:9", 1, 1, runs=1)


def test_a_live_burst_sets_each_policy_on_the_proxy_and_puts_the_old_one_back() -> None:
    with ThreadedStack(emulator={"profile": "rtx4090-gemma", "speedup": 200.0}) as stack:
        with cl.ProxyClient(stack.url) as client:
            client.set_policy("sjf_tokens", 7.0)
            report = bench_live_burst(stack.url, 4, 4, ("fcfs", "sjf"), runs=1)
            after = client.state().policy
        assert (after.name, after.starvation_timeout_s) == ("sjf_tokens", 7.0)
    assert report.policies == ("fcfs", "sjf")
    assert [sample.sojourn_s.size for sample in report.samples] == [8, 8]
    assert all(sample.failed == 0 for sample in report.samples)
    short, long = (report.percentile("sjf", c, 50).item() for c in (SHORT, LONG))
    assert short < long


def test_a_bench_needs_the_proxys_token_and_puts_all_of_its_policy_back() -> None:
    with ThreadedStack(emulator={"speedup": 500.0}, token="secret") as stack:
        with pytest.raises(cl.BackendError, match="token"):
            bench_live_burst(stack.url, 1, 1, runs=1)
        with cl.ProxyClient(stack.url, token="secret") as client:
            client.set_policy("aging", rate=0.25)
            client.set_policy(tau_mode="auto")
            before = client.policy()
            report = bench_live_burst(stack.url, 1, 1, ("fcfs",), runs=1, token="secret")
            after = client.policy()
    assert report.policies == ("fcfs",)
    assert (after.name, after.rate, after.tau_mode) == ("aging", 0.25, "auto")
    assert after == before
    assert not any("authorization" in entry.headers for entry in stack.emulator.served)


def test_a_live_burst_on_a_plain_backend_is_measured_once() -> None:
    with ThreadedEmulator(profile="rtx4090-gemma", speedup=200.0) as backend:
        report = bench_live_burst(backend.url, 2, 2, ("fcfs", "sjf"), runs=1)
    assert report.policies == ("backend",)
    assert report.samples[0].sojourn_s.size == 4


def test_live_poisson_traffic_is_timed_from_each_arrival() -> None:
    with ThreadedStack(emulator={"profile": "rtx4090-gemma", "speedup": 400.0}) as stack:
        report = bench_live_poisson(stack.url, 20.0, 12, ("fcfs", "sjf"), long_share=0.25, seed=3)
    assert (report.kind, report.mode, report.policies) == ("poisson", "live", ("fcfs", "sjf"))
    fcfs, sjf = report.samples
    np.testing.assert_array_equal(np.sort(fcfs.length_class), np.sort(sjf.length_class))
    for sample in report.samples:
        assert sample.failed == 0
        assert sample.sojourn_s.size == 12
        assert ((sample.wait_s > 0) & (sample.wait_s <= sample.sojourn_s)).all()
        # arrivals spread over about half a second: no answer is timed from the first one
        assert sample.sojourn_s.max() <= sample.makespan_s
        assert sample.makespan_s > np.median(sample.sojourn_s)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rate_per_s": 0.0}, "rate_per_s"),
        ({"n": 0}, "n"),
        ({"long_share": 1.5}, "long_share"),
        ({"runs": 0}, "runs"),
    ],
)
def test_bad_live_traffic_is_refused_before_anything_is_sent(changes: dict[str, float], field: str) -> None:
    with pytest.raises(cl.ParameterError) as refused:
        bench_live_poisson(**{"url": "http://127.0.0.1:9", "rate_per_s": 1.0, **changes})  # type: ignore[arg-type]
    assert refused.value.field == field


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout


def test_commands_print_tables_and_json(tmp_path: Path) -> None:
    code, text = run("bench", "burst", "--profile", "l4", "--short", "5", "--long", "5", "--json")
    assert code == 0
    assert {row["policy"] for row in json.loads(text)} == {"fcfs", "sjf"}
    code, text = run("simulate", "serial", "fcfs", "sjf", "--tau", "10.5", "-n", "200", "--json")
    assert code == 0
    assert {row["policy"] for row in json.loads(text)} == {"fcfs", "sjf, τ = 10.5 s"}
    path = tmp_path / "trace.csv"
    poisson_trace(400, paper_mix(1.0), rho=0.74, seed=1, accuracy=0.95).write(path)
    code, text = run("replay", str(path))
    assert code == 0
    assert "oracle" in text
    code, text = run("gate", str(path))
    assert (code, "deploy." in text) == (0, True)
    code, text = run("calibrate", "tau", "--json", "-n", "500")
    assert code in (0, 1)
    assert json.loads(text)["starvation_timeout_s"] > 0
    store = tmp_path / "s.sqlite"
    for _ in range(2):
        code, text = run("sweep", "--tau", "5", "--seeds", "2", "-n", "100", "--store", str(store), "--json")
        assert code == 0
        assert len(json.loads(text)) == 9


def test_bad_use_is_exit_code_2(tmp_path: Path) -> None:
    assert run("simulate", "serial", "sfj")[0] == 2
    assert run("bench", "burst", "--profile", "m2")[0] == 2
    assert run("bench", "poisson", "--rate", "1")[0] == 2
    assert run("bench", "poisson", "--backend", "http://127.0.0.1:9")[0] == 2
    assert run("gate", str(tmp_path / "none.csv"))[0] == 2
    assert run("replay", str(tmp_path / "none.csv"))[0] == 2
