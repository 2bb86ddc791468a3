"""Serial and batch engines, traces, workloads, and the results they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.simulation.batch import BatchRun as BatchRun
    from clairvoyant_lab.simulation.batch import simulate_batch as simulate_batch
    from clairvoyant_lab.simulation.serial import SerialRun as SerialRun
    from clairvoyant_lab.simulation.serial import simulate_serial as simulate_serial
    from clairvoyant_lab.simulation.trace import Trace as Trace

__all__ = ["BatchRun", "SerialRun", "Trace", "simulate_batch", "simulate_serial"]

__getattr__ = lazy_names(
    __name__,
    {
        "BatchRun": "batch",
        "SerialRun": "serial",
        "Trace": "trace",
        "simulate_batch": "batch",
        "simulate_serial": "serial",
    },
)
