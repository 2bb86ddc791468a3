"""What to run next: serial and batch policies, exact optimum, theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.scheduling.batch import BatchPolicy as BatchPolicy
    from clairvoyant_lab.scheduling.batch import batch_policy as batch_policy
    from clairvoyant_lab.scheduling.serial import SerialPolicy as SerialPolicy
    from clairvoyant_lab.scheduling.serial import serial_policy as serial_policy

__all__ = ["BatchPolicy", "SerialPolicy", "batch_policy", "serial_policy"]

__getattr__ = lazy_names(
    __name__,
    {
        "BatchPolicy": "batch",
        "SerialPolicy": "serial",
        "batch_policy": "batch",
        "serial_policy": "serial",
    },
)
