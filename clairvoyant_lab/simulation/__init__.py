"""Serial and batch engines, traces, workloads, and the results they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.simulation.batch import BatchRun as BatchRun
    from clairvoyant_lab.simulation.batch import simulate_batch as simulate_batch
    from clairvoyant_lab.simulation.batch_time import FootprintTime as FootprintTime
    from clairvoyant_lab.simulation.batch_time import MeasuredTime as MeasuredTime
    from clairvoyant_lab.simulation.batch_time import TimedRun as TimedRun
    from clairvoyant_lab.simulation.batch_time import UnitTime as UnitTime
    from clairvoyant_lab.simulation.batch_time import time_run as time_run
    from clairvoyant_lab.simulation.batch_workloads import lmsys_like_lengths as lmsys_like_lengths
    from clairvoyant_lab.simulation.batch_workloads import trace_lengths as trace_lengths
    from clairvoyant_lab.simulation.serial import SerialRun as SerialRun
    from clairvoyant_lab.simulation.serial import simulate_serial as simulate_serial
    from clairvoyant_lab.simulation.trace import Trace as Trace

__all__ = [
    "BatchRun",
    "FootprintTime",
    "MeasuredTime",
    "SerialRun",
    "TimedRun",
    "Trace",
    "UnitTime",
    "lmsys_like_lengths",
    "simulate_batch",
    "simulate_serial",
    "time_run",
    "trace_lengths",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BatchRun": "batch",
        "FootprintTime": "batch_time",
        "MeasuredTime": "batch_time",
        "SerialRun": "serial",
        "TimedRun": "batch_time",
        "Trace": "trace",
        "UnitTime": "batch_time",
        "lmsys_like_lengths": "batch_workloads",
        "simulate_batch": "batch",
        "simulate_serial": "serial",
        "time_run": "batch_time",
        "trace_lengths": "batch_workloads",
    },
)
