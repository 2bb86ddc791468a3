"""The HTTP server under the proxy: aiohttp's, but its own refusals are JSON and quote nothing.

A request that aiohttp cannot read never reaches a handler; aiohttp answers it in plain text with the bytes
it stumbled over, which may be the rest of a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong

from clairvoyant_lab.serving.dialects import dialect_of
from clairvoyant_lab.serving.exchange import error_response
from clairvoyant_lab.serving.prompts_in import path_of

__all__ = ["HttpServer"]

# aiohttp's words that hold nothing of the request -> status, code, and ours
_KNOWN = (
    ("Too many headers", 431, "too_many_headers", "the request has too many headers"),
    ("Received HTTPS traffic", 400, "not_http", "this is HTTPS, and plain HTTP is spoken here"),
    ("Missing 'Host' header", 400, "bad_http", "the request has no Host header"),
    ("Duplicate Content-Length", 400, "bad_http", "the request states its length twice"),
    ("Transfer-Encoding can't be present", 400, "bad_http", "the request states its length twice"),
    ("Content-Length can't be present", 400, "bad_http", "the request states its length twice"),
    ("Data after `Connection: close`", 400, "bad_http", "the request is longer than it says"),
)


class HttpServer(web.Server):
    """`web.Server` whose connections answer as `_Connection` does.

    Parameters
    ----------
    handler : callable
        Answers a request.
    most_clients : int or None
        With more connections open, a new request is refused and its connection closed; None is no limit.
    **options
        As `web.Server` takes them.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        most_clients: int | None = None,
        **options: Any,
    ) -> None:
        self._most_clients = math.inf if most_clients is None else most_clients
        self._answer = handler
        super().__init__(self._unless_crowded, **options)

    def _unless_crowded(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        crowded = len(self._connections) > self._most_clients
        return _refuse(request) if crowded else self._answer(request)

    def __call__(self) -> web.RequestHandler:
        """Make the protocol of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)


async def _refuse(request: web.BaseRequest) -> web.StreamResponse:
    dialect, words = dialect_of(path_of(request.raw_path)), "too many clients are connected (ulimit -n)"
    response = error_response(dialect, 503, "too_many_clients", words, {"Retry-After": "1"})
    response.force_close()
    return response


class _Connection(web.RequestHandler):
    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Take the next bytes; a body that breaks off in them ends for who reads it."""
        super().data_received(data)
        # aiohttp would leave its reader waiting for ever
        if self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            if len(self._messages) > 1:
                body = self._messages[-2][1]
            elif self._current_request is not None:
                body = self._current_request.content
            else:
                return
            if not body.is_eof() and body.exception() is None:
                body.set_exception(web.RequestPayloadError("the body is not whole"))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be read (the path is not known then: OpenAI's shape) or not handled."""
        self.log_exception("a request failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way, so another one cannot be sent")
        if 400 <= status < 500:
            response = error_response("openai", *_refusal(exc, message or ""))
        else:
            dialect = dialect_of(path_of(request.raw_path))
            response = error_response(dialect, status, "proxy_failed", "the proxy failed; its log says how")
        response.force_close()
        return response


def _refusal(error: BaseException | None, words: str) -> tuple[int, str, str]:
    if isinstance(error, LineTooLong):
        return 431, "header_too_long", "a line of the request's head is too long"
    for start, status, code, message in _KNOWN:
        if words.startswith(start):
            return status, code, message
    return 400, "bad_http", "the request is not valid HTTP"
