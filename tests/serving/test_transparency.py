"""What the proxy forwards and returns is, byte for byte, what was sent: recorded between the two."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest


class Recorder:
    """A raw TCP backend: keeps the bytes of each request, answers with given bytes, cut as given."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.answer: list[bytes] = []
        self.pause_s = 0.002
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            body = b""
            low = head.lower()
            if b"content-length: " in low:
                body = await reader.readexactly(int(low.split(b"content-length: ")[1].split(b"\r\n")[0]))
            elif b"transfer-encoding: chunked" in low:
                while True:
                    size = int((await reader.readline()).strip(), 16)
                    piece = await reader.readexactly(size + 2)
                    if size == 0:
                        break
                    body += piece[:-2]
            self.requests.append(head + body)
            for piece in self.answer:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(self.pause_s)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    made = Recorder()
    yield made
    await made.stop()


async def fronted(make_stack: Any, recorder: Recorder, **settings: Any) -> Any:
    return await make_stack(backend=await recorder.start(), **settings)


def head_of(request: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = request.split(b"\r\n\r\n", 1)[0].decode("latin-1").split("\r\n")
    return first, {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in lines}


def chunked(pieces: list[bytes]) -> list[bytes]:
    return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces] + [b"0\r\n\r\n"]


PATHS = ["/v1/chat/completions", "/v1/completions", "/api/chat", "/api/generate", "/v1/embeddings", "/api/ps"]


@pytest.mark.parametrize("path", PATHS)
async def test_the_request_goes_on_as_it_came(make_stack: Any, recorder: Recorder, path: str) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    # spacing, key order, unknown fields and escapes must survive
    body = b'{ "prompt":"x", "unknown" : [1,  2.50e0, "\\u00e9"],"messages":[{"role":"user","content":"x"}] }'
    headers = {
        "Authorization": "Bearer sk-secret",
        "Content-Type": "application/json; charset=utf-8",
        "X-Custom": "kept",
        "X-Clairvoyant-Class": "short",
        "TE": "trailers",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "gone",
        "Cookie": "a=b; c=d",
        "User-Agent": "test/1",
    }
    url = stack.proxy.url + path + "?a=1&b=%2F%20x&c=%E9&&d"
    from yarl import URL

    async with stack.http.post(URL(url, encoded=True), data=body, headers=headers) as answer:
        assert (answer.status, await answer.read()) == (200, b"{}")
    first, got = head_of(recorder.requests[0])
    assert first == f"POST {path}?a=1&b=%2F%20x&c=%E9&&d HTTP/1.1"
    assert recorder.requests[0].split(b"\r\n\r\n", 1)[1] == body
    assert got["authorization"] == "Bearer sk-secret"
    assert got["content-type"] == "application/json; charset=utf-8"
    assert (got["x-custom"], got["cookie"], got["user-agent"]) == ("kept", "a=b; c=d", "test/1")
    assert not {"x-clairvoyant-class", "te", "x-hop"} & set(got)
    assert got["host"] == stack.proxy.settings.backend.removeprefix("http://"), (
        "Ollama refuses a foreign Host"
    )
    assert got["content-length"] == str(len(body))


async def test_a_client_without_headers_gets_none_added(make_stack: Any, recorder: Recorder) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(b"GET /x HTTP/1.1\r\nHost: me\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert set(head_of(recorder.requests[0])[1]) == {"host"}


STREAM = "".join(f'data: {{"choices":[{{"delta":{{"content":"é漢{k}"}}}}]}}\r\n\r\n' for k in range(30))
STREAM_BYTES = (": hello\n\n" + STREAM + "data: [DONE]\n\n").encode()


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/api/pull"])
async def test_a_stream_comes_back_byte_for_byte_however_it_is_cut(
    make_stack: Any, recorder: Recorder, path: str, size: int
) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.pause_s = 0.0
    head = (
        b"HTTP/1.1 201 Very Fine\r\nContent-Type: text/event-stream; x=y\r\nTransfer-Encoding: chunked\r\n"
        b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Backend: kept\r\n"
        b"Keep-Alive: timeout=5\r\nConnection: close\r\n\r\n"
    )
    pieces = [STREAM_BYTES[at : at + size] for at in range(0, len(STREAM_BYTES), size)]
    recorder.answer = [head, *chunked(pieces)]
    async with stack.http.post(
        stack.proxy.url + path, json={"messages": [{"role": "user", "content": "x"}]}
    ) as answer:
        assert (answer.status, answer.reason) == (201, "Very Fine")
        assert answer.headers["Content-Type"] == "text/event-stream; x=y"
        assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
        assert answer.headers["X-Backend"] == "kept"
        assert "Keep-Alive" not in answer.headers
        assert await answer.read() == STREAM_BYTES


async def test_pieces_and_headers_go_on_as_they_come(make_stack: Any, recorder: Recorder) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.pause_s = 0.15
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    recorder.answer = [head, *chunked([b"data: 1\n\n", b"data: 2\n\n"])]
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stack.http.post(stack.proxy.url + "/v1/completions", json={"prompt": "x"}) as answer:
        headers_at = loop.time() - began
        first = await answer.content.readany()
        first_at = loop.time() - began
        await answer.content.read()
        end_at = loop.time() - began
    assert first == b"data: 1\n\n"
    assert headers_at < 0.12, "headers must not wait for the first piece"
    assert 0.1 < first_at < 0.29
    assert end_at > 0.29


async def test_buffer_holds_the_answer_back_until_it_is_whole(make_stack: Any, recorder: Recorder) -> None:
    stack = await fronted(make_stack, recorder, buffer=True)
    recorder.pause_s = 0.1
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    recorder.answer = [head, *chunked([b"data: 1\n\n", b"data: 2\n\n"])]
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stack.http.post(stack.proxy.url + "/v1/completions", json={"prompt": "x"}) as answer:
        assert loop.time() - began > 0.29
        assert await answer.read() == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize("path", ["/api/blobs/sha256:1", "/api/create"])
@pytest.mark.parametrize("known_length", [True, False])
async def test_huge_uploads_are_streamed_on(
    make_stack: Any, recorder: Recorder, path: str, known_length: bool
) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]
    blob = bytes(range(256)) * 20_000

    async def pieces() -> Any:
        for at in range(0, len(blob), 100_000):
            yield blob[at : at + 100_000]

    data: Any = blob if known_length else pieces()
    async with stack.http.post(stack.proxy.url + path, data=data) as answer:
        assert await answer.read() == b"ok"
    _, got = head_of(recorder.requests[0])
    assert recorder.requests[0].split(b"\r\n\r\n", 1)[1] == blob
    assert ("content-length" in got) == known_length


async def test_expect_100_continue_is_answered(make_stack: Any, recorder: Recorder) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    async with stack.http.post(
        stack.proxy.url + "/api/generate", data=b'{"prompt":"x"}', expect100=True
    ) as answer:
        assert answer.status == 200
    assert "expect" not in head_of(recorder.requests[0])[1]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "PUT"])
async def test_other_methods_pass_also_on_scheduled_paths(
    make_stack: Any, recorder: Recorder, method: str
) -> None:
    stack = await fronted(make_stack, recorder)
    body = b"" if method == "HEAD" else b"five!"
    recorder.answer = [b"HTTP/1.1 405 No\r\nContent-Length: 5\r\nContent-Type: text/x\r\n\r\n" + body]
    async with stack.http.request(method, stack.proxy.url + "/v1/chat/completions") as answer:
        assert (answer.status, answer.headers["Content-Length"], await answer.read()) == (405, "5", body)
    assert head_of(recorder.requests[0])[0] == f"{method} /v1/chat/completions HTTP/1.1"
    assert stack.proxy.history.passed_through == 1


async def test_redirects_and_empty_answers_are_the_clients_matter(
    make_stack: Any, recorder: Recorder
) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.answer = [b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"]
    async with stack.http.get(stack.proxy.url + "/a", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, "/elsewhere")
    recorder.answer = [b"HTTP/1.1 204 No Content\r\n\r\n"]
    async with stack.http.get(stack.proxy.url + "/b") as answer:
        assert (answer.status, await answer.read()) == (204, b"")
    assert len(recorder.requests) == 2


@pytest.mark.parametrize(
    "target", ["@127.0.0.1:1/x", "http://127.0.0.1:1/api/tags", "//127.0.0.1:1/api/tags", "*"]
)
async def test_a_request_cannot_choose_the_backend(make_stack: Any, recorder: Recorder, target: str) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(f"OPTIONS {target} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 5.0)
    writer.close()
    status = int(answer.split(b" ")[1])
    if recorder.requests:
        assert status == 200
        assert b"@" not in recorder.requests[0].split(b"\r\n")[0]
    else:
        assert status == 400


async def test_load_and_unload_calls_do_not_wait(stack: Any) -> None:
    running = asyncio.create_task(stack.ask("long", tokens=20_000))
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    for path, fields in (
        ("/api/generate", {"model": "m", "keep_alive": 0}),
        ("/api/chat", {"model": "m", "messages": []}),
    ):
        async with stack.http.post(stack.proxy.url + path, json=fields) as answer:
            assert (await answer.json(content_type=None))["done_reason"] == "load"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await stack.check_idle_and_well()


async def test_the_backends_own_metrics_pass(stack: Any) -> None:
    async with stack.http.get(stack.proxy.url + "/metrics") as answer:
        assert (await answer.text()).startswith("emulated_requests_total")


async def test_every_scheduled_answer_equals_the_backends(stack: Any) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/api/chat", "/api/generate", "/v1/embeddings"):
        for stream in (True, False):
            fields: dict[str, Any] = {"model": "m", "stream": stream, "emulate": {"tokens": 9}, "input": "x"}
            fields |= {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}
            got = []
            for base in (stack.proxy.url, stack.emulator.url):
                async with stack.http.post(base + path, json=fields) as answer:
                    got.append((answer.status, answer.headers.get("Content-Type"), await answer.read()))

            assert got[0][:2] == got[1][:2]
            # the emulator stamps the second in which it answers
            sent, straight = (re.sub(rb'"created": ?[0-9]+', b"", text) for _, _, text in got)
            assert sent == straight
            assert len(sent) > 20


async def test_a_backend_that_closes_after_each_stream_without_a_word_loses_no_queued_request(
    make_stack: Any, recorder: Recorder
) -> None:
    stack = await fronted(make_stack, recorder)
    recorder.pause_s = 0.0
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    recorder.answer = [head, *chunked([b"data: [DONE]\n\n"])]

    async def ask() -> int:
        async with stack.http.post(stack.proxy.url + "/v1/completions", json={"prompt": "x"}) as answer:
            await answer.read()
            return answer.status

    assert await asyncio.gather(*(ask() for _ in range(100))) == [200] * 100


async def test_connections_are_reused_upstream(make_stack: Any) -> None:
    stack = await make_stack()
    for _ in range(5):
        await stack.ask(tokens=1)
    assert len(stack.emulator._runner.server.connections) == 1  # type: ignore[union-attr]
    assert isinstance(stack.http, aiohttp.ClientSession)
