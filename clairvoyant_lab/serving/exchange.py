"""One request's way to the backend and back: bytes as they come, silence bounded, slow clients bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.dialects import Tally, error_body
from clairvoyant_lab.serving.patience import Patience
from clairvoyant_lab.serving.upstream import (
    Upstream,
    UpstreamFaultError,
    fault_of,
    request_headers,
    response_headers,
)

__all__ = ["Exchange", "error_response"]


def error_response(
    dialect: str, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An error of our own in the dialect of the path."""
    return _OwnResponse(
        status=status,
        body=error_body(dialect, status, message, code),
        content_type="application/json",
        headers=headers,
    )


class _OwnResponse(web.Response):
    """What we say ourselves; a page of another origin may read it, or its user would see no reason at all."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        origin = request.headers.get("Origin")
        if origin is not None and origin.isascii():
            self.headers.update({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
        return await super().prepare(request)


class _RelayedResponse(web.StreamResponse):
    """What the backend did not say of its answer is not made up here."""

    async def _prepare_headers(self) -> None:
        typed, named = "Content-Type" in self.headers, "Server" in self.headers
        await super()._prepare_headers()
        if not typed:
            self.headers.popall("Content-Type", None)
        if not named:
            self.headers.popall("Server", None)


class _OneWriteResponse(_RelayedResponse):
    """Headers go out with the first piece of the body: an answer of known length is on its way already."""

    _send_headers_immediately = False


class Exchange:
    """Sends one request on and relays the answer.

    Parameters
    ----------
    request : aiohttp.web.BaseRequest
        The client's request.
    upstream : Upstream
        The backend.
    settings : ProxySettings
        Time limits, buffering.
    dialect : str
        For errors of our own.
    extra_headers : mapping
        Our own response headers.
    tally : Tally factory, optional
        `(content_encoding) -> Tally`; gets a copy of the answer.
    on_first_byte : callable, optional
        Called once, when the first piece of a successful body comes.
    bounded : bool
        Hold the backend's silence and a slow client against the time limits. What holds no slot (a model
        that is pulled, a log that is followed) may take as long as its client wants to wait.

    Attributes
    ----------
    outcome : str
        `done`, `backend_status`, `backend_failed` or `gone_running` once `run` is through.
    status : int
        What the client got (or would have got).
    """

    def __init__(
        self,
        request: web.BaseRequest,
        upstream: Upstream,
        settings: ProxySettings,
        dialect: str,
        extra_headers: Mapping[str, str] | None = None,
        tally: Callable[[str | None], Tally] | None = None,
        on_first_byte: Callable[[], None] | None = None,
        bounded: bool = False,
    ) -> None:
        self._request = request
        self._upstream = upstream
        self._settings = settings
        self._dialect = dialect
        self._extra = extra_headers
        self._make_tally = tally
        self._on_first_byte = on_first_byte
        self._first_byte_s = settings.first_byte_timeout_s if bounded else None
        self._silence_s = settings.silence_timeout_s if bounded else None
        self._client_stall_s = settings.client_stall_timeout_s if bounded else None
        self._phase = "headers"
        self._client_gone = False
        self.tally: Tally | None = None
        self.outcome = "backend_failed"
        self.status = 502

    def abandon(self) -> None:
        """The client has left and the answer is read to its end all the same (`drain`)."""
        self._client_gone = True

    async def run(self, raw_target: str, body: bytes | AsyncIterable[bytes] | None) -> web.StreamResponse:
        """Do it. Returns what aiohttp is to finish; raises CancelledError if the client leaves meanwhile."""
        answer: aiohttp.ClientResponse | None = None
        reply: web.StreamResponse | None = None
        whole = False
        try:
            with Patience(self._first_byte_s, self._silence_s) as limit:
                sent = body if body is None or isinstance(body, bytes) else self._uploaded(body, limit)
                answer = await self._upstream.send(
                    self._request.method, raw_target, self._headers(body), sent
                )
                if answer.status == 101:  # nobody asked for another protocol: Upgrade is not sent on
                    raise UpstreamFaultError(
                        502, "backend_garbage", "the backend switched to a protocol that was not asked for"
                    )
                self.status = answer.status
                make = _RelayedResponse if answer.content_length is None else _OneWriteResponse
                reply = make(
                    status=answer.status, reason=answer.reason, headers=response_headers(answer.headers)
                )
                if self._extra is not None:
                    reply.headers.update(self._extra)
                if self._make_tally is not None and 200 <= answer.status < 300:
                    self.tally = self._make_tally(answer.headers.get("Content-Encoding"))
                await self._relay(answer, reply, limit)
                whole = True
            self.outcome = "done" if 200 <= answer.status < 400 else "backend_status"
            return reply
        except asyncio.CancelledError:
            self.outcome = "gone_running"
            raise
        except TimeoutError:
            if self._phase == "client":
                return self._cut(reply, "gone_running")
            waited = self._first_byte_s if reply is None else self._silence_s
            fault = UpstreamFaultError(504, "backend_silent", f"the backend was silent for {waited:g} s")
            return self._failed(reply, fault)
        except UpstreamFaultError as fault:
            if self._phase == "upload":
                fault = UpstreamFaultError(400, "body_cut", "the body is not whole")
            return self._failed(reply, fault)
        except ConnectionError:  # only writes to the client raise it here: upstream's are named above
            return self._cut(reply, "gone_running")
        finally:
            if answer is not None and not whole:
                answer.close()  # the backend sees the connection go and stops

    def _headers(self, body: bytes | AsyncIterable[bytes] | None) -> CIMultiDict[str]:
        headers = request_headers(self._request.headers)
        if body is not None and not isinstance(body, bytes):
            length = self._request.headers.get("Content-Length")
            if length is not None:  # a stream of known length goes on as one
                headers["Content-Length"] = length
        return headers

    async def _uploaded(self, body: AsyncIterable[bytes], limit: Patience) -> AsyncIterable[bytes]:
        """Pieces of a body on their way; the backend's time to answer runs from the last one on."""
        try:
            async for piece in body:
                limit.renew(self._first_byte_s)
                yield piece
        except web.RequestPayloadError:
            self._phase = "upload"
            raise

    async def _relay(
        self, answer: aiohttp.ClientResponse, reply: web.StreamResponse, limit: Patience
    ) -> None:
        silence_s, buffered = self._silence_s, self._settings.buffer
        pieces: list[bytes] = []
        tally = self.tally
        first = self._on_first_byte if 200 <= answer.status < 300 else None
        self._phase = "silence"
        if answer.content_length is None:
            self._upstream.rest_after(answer)
        if not buffered:
            await self._prepare(reply)
        read = answer.content.readany
        while True:
            limit.renew(silence_s)
            try:
                piece = await read()
            except (aiohttp.ClientError, OSError) as error:
                raise fault_of(error) from error
            if not piece:
                break
            if first is not None:
                first()
                first = None
            if tally is not None:
                tally.feed(piece)
            if buffered:
                pieces.append(piece)
            elif not self._client_gone:
                await self._write(reply, piece, limit)
        if buffered:
            await self._prepare(reply)
            await self._write(reply, b"".join(pieces), limit)
        # what is still unsent is in the socket's buffer; the slot need not wait for it

    async def _prepare(self, reply: web.StreamResponse) -> None:
        if self._client_gone:
            return
        transport = self._request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=self._settings.send_buffer_bytes)
        await reply.prepare(self._request)

    async def _write(self, reply: web.StreamResponse, piece: bytes, limit: Patience) -> None:
        if self._client_gone or not piece:
            return
        transport = self._request.transport
        if (
            transport is not None
            and transport.get_write_buffer_size() + len(piece) > self._settings.send_buffer_bytes
        ):
            self._phase = "client"
            limit.renew(self._client_stall_s)
        await reply.write(piece)
        self._phase = "silence"

    def _failed(self, reply: web.StreamResponse | None, fault: UpstreamFaultError) -> web.StreamResponse:
        self._upstream.tell(fault)
        if reply is not None and reply.prepared:
            # headers are out: a cut connection is the only honest end
            return self._cut(reply, "backend_failed")
        self.outcome, self.status = "backend_failed", fault.status
        return error_response(self._dialect, fault.status, fault.code, fault.message, self._extra)

    def _cut(self, reply: web.StreamResponse | None, outcome: str) -> web.StreamResponse:
        self.outcome = outcome
        transport = self._request.transport
        if transport is not None:
            if self._phase == "client":
                transport.abort()  # it does not read: nothing of the buffer would be taken
            else:
                transport.close()  # what came is delivered, without the mark of a whole body
        return reply if reply is not None else web.Response(status=502)
