"""What the emulator says: answers in OpenAI's and Ollama's dialects, whole or piece by piece."""

from __future__ import annotations

import json
import time
from typing import Any

__all__ = ["EmulatedAnswer", "embedding_answer"]

_WORDS = [
    "a",
    "serial",
    "server",
    "answers",
    "one",
    "request",
    "at",
    "a",
    "time",
    "and",
    "the",
    "queue",
    "decides",
    "how",
    "long",
    "the",
    "others",
    "wait",
]


class EmulatedAnswer:
    """The texts of one answer in the dialect of its path."""

    def __init__(self, path: str, model: str, prompt_tokens: int, tokens: int, usage: bool) -> None:
        self.openai = path.startswith("/v1")
        self._chat = path.endswith(("/chat/completions", "/api/chat"))
        self._model, self._prompt_tokens, self._tokens, self._usage = model, prompt_tokens, tokens, usage
        self._created = int(time.time())

    def piece(self, k: int) -> bytes:
        """Token k as a line or an event."""
        word = _WORDS[k % len(_WORDS)] + " "
        if self.openai:
            choice: dict[str, Any] = {"index": 0, "finish_reason": None}
            choice.update({"delta": {"content": word}} if self._chat else {"text": word})
            return _event(self._frame([choice], chunk=True))
        return _line({**self._ollama_frame(), **self._ollama_text(word), "done": False})

    def end(self) -> bytes:
        """What closes a stream."""
        if self.openai:
            choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
            if self._chat:
                choice["delta"] = {}
            else:
                choice["text"] = ""
            text = _event(self._frame([choice], chunk=True))
            if self._usage:
                text += _event({**self._frame([], chunk=True), "usage": self._usage_block()})
            return text + b"data: [DONE]\n\n"
        return _line({**self._ollama_frame(), **self._ollama_text(""), **self._ollama_end()})

    def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        text = "".join(_WORDS[k % len(_WORDS)] + " " for k in range(self._tokens))
        if self.openai:
            choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
            choice.update(
                {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
            )
            return {**self._frame([choice], chunk=False), "usage": self._usage_block()}
        return {**self._ollama_frame(), **self._ollama_text(text), **self._ollama_end()}

    def _frame(self, choices: list[dict[str, Any]], chunk: bool) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if self._chat else "text_completion"
        return {
            "id": "emulated-1",
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def _usage_block(self) -> dict[str, int]:
        total = self._prompt_tokens + self._tokens
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._tokens,
            "total_tokens": total,
        }

    def _ollama_frame(self) -> dict[str, Any]:
        return {"model": self._model, "created_at": "2026-01-01T00:00:00Z"}

    def _ollama_text(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}} if self._chat else {"response": text}

    def _ollama_end(self) -> dict[str, Any]:
        return {
            "done": True,
            "done_reason": "stop",
            "total_duration": 1,
            "prompt_eval_count": self._prompt_tokens,
            "eval_count": self._tokens,
            "eval_duration": 1,
        }


def embedding_answer(path: str, model: str) -> dict[str, Any]:
    """An embedding of three numbers."""
    vector = [0.0, 0.6, 0.8]
    if path == "/v1/embeddings":
        data = [{"object": "embedding", "index": 0, "embedding": vector}]
        return {
            "object": "list",
            "model": model,
            "data": data,
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
    return {"model": model, "embeddings": [vector]} if path == "/api/embed" else {"embedding": vector}


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
