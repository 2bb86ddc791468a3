"""The event stream: what happens at the proxy, as server-sent events, to whoever listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["EVENT_NAMES", "EventBus"]

EVENT_NAMES = (
    "hello",
    "queued",
    "dispatched",
    "first_token",
    "finished",
    "refused",
    "policy",
    "model",
    "journal",
    "draining",
)


class EventBus:
    """Hands events to subscribers; costs next to nothing while nobody listens.

    Parameters
    ----------
    backlog : int
        Events a slow listener may lag behind; what it misses is counted and told to it.
    """

    def __init__(self, backlog: int = 1000) -> None:
        self._backlog = backlog
        self._listeners: dict[asyncio.Queue[bytes | None], int] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._listeners)

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def subscribe(self) -> asyncio.Queue[bytes | None]:
        """Open a listener; None in its queue is the end."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=self._backlog + 1)
        self._listeners[queue] = 0
        return queue

    def unsubscribe(self, queue: asyncio.Queue[bytes | None]) -> None:
        """Close a listener."""
        self._listeners.pop(queue, None)

    def publish(self, name: str, data: Mapping[str, Any]) -> None:
        """Send an event to all who listen."""
        if not self._listeners:
            return
        self._number += 1
        plain = format_event(name, data, self._number)
        for queue, missed in self._listeners.items():
            if queue.qsize() >= self._backlog:
                self._listeners[queue] = missed + 1
                continue
            if missed:
                queue.put_nowait(format_event(name, {**data, "missed": missed}, self._number))
                self._listeners[queue] = 0
            else:
                queue.put_nowait(plain)

    def close(self) -> None:
        """End all listeners' streams."""
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
        self._listeners.clear()


def format_event(name: str, data: Mapping[str, Any], number: int) -> bytes:
    """One event of the stream, strict JSON on one line."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"id: {number}\nevent: {name}\ndata: {text}\n\n".encode()
