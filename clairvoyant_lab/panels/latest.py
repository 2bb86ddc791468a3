"""Latest value wins: while a slider is dragged, values that came during a redraw are drawn as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["LatestWins"]

# Long enough for the messages that piled up during a redraw to be taken in, too short to be seen.
_DELAY_S = 0.008


class LatestWins:
    """Runs an action soon after the last of several requests, at most once for all of them.

    Parameters
    ----------
    action : callable
        Reads the current state itself, so that it always acts on the latest.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._waiting = False

    def request(self) -> None:
        """Ask for the action; without a running event loop (plain Python) it runs at once."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._action()
            return
        if not self._waiting:
            self._waiting = True
            loop.call_later(_DELAY_S, self._run)

    def _run(self) -> None:
        # cleared first: what comes during the action asks for another one
        self._waiting = False
        self._action()
