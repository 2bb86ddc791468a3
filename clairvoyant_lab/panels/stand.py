"""Something to watch: a proxy with a backend and a steady mixed load, started from a notebook."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

from clairvoyant_lab.errors import ClairvoyantError
from clairvoyant_lab.figures.show import is_live, show
from clairvoyant_lab.panels.live import LivePanel

__all__ = ["LiveStand", "watch_live"]

_ROUND = 16


class LiveStand:
    """A proxy, its backend, and clients that keep asking short and long questions until it is stopped.

    Parameters
    ----------
    backend_url : str, optional
        A running backend; without one an emulated machine answers.
    profile : str
        The emulated machine.
    speedup : float
        How much faster than that machine.
    at_once : int
        How many clients ask at the same time; all but one of them wait.
    seed : int
        Order of short and long questions.

    Attributes
    ----------
    url : str
        Where the proxy listens.
    """

    def __init__(
        self,
        backend_url: str | None = None,
        *,
        profile: str = "m1",
        speedup: float = 10.0,
        at_once: int = 8,
        seed: int = 42,
    ) -> None:
        from clairvoyant_lab.scheduling.serial import serial_policy
        from clairvoyant_lab.serving import ThreadedEmulator, ThreadedStack

        self._stack = ExitStack()
        self._stopping = threading.Event()
        self._emulated = backend_url is None
        self._at_once, self._seed = at_once, seed
        self.problem: Exception | None = None
        try:
            if backend_url is None:
                emulator = ThreadedEmulator(profile=profile, speedup=speedup)
                backend_url = self._stack.enter_context(emulator).url
            proxy = ThreadedStack(backend_url, policy=serial_policy("fcfs"))
            self.url = self._stack.enter_context(proxy).url
        except BaseException:
            self._stack.close()
            raise
        self._thread = threading.Thread(target=self._load, name="clairvoyant-load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the clients, the proxy and the emulated backend."""
        self._stopping.set()
        self._stack.close()
        self._thread.join(timeout=10)

    def _load(self) -> None:
        from clairvoyant_lab.bench.traffic import send_mixed_traffic

        seed = self._seed
        while not self._stopping.is_set():
            try:
                send_mixed_traffic(
                    self.url, _ROUND, at_once=self._at_once, emulated=self._emulated, seed=seed
                )
            except Exception as error:  # when the stand goes down, so do the requests under way
                if not self._stopping.is_set():
                    self.problem = error
                return
            seed += 1


class Watching:
    """A panel and, if one was started for it, its stand; `stop()` ends both."""

    def __init__(self, panel: LivePanel, stand: LiveStand | None) -> None:
        self.panel, self.stand = panel, stand

    def stop(self) -> None:
        """Stop looking, and stop the stand if there is one; a proxy given by URL goes on."""
        self.panel.stop()
        if self.stand is not None:
            self.stand.stop()

    def __repr__(self) -> str:
        return f"watching {self.panel.url}; .stop() ends it"


def watch_live(
    proxy_url: str | None = None,
    *,
    token: str | None = None,
    backend_url: str | None = None,
    seconds: float = 8.0,
    **stand: Any,
) -> Watching:
    """Show the live panel: of a running proxy, or of a stand that is started for it.

    Where a front end answers, the panel stays live until `stop()`. Elsewhere it is watched for a while under
    FCFS and under SJF by tokens, shown as it then is, and stopped.

    Parameters
    ----------
    proxy_url : str, optional
        A proxy that runs already; its policy is only changed by hand.
    token : str, optional
        Of its control routes.
    backend_url : str, optional
        For the stand: a running backend instead of an emulated one.
    seconds : float
        How long to watch without a front end.
    **stand
        Further arguments of `LiveStand`.

    Returns
    -------
    Watching
    """
    own = LiveStand(backend_url, **stand) if proxy_url is None else None
    try:
        panel = LivePanel(own.url if own is not None else str(proxy_url), token=token)
    except ClairvoyantError:
        if own is not None:
            own.stop()
        raise
    watching = Watching(panel, own)
    if is_live():
        show(panel)
        return watching
    try:
        panel.watch(seconds / 2)
        if own is not None:
            panel.set_policy(name="sjf_tokens", starvation_timeout_s=None)
        panel.watch(seconds / 2)
        show(panel)
    finally:
        watching.stop()
    return watching
