"""The live proxy: admission queue, upstream, control API, client, backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.serving.async_client import AsyncProxyClient as AsyncProxyClient
    from clairvoyant_lab.serving.backends.emulate import Emulator as Emulator
    from clairvoyant_lab.serving.backends.local import LocalServer as LocalServer
    from clairvoyant_lab.serving.client import ProxyClient as ProxyClient
    from clairvoyant_lab.serving.config import ProxySettings as ProxySettings
    from clairvoyant_lab.serving.proxy import Proxy as Proxy
    from clairvoyant_lab.serving.threaded import ThreadedEmulator as ThreadedEmulator
    from clairvoyant_lab.serving.threaded import ThreadedStack as ThreadedStack

__all__ = [
    "AsyncProxyClient",
    "Emulator",
    "LocalServer",
    "Proxy",
    "ProxyClient",
    "ProxySettings",
    "ThreadedEmulator",
    "ThreadedStack",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AsyncProxyClient": "async_client",
        "Emulator": "backends.emulate",
        "LocalServer": "backends.local",
        "Proxy": "proxy",
        "ProxyClient": "client",
        "ProxySettings": "config",
        "ThreadedEmulator": "threaded",
        "ThreadedStack": "threaded",
    },
)
