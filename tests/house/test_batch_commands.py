"""The commands simulate batch and calibrate alpha."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from clairvoyant_lab.cli import app


@pytest.fixture
def call():
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


def test_simulate_batch_prints_a_row_a_policy_and_alpha(call):
    result = call("simulate", "batch", "fcfs", "isjl", "slack", "-a", "50", "-a", "200", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [(row["policy"], row["alpha"]) for row in rows] == [
        ("fcfs", None),
        ("isjl", 50),
        ("isjl", 200),
        ("slack", 50),
        ("slack", 200),
    ]
    assert all(row["fair"] for row in rows[1:])
    assert all(row["makespan_steps"] >= row["fair_bound_steps"] for row in rows[1:])
    table = call("simulate", "batch", "ljf", "--workload", "lmsys-like", "-B", "16")
    assert "2,000 jobs" in table.stdout


def test_simulate_batch_reads_files(call, tmp_path):
    text = tmp_path / "lengths.txt"
    text.write_text("6\n6\n3\n3\n")
    result = call(
        "simulate", "batch", "isjl", "slack", "-a", "3", "-B", "3", "--lengths", str(text), "--json"
    )
    assert [row["makespan_steps"] for row in json.loads(result.stdout)] == [9, 6]
    text.write_text("6\nx\n")
    broken = call("simulate", "batch", "isjl", "--lengths", str(text))
    assert broken.exit_code == 2
    assert "row 1" in broken.stderr
    text.write_text("6\n0\n")
    assert "lengths[1]" in call("simulate", "batch", "isjl", "--lengths", str(text)).stderr


def test_bad_use_exits_with_2(call):
    assert call("simulate", "batch", "isjl", "-a", "-1").exit_code == 2
    unknown = call("simulate", "batch", "isjll")
    assert unknown.exit_code == 2
    assert "Did you mean 'isjl'" in unknown.stderr


def test_calibrate_alpha_answers_or_says_no(call):
    result = call("calibrate", "alpha", "--policy", "slack", "--min-throughput", "41", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["alpha"] > 0
    assert len(answer["candidates"]) > 5
    refused = call("calibrate", "alpha", "--min-throughput", "60")
    assert refused.exit_code == 1
    assert "no alpha" in refused.stderr
