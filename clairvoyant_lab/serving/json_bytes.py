"""Reading the JSON of requests and answers."""

from __future__ import annotations

import json
from typing import Any

import orjson

__all__ = ["json_object"]


def json_object(text: bytes) -> dict[str, Any] | None:
    """The JSON object in a text; None for anything else.

    A chat is sent whole with every turn, and nothing else is served while it is read: orjson takes a fifth of
    the standard library's time. What it is too strict for (NaN, lone surrogates, UTF-16), backends may take,
    and the standard library reads. A whole number beyond 64 bits, which nobody means, may come as a float.
    """
    value: Any
    try:
        value = orjson.loads(text)
    except ValueError:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
