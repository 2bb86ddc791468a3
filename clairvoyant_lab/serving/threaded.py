"""A proxy, and a backend if none is given, on an event loop in a thread: for notebooks, benches and tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from clairvoyant_lab.errors import ClairvoyantError
from clairvoyant_lab.scheduling.serial import SerialPolicy
from clairvoyant_lab.serving.backends.emulate import Emulator
from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.forecast import Predicting
from clairvoyant_lab.serving.loops import new_event_loop
from clairvoyant_lab.serving.proxy import Proxy, load_model

__all__ = ["ThreadedEmulator", "ThreadedStack"]

T = TypeVar("T")


class _LoopThread:
    """An event loop in a thread; a context manager that starts and stops what lives on it."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clairvoyant-loop", daemon=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call(self._stop())
        finally:
            self._end()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float = 60.0) -> T:
        """Run a coroutine on the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def _open(self) -> None:
        self._thread.start()
        try:
            self.call(self._start())
        except BaseException:
            self._end()
            raise

    async def _start(self) -> None:
        """Start what lives on the loop."""

    async def _stop(self) -> None:
        """Stop what lives on the loop."""

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10.0)
        self._loop.close()


class ThreadedEmulator(_LoopThread):
    """Runs an `Emulator`; a context manager.

    Parameters
    ----------
    **options
        As for `Emulator`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self.emulator: Emulator

    def __enter__(self) -> ThreadedEmulator:
        self._open()
        return self

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.emulator.url

    async def _start(self) -> None:
        self.emulator = Emulator(**self._options)
        await self.emulator.start()

    async def _stop(self) -> None:
        await self.emulator.stop()


class ThreadedStack(_LoopThread):
    """Runs a proxy in front of a backend; a context manager.

    Parameters
    ----------
    backend : str, optional
        URL of a running backend; without one an `Emulator` is started.
    emulator : dict, optional
        Keyword arguments of the `Emulator`.
    predictor : Predicting, optional
        Instead of the model that `settings` name.
    policy : SerialPolicy, optional
        Instead of the policy that `settings` name.
    **settings
        Fields of `ProxySettings`; the port is a free one unless given.

    Attributes
    ----------
    proxy : Proxy
        Lives on the other thread: read it, or use `call(coroutine)`.
    emulator : Emulator or None
    """

    def __init__(
        self,
        backend: str | None = None,
        *,
        emulator: dict[str, Any] | None = None,
        predictor: Predicting | None = None,
        policy: SerialPolicy | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._backend = backend
        self._emulator_options = {} if emulator is None else emulator
        self._predictor = predictor
        self._policy = policy
        self._settings = {"port": 0, **settings}
        self.emulator: Emulator | None = None
        self.proxy: Proxy

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return self.proxy.url

    @property
    def backend_url(self) -> str:
        """Where the backend listens."""
        if self._backend is not None:
            return self._backend
        assert self.emulator is not None, "enter the stack first"
        return self.emulator.url

    def __enter__(self) -> ThreadedStack:
        self._open()
        return self

    async def _start(self) -> None:
        backend = self._backend
        if backend is None:
            self.emulator = Emulator(**self._emulator_options)
            await self.emulator.start()
            backend = self.emulator.url
        settings = ProxySettings(backend=backend, **self._settings)
        predictor = self._predictor if self._predictor is not None else load_model(settings.model)
        self.proxy = Proxy(settings, predictor, policy=self._policy)
        try:
            await self.proxy.start()
        except ClairvoyantError:
            if self.emulator is not None:
                await self.emulator.stop()
            raise

    async def _stop(self) -> None:
        await self.proxy.stop(grace_s=0.0)
        if self.emulator is not None:
            await self.emulator.stop()
