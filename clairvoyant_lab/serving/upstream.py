"""The way to the backend: one aiohttp session, headers as they must be, faults named.

Nothing is retried: a POST that may have started is not repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Iterable
from errno import EMFILE, ENFILE
from typing import Any

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from clairvoyant_lab.serving.config import ProxySettings

__all__ = ["Upstream", "UpstreamFaultError", "fault_of", "request_headers", "response_headers"]

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
# Host is the backend's own (Ollama answers a foreign one with 403); Expect was answered by us
_NOT_FORWARDED = _HOP_BY_HOP | {"host", "expect", "content-length"}
_OWN_PREFIX = "x-clairvoyant-"
_TOLD_EVERY_S = 10.0

log = logging.getLogger("clairvoyant_lab.proxy")


class UpstreamFaultError(Exception):
    """The backend failed: status to answer with, a code for programs, words for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(message)


class _RestingConnector(aiohttp.TCPConnector):
    """Lets some connections rest a moment before they are used again.

    llama.cpp closes a connection after a stream without announcing it. A request sent on it at that moment
    would be lost, and a POST is never repeated; so the close gets time to arrive.
    """

    REST_S = 0.1

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tired: set[Any] = set()

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        tired = protocol in self.tired
        self.tired.discard(protocol)
        if tired and not should_close:
            loop = asyncio.get_running_loop()
            loop.call_later(self.REST_S, lambda: super(_RestingConnector, self)._release(key, protocol))
        else:
            super()._release(key, protocol, should_close=should_close)


class Upstream:
    """Session and base URL of the one backend.

    Parameters
    ----------
    settings : ProxySettings
        Backend URL and time limits.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._base = settings.backend.rstrip("/")
        self._connect_timeout_s = settings.connect_timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._connector: _RestingConnector | None = None
        self._told_at_s: dict[str, float] = {}

    def tell(self, fault: UpstreamFaultError) -> None:
        """Log a fault of the backend; of each kind one in ten seconds, or a full queue would fill the log."""
        now = asyncio.get_running_loop().time()
        last_s = self._told_at_s.get(fault.code, -_TOLD_EVERY_S)
        if fault.code.startswith("backend") and now - last_s >= _TOLD_EVERY_S:
            self._told_at_s[fault.code] = now
            log.warning("a request failed: %s (%s)", fault.message, fault.code)

    async def open(self) -> None:
        """Open the session; needs a running loop."""
        # llama.cpp closes idle connections after 5 s: leave before it does
        self._connector = _RestingConnector(limit=0, keepalive_timeout=4.0)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_read=None, sock_connect=self._connect_timeout_s),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            trust_env=False,
            max_line_size=65536,
            max_field_size=65536,
            max_headers=1024,
        )

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def rest_after(self, answer: aiohttp.ClientResponse) -> None:
        """Let the connection of a streamed answer rest after its end, before another request uses it."""
        if self._connector is not None and answer.connection is not None:
            self._connector.tired.add(answer.connection.protocol)

    async def send(
        self,
        method: str,
        raw_target: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterable[bytes] | None,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response once its headers are there.

        Raises
        ------
        UpstreamFaultError
            If the backend refuses, closes, or sends what is no HTTP.
        """
        assert self._session is not None, "open() comes first"
        # the target goes on as it came, not re-quoted
        url = URL(self._base + raw_target, encoded=True)
        try:
            return await self._session.request(method, url, headers=headers, data=body, allow_redirects=False)
        except aiohttp.ClientError as error:
            raise fault_of(error) from error
        except OSError as error:
            raise fault_of(error) from error


def fault_of(error: BaseException) -> UpstreamFaultError:
    """Name what went wrong; the words hold no part of a request."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamFaultError(
            504, "backend_connect_timeout", "the backend did not accept a connection in time"
        )
    if isinstance(error, aiohttp.ClientSSLError):
        return UpstreamFaultError(
            502, "backend_tls", "the backend is no HTTPS server, or its certificate is not one to trust"
        )
    if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
        return UpstreamFaultError(503, "too_many_files", "the proxy may open no more files (ulimit -n)")
    if isinstance(error, aiohttp.ClientConnectorError):
        return UpstreamFaultError(502, "backend_down", "the backend cannot be reached; is it running?")
    if isinstance(error, aiohttp.ClientResponseError):
        return UpstreamFaultError(502, "backend_garbage", "the backend's answer is not valid HTTP")
    return UpstreamFaultError(
        502, "backend_closed", "the backend closed the connection before its answer was whole"
    )


def request_headers(incoming: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Headers to send on: all but those of the hop and our own."""
    listed = _listed(incoming.getall("Connection", ()))
    kept: CIMultiDict[str] = CIMultiDict()
    spelled: dict[str, str] = {}
    for name, value in incoming.items():
        low = name.lower()
        if low in _NOT_FORWARDED or low in listed or low.startswith(_OWN_PREFIX):
            continue
        # aiohttp's client keeps one of two headers that differ in case only: spell them alike
        kept.add(spelled.setdefault(low, name), value if value.isascii() else _kept_whole(value))
    return kept


def response_headers(incoming: Any) -> CIMultiDict[str]:
    """Headers to send back: all but those of the hop; lengths and encodings stay as they are."""
    listed = _listed(incoming.getall("Connection", ()))
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in incoming.items():
        low = name.lower()
        if low in _HOP_BY_HOP or low in listed or low.startswith(_OWN_PREFIX):
            continue
        kept.add(name, value if value.isascii() else _kept_whole(value))
    return kept


def _kept_whole(value: str) -> str:
    """A header value with bytes beyond ASCII; what is no UTF-8 is taken as Latin-1.

    aiohttp reads such bytes as lone surrogates and drops those when it writes. They go on as UTF-8, which is
    not the same bytes, but no letter is lost.
    """
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _listed(values: Iterable[str]) -> frozenset[str]:
    """Header names that a Connection header declares to belong to the hop."""
    names = frozenset(part.strip().lower() for value in values for part in value.split(","))
    # a client could name what must not be lost
    return names - {"content-type", "authorization", "content-length", "content-encoding"}
