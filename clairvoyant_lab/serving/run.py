"""Run a proxy or an emulator in the foreground until SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from clairvoyant_lab.serving.backends.emulate import Emulator
from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.loops import new_event_loop
from clairvoyant_lab.serving.open_files import waiting_room
from clairvoyant_lab.serving.proxy import Proxy, load_model

__all__ = ["run_emulator", "run_proxy"]

log = logging.getLogger("clairvoyant_lab.proxy")


def run_proxy(settings: ProxySettings) -> None:
    """Run a proxy; the first signal lets running requests finish, a second one ends it at once.

    Raises
    ------
    ClairvoyantError
        If the model cannot be loaded or the address is taken.
    """
    _log_to_stderr()
    _run(_proxy(settings))


def run_emulator(**options: Any) -> None:
    """Run an emulator.

    Raises
    ------
    ClairvoyantError
        If the address is taken.
    """
    _run(_emulator(options))


def _run(work: Coroutine[Any, Any, None]) -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed by who started us: a socket must not get the number of stdout
            os.open(os.devnull, os.O_RDWR)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


async def _proxy(settings: ProxySettings) -> None:
    room = waiting_room(settings.max_queue, settings.slots)
    if room < settings.max_queue:
        log.warning(
            "too few files may be open (ulimit -n) for max_queue = %d: %d may wait", settings.max_queue, room
        )
    proxy = Proxy(replace(settings, max_queue=room), load_model(settings.model))
    stop, hurry = asyncio.Event(), asyncio.Event()

    def asked() -> None:
        (hurry if stop.is_set() else stop).set()

    _on_signals(asked)
    await proxy.start()
    # the model and its runtimes stay for good: the collector need not walk them for every few requests
    gc.collect()
    gc.freeze()
    # a request makes hundreds of small objects and next to no cycles: look for them less often
    gc.set_threshold(20_000, 20, 50)
    beside = "" if proxy.shadow is None else f"; shadow of {proxy.shadow.policy.label}"
    print(f"proxy {proxy.url} -> {settings.backend}, policy {proxy.line.policy.label}{beside}", flush=True)
    await stop.wait()
    log.info(
        "stopping: %d running may finish (%g s at most; a second signal ends it now), %d waiting are refused",
        len(proxy.line.running),
        settings.grace_s,
        len(proxy.line.waiting),
    )
    ending = asyncio.create_task(proxy.stop())
    hurried = asyncio.create_task(hurry.wait())
    await asyncio.wait({ending, hurried}, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        await proxy.stop(grace_s=0.0)
    hurried.cancel()
    log.info("stopped")


async def _emulator(options: dict[str, Any]) -> None:
    emulator = Emulator(**options)
    stop = asyncio.Event()
    _on_signals(stop.set)
    await emulator.start()
    print(f"emulator {emulator.url}, {emulator.profile} x {emulator.speedup:g}", flush=True)
    await stop.wait()
    await emulator.stop()


def _on_signals(action: Any) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, action)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("clairvoyant_lab")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
