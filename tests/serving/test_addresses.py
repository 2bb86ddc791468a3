"""Backends at odd addresses, ours at theirs; open files; a token's scheme."""

from __future__ import annotations

import asyncio
import errno
import json
import resource
import ssl
import subprocess
import sys
from typing import Any

import aiohttp
import pytest

from clairvoyant_lab.errors import ClairvoyantError, ParameterError
from clairvoyant_lab.serving.backends.emulate import Emulator
from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.upstream import fault_of


@pytest.mark.parametrize(
    ("more", "begins"),
    [("", ""), ("/", ""), ("/ollama", "/ollama"), ("/ollama/", "/ollama"), ("/a/b/", "/a/b")],
)
async def test_a_backend_may_live_under_a_path(make_stack: Any, backend: Any, more: str, begins: str) -> None:
    stack = await make_stack(backend=backend.url + more)
    backend.says = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"]
    for path in ("/api/generate", "/api/tags?x=1"):
        assert (await stack.ask(path=path))[0] == 200
        assert backend.heard[-1].startswith(f"POST {begins}{path} HTTP/1.1\r\n".encode())
        backend.heard.clear()


async def test_a_backend_may_have_an_ipv6_address(make_stack: Any, backend: Any) -> None:
    backend = type(backend)()
    try:
        await backend.start("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    stack = await make_stack(backend=backend.url)
    backend.says = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    assert (await stack.ask(path="/api/generate"))[0] == 200
    assert f"host: {backend.url.removeprefix('http://')}\r\n".encode() in backend.heard[0].lower()
    await backend.stop()


async def test_a_backend_that_speaks_no_https_is_named_as_that(make_stack: Any) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stack = await make_stack(backend=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    status, _, text = await stack.ask()
    server.close()
    assert (status, json.loads(text)["error"]["code"]) == (502, "backend_tls")


def test_a_certificate_that_is_not_trusted_is_named_as_that() -> None:
    error = aiohttp.ClientConnectorCertificateError(None, ssl.SSLCertVerificationError("self-signed"))  # type: ignore[arg-type]
    fault = fault_of(error)
    assert (fault.status, fault.code) == (502, "backend_tls")
    assert "certificate" in fault.message


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1:11434",
        "http://127.0.0.1:11434/#x",
        "http://127.0.0.1:11434/?",
        " http://127.0.0.1:11434",
        "http://127.0.0.1:11434/a b",
        "http://127.0.0.1:8080",
        "http://localhost:8080/v1",
    ],
)
def test_a_backend_that_cannot_work_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ParameterError, match=r"^backend = ") as refused:
        ProxySettings(backend=url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("192.0.2.1", "http://127.0.0.1:8080"),
        ("127.0.0.1", "http://192.0.2.1:8080"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("0.0.0.0", "http://192.0.2.1:8080"),
    ],
)
def test_an_equal_port_elsewhere_is_fine(host: str, url: str) -> None:
    assert ProxySettings(backend=url, host=host, token="t").backend == url


@pytest.mark.parametrize(("hard", "room", "limit"), [(None, 2048, 2048 + 258), (300, 150, 300)])
def test_the_limit_of_open_files_is_raised_or_said(hard: int | None, room: int, limit: int) -> None:
    own = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard is None and own < limit:
        pytest.skip("this machine allows too few open files")
    code = (
        "import resource; from clairvoyant_lab.serving.open_files import waiting_room;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (200, {own if hard is None else hard}));"
        "print(waiting_room(2048, 1), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(room), str(limit)]


def test_a_proxy_out_of_files_does_not_blame_the_backend() -> None:
    error = aiohttp.ClientConnectorError(None, OSError(errno.EMFILE, "Too many open files"))  # type: ignore[arg-type]
    assert (fault_of(error).status, fault_of(error).code) == (503, "too_many_files")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("bearer secret", 200), ("BEARER  secret", 200), ("secret", 401), ("Basic secret", 401)],
)
async def test_the_scheme_of_a_token_is_read_as_http_has_it(
    make_stack: Any, given: str, expected: int
) -> None:
    stack = await make_stack(token="secret")
    url = stack.proxy.url + "/clairvoyant/state"
    async with stack.http.get(url, headers={"Authorization": given}) as answer:
        assert answer.status == expected


async def test_an_emulator_at_an_ipv6_address_tells_a_url_that_works(make_stack: Any) -> None:
    emulator = Emulator("m1", speedup=50.0, host="::1")
    try:
        await emulator.start()
    except ClairvoyantError:
        pytest.skip("this machine has no IPv6")
    assert emulator.url.startswith("http://[::1]:")
    stack = await make_stack(backend=emulator.url, host="::1")
    assert (await stack.ask(tokens=1))[0] == 200
    await emulator.stop()
