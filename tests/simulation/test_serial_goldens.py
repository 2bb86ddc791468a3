"""The goldens, to the bit, under both engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.simulation.serial import simulate_serial

ENGINES = ("plain", "compiled")


def policies(tau: float | None) -> dict[str, cl.SerialPolicy]:
    made = {"fcfs": cl.serial_policy("fcfs"), "sjf": cl.serial_policy("sjf")}
    for promotion in ("oldest", "shortest", "long_only"):
        made[f"sjf_tau_{promotion}"] = cl.serial_policy("sjf", tau, promotion=promotion)
    return made


@pytest.mark.parametrize("engine", ENGINES)
def test_every_handed_golden_comes_out_to_the_bit(shared_dir: Path, engine: str) -> None:
    golden = json.loads((shared_dir / "golden" / "serial.json").read_text())
    assert len(golden["instances"]) >= 9
    for instance in golden["instances"]:
        trace = cl.Trace.from_arrays(instance["arrival_s"], instance["service_s"], instance["score"])
        for name, policy in policies(instance["starvation_timeout_s"]).items():
            run = simulate_serial(trace, policy, engine=engine)
            for column, expected in instance["expect"][name].items():
                got = getattr(run, column).tolist()
                assert got == expected, (instance["name"], name, column)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_wait_of_exactly_tau_is_not_promoted(engine: str) -> None:
    trace = cl.Trace.from_arrays([0, 1, 2, 3], [10, 8, 1, 2], [0.75, 0.5, 0.125, 0.25])
    run = simulate_serial(trace, cl.serial_policy("sjf", 8.0), engine=engine)
    assert run.order.tolist() == [0, 1, 2, 3]
    assert run.promoted.tolist() == [False, True, True, True]
    run = simulate_serial(trace, cl.serial_policy("sjf", 9.0), engine=engine)
    assert run.order.tolist() == [0, 2, 1, 3]
    assert run.promoted.tolist() == [False, True, False, True]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_rules_differ_once_several_requests_have_expired(engine: str) -> None:
    trace = cl.Trace.from_arrays([0, 1, 2, 3], [10, 8, 1, 2], [0.75, 0.5, 0.125, 0.25])
    orders = {
        rule: simulate_serial(
            trace, cl.serial_policy("sjf", 6.0, promotion=rule), engine=engine
        ).order.tolist()
        for rule in ("oldest", "shortest", "long_only")
    }
    assert orders == {"oldest": [0, 1, 2, 3], "shortest": [0, 2, 3, 1], "long_only": [0, 1, 2, 3]}
