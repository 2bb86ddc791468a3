"""What to run next: serial and batch policies, exact optimum, theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.scheduling.batch import BatchPlan as BatchPlan
    from clairvoyant_lab.scheduling.batch import BatchPolicy as BatchPolicy
    from clairvoyant_lab.scheduling.batch import batch_policy as batch_policy
    from clairvoyant_lab.scheduling.measure import measure_schedule as measure_schedule
    from clairvoyant_lab.scheduling.optimum import batch_optimum as batch_optimum
    from clairvoyant_lab.scheduling.optimum import exhaustive_optimum as exhaustive_optimum
    from clairvoyant_lab.scheduling.serial import SerialPolicy as SerialPolicy
    from clairvoyant_lab.scheduling.serial import serial_policy as serial_policy

__all__ = [
    "BatchPlan",
    "BatchPolicy",
    "SerialPolicy",
    "batch_optimum",
    "batch_policy",
    "exhaustive_optimum",
    "measure_schedule",
    "serial_policy",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BatchPlan": "batch",
        "BatchPolicy": "batch",
        "SerialPolicy": "serial",
        "batch_optimum": "optimum",
        "batch_policy": "batch",
        "exhaustive_optimum": "optimum",
        "measure_schedule": "measure",
        "serial_policy": "serial",
    },
)
