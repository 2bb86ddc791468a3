"""An emulated serial backend: real HTTP in both dialects, tokens at a profile's pace, faults on demand.

It behaves as the real ones do: one answer at a time, strictly in order of arrival; a request that waits
gets no bytes, not even headers; a client that leaves frees the slot.

A request may steer it by a field `emulate` in its body (or the header `x-emulate`, JSON as well):
`{"tokens": 300, "marker": "a", "fault": "die_mid"}`. Without `tokens` the length is drawn from the prompt's
hash: half short, three tenths medium, two tenths long.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from clairvoyant_lab.errors import ClairvoyantError, ParameterError
from clairvoyant_lab.serving.backends.answers import EmulatedAnswer, embedding_answer
from clairvoyant_lab.serving.discreet import discreet_logger
from clairvoyant_lab.serving.prompts_in import SCHEDULED_PATHS, Ask, read_ask
from clairvoyant_lab.simulation.profiles import HardwareProfile, hardware_profile

__all__ = ["FAULTS", "Emulator", "Served"]

FAULTS = (
    "status",  # answers 500
    "refuse",  # closes the connection without an answer
    "hang",  # takes the request and never answers
    "die_first",  # headers, then the connection breaks
    "die_mid",  # breaks in the middle of the body
    "stall_mid",  # stops in the middle of the body and keeps the connection
    "garbage",  # what comes is no HTTP
    "bad_chunk",  # a chunk size that is no number, mid-stream
    "not_json",  # a fine HTTP answer whose body is no JSON
    "gzip",  # a compressed body
)

_EMBEDDING_S = 0.03
_TICK_S = 0.004  # real seconds; a higher speed-up sends several tokens at a time, at the same pace


@dataclass
class Served:
    """One request as the emulator saw it; times on its own clock, as if there were no speed-up."""

    path: str
    marker: str | None
    arrival_s: float
    start_s: float | None = None
    finish_s: float | None = None
    tokens: int = 0
    outcome: str = "waiting"
    headers: dict[str, str] = field(default_factory=dict)


class Emulator:
    """A backend in this process; `start` and `stop` it inside a running loop.

    Parameters
    ----------
    profile : str or HardwareProfile
        Machine whose token pace it keeps (`simulation.profiles`).
    speedup : float
        Times faster than the profile.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    slots : int
        Answers at once.
    seed : int
        Of the lengths that are drawn.
    """

    def __init__(
        self,
        profile: str | HardwareProfile = "m1",
        *,
        speedup: float = 1.0,
        host: str = "127.0.0.1",
        port: int = 0,
        slots: int = 1,
        seed: int = 0,
    ) -> None:
        if isinstance(speedup, bool) or not 0 < speedup <= 1e6:
            raise ParameterError("speedup", speedup, "give a number above 0, 1 million at most")
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise ParameterError("slots", slots, "give 1 or more")
        hardware = hardware_profile(profile)
        self.profile, self.pace = hardware.name, hardware.pace
        self.speedup, self.host, self.port, self.seed = speedup, host, port, seed
        self.served: list[Served] = []
        self._slot = asyncio.Semaphore(slots)
        self._runner: web.ServerRunner | None = None
        self._began = time.monotonic()

    @property
    def url(self) -> str:
        """Base URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def busy(self) -> int:
        """Answers being made."""
        return sum(entry.outcome == "running" for entry in self.served)

    async def start(self) -> None:
        """Listen.

        Raises
        ------
        ClairvoyantError
            If the address is taken.
        """
        server = web.Server(
            self._handle, handler_cancellation=True, access_log=None, logger=discreet_logger()
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, backlog=2048)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ClairvoyantError(f"cannot listen on {self.host}:{self.port} ({error.strerror})") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop, cutting what runs."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def answer_tokens(self, ask: Ask, steer: dict[str, Any]) -> int:
        """Tokens of an answer: what the request says, or drawn from the prompt; never above its cap."""
        tokens = steer.get("tokens")
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            digest = hashlib.blake2b(f"{self.seed}:{ask.prompt}".encode(), digest_size=8).digest()
            draw, within = digest[0] / 256, int.from_bytes(digest[1:5], "little") / 2**32
            low, high = (5, 200) if draw < 0.5 else (200, 800) if draw < 0.8 else (800, 1200)
            tokens = int(low + (high - low) * within)
        return tokens if ask.token_cap is None else min(tokens, ask.token_cap)

    def _now_s(self) -> float:
        return (time.monotonic() - self._began) * self.speedup

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if request.method == "POST" and path in SCHEDULED_PATHS:
            return await self._generate(request, path)
        if request.method == "GET":
            fixed = _FIXED.get(path)
            if fixed is not None:
                return _json(fixed)
            if path == "/emulate/served":
                return _json([vars(entry) for entry in self.served])
            if path == "/metrics":
                return web.Response(text=f"emulated_requests_total {len(self.served)}\n")
        return _json({"error": f"emulated backend: no {request.method} {path}"}, 404)

    async def _generate(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        body = await request.read()
        ask = read_ask(path, body)
        fields = _object(body)
        steer = fields.get("emulate")
        if not isinstance(steer, dict):
            steer = _object(request.headers.get("x-emulate", "").encode())
        if ask.kind == "bypass":
            return _json({"model": str(fields.get("model", "emulated")), "done": True, "done_reason": "load"})
        if ask.kind == "opaque":
            return _json({"error": {"message": "the body is not JSON", "type": "invalid_request_error"}}, 400)
        marker = steer.get("marker")
        entry = Served(path, None if marker is None else str(marker), self._now_s())
        entry.headers = {name.lower(): value for name, value in request.headers.items()}
        self.served.append(entry)
        try:
            async with self._slot:
                entry.start_s, entry.outcome = self._now_s(), "running"
                reply = await self._answer(request, path, ask, fields, steer, entry)
                entry.outcome = "done"
                return reply
        except (asyncio.CancelledError, ConnectionError):
            entry.outcome = "gone"
            raise
        finally:
            entry.finish_s = self._now_s()

    async def _answer(
        self,
        request: web.BaseRequest,
        path: str,
        ask: Ask,
        fields: dict[str, Any],
        steer: dict[str, Any],
        entry: Served,
    ) -> web.StreamResponse:
        fault = steer.get("fault")
        model = str(fields.get("model", "emulated"))
        if ask.kind == "embedding":
            await asyncio.sleep(_EMBEDDING_S / self.speedup)
            return _json(embedding_answer(path, model))
        if fault in ("status", "refuse", "hang", "garbage"):
            return await _fault_before(request, str(fault))
        tokens = self.answer_tokens(ask, steer)
        entry.tokens = tokens
        prompt_tokens = max(1, len(ask.prompt) // 4)
        answer = EmulatedAnswer(path, model, prompt_tokens, tokens, _wants_usage(fields))
        first_s = self.pace.overhead_s + prompt_tokens / self.pace.prefill_tokens_per_s
        if not ask.stream:
            # headers come with the answer, as from the real servers
            if fault in ("die_first", "die_mid", "stall_mid", "bad_chunk"):
                await asyncio.sleep(first_s / self.speedup)
                return await _fault_within(request, str(fault), b'{"half":', "application/json")
            await asyncio.sleep((first_s + tokens / self.pace.decode_tokens_per_s) / self.speedup)
            whole = b"this is no JSON" if fault == "not_json" else json.dumps(answer.whole()).encode()
            return _whole(whole, fault == "gzip")
        content_type = "text/event-stream" if answer.openai else "application/x-ndjson"
        reply = web.StreamResponse(headers={"Content-Type": content_type})
        await asyncio.sleep(first_s / self.speedup)
        await reply.prepare(request)
        if fault == "die_first":
            return _broken(request, reply)
        async for due, last in self._ticks(tokens, one_by_one=fault is not None):
            await reply.write(b"".join(answer.piece(k) for k in due))
            if fault in ("die_mid", "stall_mid", "bad_chunk") and due and due[-1] >= tokens // 2 and not last:
                return await _fault_in_stream(request, reply, str(fault))
        await reply.write(answer.end())
        await reply.write_eof()
        return reply

    async def _ticks(self, tokens: int, one_by_one: bool) -> AsyncIterator[tuple[range, bool]]:
        """Ranges of tokens as they fall due: the first alone, then as many as a tick holds."""
        began, step = time.monotonic(), 1.0 / (self.pace.decode_tokens_per_s * self.speedup)
        at_once = 1 if one_by_one else max(1, int(_TICK_S / step))
        sent = 0
        while sent < tokens:
            wanted = 1 if sent == 0 else min(tokens, sent + at_once)
            wait = began + wanted * step - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            due = min(tokens, max(wanted, int((time.monotonic() - began) / step)))
            yield range(sent, due), due == tokens
            sent = due


_FIXED: dict[str, Any] = {
    "/": "emulated backend",
    "/health": {"status": "ok"},
    "/api/version": {"version": "0.0.0-emulated"},
    "/api/tags": {"models": [{"name": "emulated", "model": "emulated", "size": 0, "digest": ""}]},
    "/v1/models": {"object": "list", "data": [{"id": "emulated", "object": "model", "owned_by": "emulator"}]},
}


async def _fault_before(request: web.BaseRequest, fault: str) -> web.StreamResponse:
    if fault == "status":
        return _json({"error": {"message": "emulated failure", "type": "server_error"}}, 500)
    if fault == "hang":
        await asyncio.sleep(3600)
    transport = request.transport
    if transport is not None:
        if fault == "garbage":
            transport.write(b"\x00\x01 this is no HTTP\r\n\r\n")
        transport.close()
    raise ConnectionResetError("emulated fault")


async def _fault_within(request: web.BaseRequest, fault: str, half: bytes, kind: str) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": kind})
    await reply.prepare(request)
    if fault == "die_first":
        return _broken(request, reply)
    await reply.write(half)
    return await _fault_in_stream(request, reply, fault)


async def _fault_in_stream(
    request: web.BaseRequest, reply: web.StreamResponse, fault: str
) -> web.StreamResponse:
    if fault == "stall_mid":
        await asyncio.sleep(3600)
    transport = request.transport
    if fault == "bad_chunk" and transport is not None:
        transport.write(b"zzz\r\nnot a chunk\r\n")
        await asyncio.sleep(3600)
    return _broken(request, reply)


def _broken(request: web.BaseRequest, reply: web.StreamResponse) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    raise ConnectionResetError("emulated fault")


def _whole(body: bytes, compressed: bool) -> web.Response:
    headers = {"Content-Type": "application/json"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, mtime=0)
    return web.Response(body=body, headers=headers)


def _wants_usage(fields: dict[str, Any]) -> bool:
    options = fields.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=json.dumps(value).encode(), status=status, content_type="application/json")
