"""Moves a live figure to a new state in one message, touching only what changed.

Traces are made once. A panel's draw function makes a whole new figure each time, which is easy to test; here
the two are compared and the difference goes into the live one. What the reader did to it (zoom, hidden
traces) stays, since it isn't part of either.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["changed_parts", "move_to"]


def move_to(live: Any, before: Figure, after: Figure) -> None:
    """Bring a FigureWidget from one figure's state to another's.

    Parameters
    ----------
    live : plotly.graph_objects.FigureWidget
        What is on screen; it was made from `before` or moved to it.
    before, after : plotly.graph_objects.Figure
        The two states. A trace that `after` lacks is hidden, one that it has more is added.
    """
    old, new = before.to_plotly_json(), after.to_plotly_json()
    shared = min(len(live.data), len(new["data"]))
    if len(new["data"]) > len(live.data):
        live.add_traces(new["data"][len(live.data) :])
    with live.batch_update():
        for index in range(shared):
            known = old["data"][index] if index < len(old["data"]) else {}
            changes = changed_parts(known, new["data"][index])
            if index >= len(old["data"]):
                changes.setdefault("visible", True)
            if changes:
                live.data[index].update(changes)
        for index in range(len(new["data"]), len(live.data)):
            live.data[index].visible = False
        layout = changed_parts(old["layout"], new["layout"])
        # lines and labels that are gone, or fewer: an update goes item by item and would let the rest stand
        whole = {name: layout.pop(name) for name in ("annotations", "shapes") if name in layout}
        for name, items in whole.items():
            live.layout[name] = items
        if layout:
            live.layout.update(layout)


def changed_parts(old: Any, new: Any) -> dict[str, Any]:
    """Return the nested properties of `new` that differ from `old`; None for those that are gone."""
    changes: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if isinstance(value, dict) and "bdata" in value:
            if old.get(name) != value:
                changes[name] = _array(value)
        elif name not in old:
            changes[name] = value
        elif isinstance(value, dict) and isinstance(old[name], dict):
            inner = changed_parts(old[name], value)
            if inner:
                changes[name] = inner
        elif not _same(old[name], value):
            changes[name] = value
    return changes


def _array(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Unpack plotly's base64 form of an array; figures take that form whole, but not as an update."""
    flat = np.frombuffer(base64.b64decode(packed["bdata"]), dtype=np.dtype(packed["dtype"]))
    shape = packed.get("shape")
    return flat if shape is None else flat.reshape([int(size) for size in str(shape).split(",")])


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        first, second = np.asarray(old), np.asarray(new)
        if first.shape != second.shape:
            return False
        gaps = first.dtype.kind == "f" and second.dtype.kind == "f"
        return bool(np.array_equal(first, second, equal_nan=gaps))
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(_same(a, b) for a, b in zip(old, new, strict=True))
    return bool(old == new)
