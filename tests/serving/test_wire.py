"""What comes over a bare socket or from a browser's page."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from clairvoyant_lab.serving.open_files import most_clients

CANARY = b"zanzibar-canary-7f3a"


async def spoken(port: int, *pieces: bytes, pause_s: float = 0.05) -> bytes:
    """All that comes back until the other side closes; the pieces are sent with pauses between."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_s if len(pieces) > 1 else 0.0)
    answer = await asyncio.wait_for(reader.read(), 10.0)
    writer.close()
    return answer


def parsed(answer: bytes) -> tuple[int, dict[str, str], Any]:
    head, body = answer.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in lines}
    return int(first.split(" ")[1]), headers, json.loads(body)


POST = b"POST /api/chat HTTP/1.1\r\nHost: x\r\n"
UNREADABLE = {
    "no HTTP": (b"HELLO " + CANARY + b"\r\n\r\n", 400, "bad_http"),
    "a method that is none": (b"G@T /" + CANARY + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_http"),
    "a version that is none": (b"GET /" + CANARY + b" HTTP/9.9\r\nHost: x\r\n\r\n", 400, "bad_http"),
    "a header without a colon": (b"GET / HTTP/1.1\r\nHost: x\r\n" + CANARY + b"\r\n\r\n", 400, "bad_http"),
    "HTTPS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + CANARY, 400, "not_http"),
    "a long line": (b"GET /" + CANARY * 4000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, "header_too_long"),
    "a long header": (b"GET / HTTP/1.1\r\nX: " + CANARY * 4000 + b"\r\n\r\n", 431, "header_too_long"),
    "many headers": (
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: 1\r\n" % k for k in range(1100)) + b"\r\n",
        431,
        "too_many_headers",
    ),
    "no Host": (b"GET /" + CANARY + b" HTTP/1.1\r\n\r\n", 400, "bad_http"),
    "two lengths": (POST + b"Content-Length: 20\r\nContent-Length: 30\r\n\r\n" + CANARY, 400, "bad_http"),
    "a length and chunks": (
        POST + b"Content-Length: 20\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + CANARY + b"\r\n0\r\n\r\n",
        400,
        "bad_http",
    ),
    "a negative length": (POST + b"Content-Length: -2\r\n\r\n" + CANARY, 400, "bad_http"),
    "a bad chunk": (
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + CANARY + b"\r\n0\r\n\r\n",
        400,
        None,
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_what_is_no_http_is_refused_in_json_and_not_quoted(
    stack: Any, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    caplog.set_level(logging.DEBUG)
    sent, expected, code = UNREADABLE[what]
    answer = await spoken(stack.proxy.port, sent)
    status, headers, body = parsed(answer)
    assert (status, headers["content-type"]) == (expected, "application/json")
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "invalid_request_error"
    assert code is None or body["error"]["code"] == code
    assert CANARY not in answer
    assert CANARY.decode() not in caplog.text
    await stack.check_idle_and_well()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/api/create", "/v1/files"])
async def test_a_chunk_that_breaks_later_is_refused_in_the_dialect_of_the_path(
    make_stack: Any, backend: Any, path: str
) -> None:
    stack = await make_stack(backend=backend.url)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{ \r\n".encode()
    answer = await spoken(stack.proxy.port, head, b"zz\r\n" + CANARY + b"\r\n0\r\n\r\n")
    status, headers, body = parsed(answer)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert isinstance(body["error"], str if path.startswith("/api") else dict)
    assert CANARY not in answer
    await stack.until(lambda: not stack.proxy.line.running)
    stack.check_books()


async def test_three_hundred_headers_reach_the_backend(make_stack: Any, backend: Any) -> None:
    stack = await make_stack(backend=backend.url)
    backend.says = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    many = b"".join(b"X-%d: 1\r\n" % k for k in range(300))
    answer = await spoken(
        stack.proxy.port,
        b"GET /api/tags HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + many + b"\r\n",
    )
    assert parsed(answer)[0] == 200
    assert backend.heard[0].count(b"X-") == 300


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/api/tags"])
async def test_a_fault_of_our_own_is_a_500_in_the_dialect_of_the_path(
    stack: Any, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: Any) -> Any:
        raise RuntimeError(CANARY.decode())

    monkeypatch.setattr(stack.proxy._server, "request_handler", broken)
    sent = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    answer = await spoken(stack.proxy.port, sent)
    status, _, body = parsed(answer)
    assert status == 500
    assert isinstance(body["error"], str if path.startswith("/api") else dict)
    assert CANARY not in answer
    assert "RuntimeError" in caplog.text
    assert CANARY.decode() not in caplog.text


# -- what is passed through may take its time -------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/v1/responses", "/events"])
async def test_a_pass_through_may_be_silent_for_as_long_as_its_client_waits(
    make_stack: Any, backend: Any, path: str
) -> None:
    stack = await make_stack(backend=backend.url, first_byte_timeout_s=0.1, silence_timeout_s=0.1)
    backend.pause_s = 0.4
    said = b'{"status":"pulling"}\n'
    backend.says = [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * len(said)),
        said,
        said,
    ]
    async with stack.http.post(stack.proxy.url + path, json={"model": "m"}) as answer:
        assert await answer.read() == said + said


async def test_a_load_call_may_take_as_long_as_the_model_is_large(make_stack: Any, backend: Any) -> None:
    stack = await make_stack(backend=backend.url, first_byte_timeout_s=0.1)
    backend.pause_s = 0.4
    backend.says = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    async with stack.http.post(stack.proxy.url + "/api/generate", json={"model": "m"}) as answer:
        assert await answer.read() == b"{}"


@pytest.mark.parametrize("begun", [False, True])
async def test_a_pass_through_ends_with_its_client(make_stack: Any, backend: Any, begun: bool) -> None:
    stack = await make_stack(backend=backend.url)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    backend.says = [head] if begun else []
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(b"POST /api/pull HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    await stack.until(lambda: len(backend.heard) == 1)
    if begun:
        await reader.readuntil(b"{}")
    writer.close()
    assert await stack.until(lambda: backend.left == 1) < 1.0


async def test_a_slow_reader_of_a_pass_through_is_not_cut_off(make_stack: Any, backend: Any) -> None:
    stack = await make_stack(backend=backend.url, send_buffer_bytes=4096, client_stall_timeout_s=0.1)
    blob = bytes(range(256)) * 40_000
    backend.says = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(blob), blob]
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port, limit=4096)
    writer.write(b"GET /api/blobs/sha256:1 HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(0.5)
    assert await asyncio.wait_for(reader.readexactly(len(blob)), 10.0) == blob
    writer.close()


async def test_stopping_lets_a_pass_through_finish(make_stack: Any, backend: Any) -> None:
    stack = await make_stack(backend=backend.url)
    backend.pause_s = 0.3
    backend.says = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"{", b"}\r\n"]
    pull = asyncio.create_task(stack.ask(path="/api/pull"))
    await stack.until(lambda: len(backend.heard) == 1)
    await stack.proxy.stop(grace_s=10.0)
    assert (await pull)[0] == 200


# -- clients ----------------------------------------------------------------------------------------


async def test_an_old_client_gets_a_stream_that_ends_with_its_connection(stack: Any) -> None:
    sent = b'{"prompt":"x","stream":true,"emulate":{"tokens":3}}'
    head = b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(sent)
    answer = await spoken(stack.proxy.port, head + sent)
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("path", ["/v1/completions", "/api/create"])
async def test_a_body_that_will_be_refused_is_not_asked_for(make_stack: Any, path: str) -> None:
    stack = await make_stack(max_body_bytes=1000)
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n".encode()
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
    assert head.split(b" ")[1] == (b"413" if path.startswith("/v1") else b"100")
    writer.close()


@pytest.mark.parametrize(
    "bad",
    [
        b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"DELETE /clairvoyant/state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /clairvoyant/state HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        b"POST /clairvoyant/none HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n" + b"x" * 4000,
        POST + b'Content-Length: 45\r\n\r\n{"messages":[1],"emulate":{"fault":"refuse"}}',
    ],
)
async def test_a_connection_serves_on_after_an_error(stack: Any, bad: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    for sent, fine in ((bad, False), (b"GET /api/tags HTTP/1.1\r\nHost: x\r\n\r\n", True)):
        writer.write(sent)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
        assert (b" 200 " in head.split(b"\r\n")[0]) == fine
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    writer.close()


@pytest.mark.parametrize(
    "path",
    [
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/./v1/chat/completions",
        "/x/../v1/chat/completions/",
    ],
)
async def test_an_odd_spelling_of_a_path_is_no_way_around_the_queue(
    make_stack: Any, backend: Any, path: str
) -> None:
    stack = await make_stack(backend=backend.url)
    backend.says = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    assert parsed(await spoken(stack.proxy.port, head.encode()))[0] == 200
    assert stack.proxy.history.received == 1
    assert backend.heard[0].startswith(f"POST {path} HTTP/1.1\r\n".encode()), "it goes on as it came"


# -- a page in a browser ----------------------------------------------------------------------------


async def test_a_preflight_is_the_backends_to_answer(make_stack: Any, backend: Any) -> None:
    stack = await make_stack(backend=backend.url)
    allowed = b"Access-Control-Allow-Origin: http://ui:3000\r\nAccess-Control-Allow-Headers: content-type\r\n"
    backend.says = [b"HTTP/1.1 204 No Content\r\n" + allowed + b"\r\n"]
    asked = {
        "Origin": "http://ui:3000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    url = stack.proxy.url + "/v1/chat/completions"
    async with stack.http.options(url, headers=asked) as answer:
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "http://ui:3000"
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type"
    heard = backend.heard[0].lower()
    assert all(f"{name}: {value}".lower().encode() in heard for name, value in asked.items())
    assert not stack.proxy.history.received


async def test_a_page_may_read_why_it_was_refused_but_not_the_control_routes(
    make_stack: Any, unused_tcp_port: int
) -> None:
    stack = await make_stack(backend=f"http://127.0.0.1:{unused_tcp_port}")
    origin = {"Origin": "http://ui:3000"}
    for path in ("/v1/chat/completions", "/api/tags"):
        async with stack.http.post(stack.proxy.url + path, json={"messages": [1]}, headers=origin) as answer:
            assert answer.status == 502
            assert answer.headers["Access-Control-Allow-Origin"] == "http://ui:3000"
            assert answer.headers["Vary"] == "Origin"
        async with stack.http.post(stack.proxy.url + path, json={"messages": [1]}) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers
    for path in ("state", "nothing"):
        async with stack.http.get(f"{stack.proxy.url}/clairvoyant/{path}", headers=origin) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("null", False),
        ("http://[::1", False),
        ("http://localhost:3000", True),
        ("http://127.0.0.1:8888", True),
    ],
)
async def test_a_page_from_elsewhere_turns_nothing(stack: Any, origin: str, allowed: bool) -> None:
    await stack.proxy.swap_model("other")
    # no body and no content type: a page may send this without asking first
    url = stack.proxy.url + "/clairvoyant/model/rollback"
    async with stack.http.post(url, headers={"Origin": origin}) as answer:
        assert answer.status == (200 if allowed else 403)
    assert stack.proxy.recorder.model_name == ("sharegpt-rich" if allowed else "other")


async def test_head_asks_whether_a_control_route_is_well(stack: Any) -> None:
    for path, expected in (("healthz", 200), ("state", 200), ("nothing", 404), ("events", 405)):
        async with stack.http.head(f"{stack.proxy.url}/clairvoyant/{path}") as answer:
            assert (answer.status, await answer.read()) == (expected, b"")


async def test_more_clients_than_files_allow_are_refused_and_those_inside_are_served(stack: Any) -> None:
    stack.proxy._server._most_clients = 3
    running = [asyncio.create_task(stack.ask(f"m{k}", tokens=20)) for k in range(3)]
    await stack.until(lambda: stack.proxy.history.received == 3)
    status, headers, text = await stack.ask("late", path="/api/chat")
    assert (status, headers["Retry-After"], headers["Connection"]) == (503, "1", "close")
    assert "too many clients" in json.loads(text)["error"]
    assert [status for status, _, _ in await asyncio.gather(*running)] == [200] * 3
    assert (await stack.ask("later"))[0] == 200


def test_files_are_kept_from_clients_for_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    for limit, most in ((1024, 895), (96, 72), (3, 3), (resource.RLIM_INFINITY, None)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limit=limit: (limit, limit))
        assert most_clients(slots=1) == most
