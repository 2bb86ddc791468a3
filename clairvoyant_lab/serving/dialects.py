"""What differs between OpenAI's and Ollama's ways of speaking: error bodies, and reading answers.

An answer is relayed as bytes; `Tally` looks at a copy, in bounded memory, wherever the pieces are cut.
"""

from __future__ import annotations

import json
import re
from typing import Any

from clairvoyant_lab.serving.json_bytes import json_object

__all__ = ["Tally", "dialect_of", "error_body"]

_OPENAI_TYPES = {
    401: "authentication_error",
    429: "rate_limit_error",
}
_TAIL_BYTES = 64 * 1024
_END_BYTES = 16 * 1024
_MOST_TOKENS = 2**31

# A member that is text and not empty, then the rest of its line. A quote inside a JSON string is escaped,
# so what a model writes cannot look like a member.
_OPENAI_PIECE = re.compile(rb'"(?:content|reasoning_content|text|arguments|refusal)"[ ]*:[ ]*"(?!")[^\r\n]*')
_OLLAMA_PIECE = re.compile(rb'"done"[ ]*:[ ]*false[^\r\n]*')


def dialect_of(path: str) -> str:
    """`ollama` for paths under /api, `openai` for all others."""
    return "ollama" if path == "/api" or path.startswith("/api/") else "openai"


def error_body(dialect: str, status: int, message: str, code: str) -> bytes:
    """Body of an error in the dialect of the path, as JSON.

    Parameters
    ----------
    dialect : {"openai", "ollama"}
        Ollama's clients read `error` as a string, OpenAI's as an object with message, type and code.
    status : int
        HTTP status it goes with.
    message : str
        For people; never with a part of a prompt.
    code : str
        For programs, such as `queue_full`.
    """
    if dialect == "ollama":
        return json.dumps({"error": message}).encode()
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


class Tally:
    """Counts an answer's tokens from a copy of its bytes.

    For a stream it counts pieces with content as they pass (one a token with the servers at hand); the
    usage block or Ollama's last line, if there is one, is the final word. Memory is bounded by the tail
    it keeps; a line longer than that is not understood, and the count stands.
    """

    __slots__ = ("_dialect", "_pieces", "_readable", "_stream", "_tail", "_values", "bytes_seen")

    def __init__(self, dialect: str, stream: bool, content_encoding: str | None = None) -> None:
        self._dialect = dialect
        self._stream = stream
        self._readable = (content_encoding or "identity").strip().lower() in ("", "identity")
        self._tail = bytearray()
        self._pieces = 0
        self._values: list[dict[str, Any]] | None = None
        self.bytes_seen = 0

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the body, cut anywhere."""
        self.bytes_seen += len(piece)
        if not self._readable:
            return
        tail = self._tail
        tail += piece
        if len(tail) > 2 * _TAIL_BYTES:
            # lines that leave the tail are counted then, so that no cut loses one
            cut = tail.rfind(b"\n", 0, len(tail) - _TAIL_BYTES) + 1
            if cut == 0:
                cut = len(tail) - _TAIL_BYTES
            if self._stream:
                self._pieces += self._count(bytes(tail[:cut]))
            del tail[:cut]

    def response_tokens(self) -> int | None:
        """Tokens of the answer: what the server says, else the pieces seen in a stream, else None."""
        if not self._readable:
            return None
        for value in self._last_values():
            said = _said(value)
            if said is not None:
                return said
        if not self._stream:
            return None
        pieces = self._pieces + self._count(bytes(self._tail))
        return pieces if pieces else None

    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt, as far as the server says."""
        if not self._readable:
            return None
        for value in self._last_values():
            usage = value.get("usage")
            said = _first_count(
                usage.get("prompt_tokens") if isinstance(usage, dict) else None,
                value.get("prompt_eval_count"),
            )
            if said is not None:
                return said
        return None

    def _last_values(self) -> list[dict[str, Any]]:
        """The last JSON objects of the body, last first: usage stands in one of the last three."""
        if self._values is None:
            tail = bytes(self._tail)
            self._values = []
            if not self._stream:
                whole = _loads(tail)
                self._values = [] if whole is None else [whole]
            else:
                # split on line ends only: U+2028 and its like are fine inside JSON strings
                for line in reversed(tail[-_END_BYTES:].replace(b"\r", b"\n").split(b"\n")):
                    value = _loads(_payload(line))
                    if value is not None:
                        self._values.append(value)
                    if len(self._values) == 3:
                        break
        return self._values

    def _count(self, block: bytes) -> int:
        """Pieces that carry content in a block of whole lines, at most one a line."""
        return len((_OLLAMA_PIECE if self._dialect == "ollama" else _OPENAI_PIECE).findall(block))


def _payload(line: bytes) -> bytes:
    """Of an event-stream line what follows `data:` (the space is optional); of another line the line."""
    line = line.strip()
    if line.startswith(b"data:"):
        return line[5:].lstrip()
    # comments and other fields carry nothing
    return line if line.startswith(b"{") else b""


def _loads(text: bytes) -> dict[str, Any] | None:
    return json_object(text) if text.lstrip().startswith(b"{") else None


def _said(value: dict[str, Any]) -> int | None:
    usage = value.get("usage")
    timings = value.get("timings")  # llama.cpp's own block, in streams without usage
    return _first_count(
        usage.get("completion_tokens") if isinstance(usage, dict) else None,
        value.get("eval_count"),
        timings.get("predicted_n") if isinstance(timings, dict) else None,
        value.get("tokens_predicted"),
    )


def _first_count(*values: Any) -> int | None:
    """The first that can be a number of tokens; what no answer can have (-5, true, 10^30) says nothing."""
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS:
            return value
    return None
