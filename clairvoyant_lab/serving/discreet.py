"""A logger for the HTTP server that tells what kind of thing went wrong, and nothing of what was sent.

aiohttp logs malformed requests with the bytes it could not read; after a wrong Content-Length those are
the rest of a prompt.
"""

from __future__ import annotations

import logging

__all__ = ["discreet_logger"]


class _KindOnly(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        kind = "unknown" if error is None else type(error).__name__
        record.msg, record.args = "a request could not be handled (%s)", (kind,)
        record.exc_info = record.exc_text = None
        return True


def discreet_logger() -> logging.Logger:
    """The logger `clairvoyant_lab.proxy.http`, with its filter on."""
    logger = logging.getLogger("clairvoyant_lab.proxy.http")
    if not any(isinstance(item, _KindOnly) for item in logger.filters):
        logger.addFilter(_KindOnly())
    return logger
