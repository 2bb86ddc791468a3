"""The controller that sets τ from outside the policy, now and then (`tau_mode` auto or calibrated)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from clairvoyant_lab.scheduling.serial import SerialPolicy
from clairvoyant_lab.serving.history import Finished
from clairvoyant_lab.serving.shadow import window_trace

if TYPE_CHECKING:
    from clairvoyant_lab.serving.proxy import Proxy

__all__ = ["LEAST_SHORT", "Tuner", "paper_tau"]

log = logging.getLogger("clairvoyant_lab.proxy")

LEAST_SHORT = 10
LEAST_FOR_CALIBRATION = 200
_EVERY_S = 5.0


def paper_tau(short_service_s: list[float]) -> float | None:
    """τ = 3 x mean service time of short requests (Clairvoyant, 3.4); None with too few of them."""
    if len(short_service_s) < LEAST_SHORT:
        return None
    return 3.0 * sum(short_service_s) / len(short_service_s)


class Tuner:
    """Sets a new fixed τ every few seconds, if it has moved by more than a twentieth.

    Parameters
    ----------
    proxy : Proxy
        Whose policy it tunes.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._task: asyncio.Task[None] | None = None
        self._calibrated_at = 0
        self.mode = proxy.settings.tau_mode

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def tune(self) -> bool:
        """Look once; True if τ was changed."""
        if self.mode == "fixed":
            return False
        # in shadow mode the policy that is watched has a τ; first-come-first-served needs none
        target = self._proxy.line if self._proxy.shadow is None else self._proxy.shadow
        policy = target.policy
        wanted = await self._calibrated(policy) if self.mode == "calibrated" else self._by_the_paper(policy)
        if wanted is None or wanted.starvation_timeout_s == policy.starvation_timeout_s:
            return False
        current, value = policy.starvation_timeout_s, wanted.starvation_timeout_s
        if current is not None and value is not None and abs(value - current) <= 0.05 * current:
            return False
        target.set_policy(policy.with_timeout(value))
        log.info("τ %s: now %s", self.mode, "no limit" if value is None else f"{value:.3g} s")
        self._proxy.events.publish(
            "policy", {"name": policy.name, "starvation_timeout_s": value, "tau_mode": self.mode}
        )
        return True

    def _by_the_paper(self, policy: SerialPolicy) -> SerialPolicy | None:
        value = paper_tau(list(self._proxy.history.short_service_s))
        return None if value is None else policy.with_timeout(value)

    async def _calibrated(self, policy: SerialPolicy) -> SerialPolicy | None:
        history = self._proxy.history
        done = history.outcomes["done"]
        # the first time with enough requests, then after as many again
        if len(history.recent) < LEAST_FOR_CALIBRATION or done - self._calibrated_at < LEAST_FOR_CALIBRATION:
            return None
        self._calibrated_at = done
        records = list(history.recent)
        return await asyncio.get_running_loop().run_in_executor(None, _calibrate, records, policy)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.tune()
            except Exception as error:  # a failed calibration must not end the controller
                log.warning("τ could not be set (%s: %s); it stays", type(error).__name__, error)


def _calibrate(records: list[Finished], policy: SerialPolicy) -> SerialPolicy:
    """The advised policy on the recent traffic, with the predictions it had; τ None is no limit."""
    from clairvoyant_lab.advice import calibrate_tau

    advice = calibrate_tau(window_trace(records), policy=policy, promotion=policy.promotion, accuracy=None)
    log.info("on the last %d requests: %s", len(records), advice.sentence())
    return advice.policy
