"""Reading a client's body: whole and bounded for scheduled paths, piece by piece for all others."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.patience import Patience

__all__ = ["BodyFaultError", "pieces_of", "read_body"]


class BodyFaultError(Exception):
    """A body that is too large, too slow or cut."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(message)


async def read_body(request: web.BaseRequest, settings: ProxySettings) -> bytes:
    """Read a whole body.

    Raises
    ------
    BodyFaultError
        413 for one over `max_body_bytes`, 408 for one that stalls, 400 for one that is cut.
    """
    most = settings.max_body_bytes
    length = request.content_length
    if length is not None and length > most:
        raise _too_large(most)
    if length is not None and request.content.total_bytes >= length:
        return request.content.read_nowait()  # it came with the headers, as small ones do
    pieces: list[bytes] = []
    size = 0
    try:
        with Patience(settings.client_stall_timeout_s) as limit:
            while piece := await request.content.readany():
                size += len(piece)
                if size > most:
                    raise _too_large(most)
                pieces.append(piece)
                limit.renew(settings.client_stall_timeout_s)
    except TimeoutError as error:
        raise BodyFaultError(408, "body_stalled", "the body did not come in time") from error
    except web.RequestPayloadError as error:
        raise BodyFaultError(400, "body_cut", "the body is not whole") from error
    return b"".join(pieces) if len(pieces) != 1 else pieces[0]


def _too_large(most: int) -> BodyFaultError:
    return BodyFaultError(413, "body_too_large", f"the body is larger than {most} bytes")


async def pieces_of(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Pieces of a body as they come."""
    async for piece in request.content.iter_any():
        yield piece
