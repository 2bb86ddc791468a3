"""What a request asks for: dialect, prompt, cap and stream flag, read from path and body.

Nothing here changes a body; the proxy forwards the bytes it got.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from posixpath import normpath
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.serving.json_bytes import json_object

__all__ = [
    "SCHEDULED_PATHS",
    "STATED_CLASSES",
    "Ask",
    "Kind",
    "origin_form",
    "path_of",
    "read_ask",
    "stated_class",
]

Kind = Literal["generation", "embedding", "bypass", "opaque"]
Dialect = Literal["openai", "ollama"]

# path -> (dialect, where the prompt lies)
SCHEDULED_PATHS: Mapping[str, tuple[Dialect, str]] = {
    "/v1/chat/completions": ("openai", "messages"),
    "/v1/completions": ("openai", "prompt"),
    "/v1/embeddings": ("openai", "embedding"),
    "/api/chat": ("ollama", "messages"),
    "/api/generate": ("ollama", "prompt"),
    "/api/embed": ("ollama", "embedding"),
    "/api/embeddings": ("ollama", "embedding"),
}

STATED_CLASSES = ("short", "medium", "long", "background")

_BOMB_BYTES = 64 * 1024 * 1024
_MOST_ANSWERS = 1_000_000


class Ask(NamedTuple):
    """What one request asks for.

    `generation` and `embedding` are scheduled by prediction and as the shortest jobs; `bypass` (a load or
    unload call) does not wait; `opaque` could not be read, the backend will judge it, and it is scheduled
    neutrally.
    """

    kind: Kind
    dialect: Dialect
    prompt: str = ""
    token_cap: int | None = None
    stream: bool = False
    answers: int = 1


def origin_form(target: str) -> str | None:
    """Path and query of a request target; absolute form loses its host, which a client may not choose."""
    if target.startswith("/"):
        return target
    low = target.lower()
    for scheme in ("http://", "https://"):
        if low.startswith(scheme):
            rest = target[len(scheme) :]
            slash = rest.find("/")
            return "/" if slash < 0 else rest[slash:]
    return None


def path_of(raw_target: str) -> str:
    """Path of a request target without its query, and without a trailing slash.

    It is decoded, and its double slashes and dots resolved, as the backend or a server before it may do: an
    odd spelling is no way around the queue.
    """
    path = raw_target.split("?", 1)[0]
    if "%" in path:
        path = unquote(path)
    if "//" in path or "/." in path:
        path = "/" + normpath(path).lstrip("/")
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def stated_class(value: str | None) -> str | None:
    """Class that a client states in `x-clairvoyant-class`; an unknown word states nothing."""
    word = None if value is None else value.strip().lower()
    return word if word in STATED_CLASSES else None


def class_number(stated: str | None) -> LengthClass | None:
    """Length class of a stated word; `background` and no word have none."""
    return {
        "short": LengthClass.SHORT,
        "medium": LengthClass.MEDIUM,
        "long": LengthClass.LONG,
    }.get(stated or "")


def read_ask(path: str, body: bytes, content_encoding: str | None = None) -> Ask:
    """Read a scheduled request.

    Parameters
    ----------
    path : str
        One of `SCHEDULED_PATHS`.
    body : bytes
        The body as it came.
    content_encoding : str, optional
        `gzip` and `deflate` bodies are understood by a bounded copy; others are opaque.
    """
    dialect, where = SCHEDULED_PATHS[path]
    if where == "embedding":
        # whatever the body says it is tens of milliseconds of work
        return Ask("embedding", dialect)
    plain = _plain(body, content_encoding)
    fields = None if plain is None else json_object(plain)
    if fields is None:
        return Ask("opaque", dialect)
    prompt, answers = _messages(fields) if where == "messages" else _prompts(fields)
    if dialect == "ollama":
        if _is_load_call(fields, prompt, where):
            return Ask("bypass", dialect)
        options = fields.get("options")
        cap = _cap(options.get("num_predict")) if isinstance(options, dict) else None
        return Ask("generation", dialect, prompt, cap, stream=fields.get("stream") is not False)
    # the newer name wins where both stand, as in OpenAI's server
    cap = _cap(fields.get("max_completion_tokens"))
    if cap is None:
        cap = _cap(fields.get("max_tokens"))
    if cap is None:  # llama.cpp takes its own name on OpenAI's paths too
        cap = _cap(fields.get("n_predict"))
    copies = fields.get("n")
    if isinstance(copies, int | float) and not isinstance(copies, bool) and copies > 1:
        answers = int(min(answers * copies, _MOST_ANSWERS))  # no stated number may stop a forecast
    return Ask("generation", dialect, prompt, cap, stream=fields.get("stream") is True, answers=answers)


def _is_load_call(fields: Mapping[str, Any], prompt: str, where: str) -> bool:
    """Ollama: no messages or an empty prompt loads a model, with `keep_alive: 0` it unloads it."""
    if where == "messages":
        return not fields.get("messages")
    return not prompt and not fields.get("suffix") and not fields.get("images")


def _messages(fields: Mapping[str, Any]) -> tuple[str, int]:
    """Text of the last user message; without one, of the last message that has a text (tool or system)."""
    messages = fields.get("messages")
    if not isinstance(messages, list):
        return "", 1
    fallback = ""
    for message in reversed(messages):
        if not isinstance(message, dict):
            continue
        if message.get("role") == "user":
            return _text(message.get("content")), 1
        fallback = fallback or _text(message.get("content"))
    return fallback, 1


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = []
        for part in content:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                parts.append(part["text"])
        return "\n".join(parts)
    return ""


def _prompts(fields: Mapping[str, Any]) -> tuple[str, int]:
    """Text of `prompt`; of a list of prompts the longest, answered once each (token ids carry no text)."""
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return prompt, 1
    if isinstance(prompt, list):
        texts = [item for item in prompt if isinstance(item, str)]
        nested = [item for item in prompt if isinstance(item, list)]
        return max(texts, key=len, default=""), max(1, len(texts) + len(nested))
    return "", 1


def _cap(value: Any) -> int | None:
    """Token cap; negative values (Ollama's -1 and -2) and nonsense mean none. 0 is a cap."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return int(value) if 0 <= value < 2**31 else None


def _plain(body: bytes, content_encoding: str | None) -> bytes | None:
    coding = (content_encoding or "identity").strip().lower()
    if coding in ("", "identity"):
        return body
    window = {"gzip": 31, "x-gzip": 31, "deflate": 15}.get(coding)
    if window is None:
        return None
    try:
        inflater = zlib.decompressobj(window)
        plain = inflater.decompress(body, _BOMB_BYTES)
    except zlib.error:
        return None
    return plain if inflater.eof else None
