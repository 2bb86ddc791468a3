"""Requests that are odd, wrong or meant to harm: each has its answer, none is lost, none gets a 500."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from clairvoyant_lab.serving.prompts_in import path_of, read_ask
from clairvoyant_lab.serving.upstream import request_headers, response_headers


async def raw(port: int, data: bytes) -> tuple[int, bytes]:
    """Status and whole answer of bytes sent as they are; the request must ask to close."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), 10.0)
    writer.close()
    return int(answer.split(b" ", 2)[1]), answer


def request(method: str, path: str, value: object = None, *more: bytes) -> bytes:
    body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    head = f"{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n".encode()
    if not any(line.lower().startswith(b"host:") for line in more):
        head += b"Host: 127.0.0.1\r\n"
    head += b"".join(line + b"\r\n" for line in more)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def backend_that_says(answer: bytes) -> tuple[asyncio.Server, str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("number", [10**400, 10**18, -1, 0, True, "3", None, 2.5])
@pytest.mark.parametrize("field", ["n", "max_tokens", "max_completion_tokens"])
async def test_odd_numbers_cost_no_request(stack: Any, field: str, number: object) -> None:
    asked = {"messages": [{"role": "user", "content": "x"}], "emulate": {"tokens": 1}, field: number}
    status, _ = await raw(stack.proxy.port, request("POST", "/v1/chat/completions", asked))
    assert status == 200
    stack.check_books()


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": None},
        {"messages": [None, {"role": None}, {"role": "user", "content": [None, {"text": None}]}]},
        {"messages": [{"role": "user", "content": "\ud800 \udfff"}]},
        {"messages": [{"role": "user", "content": "a\x00b"}], "stream": "yes"},
    ],
)
async def test_odd_messages_cost_no_request(stack: Any, fields: dict[str, Any]) -> None:
    asked = {**fields, "emulate": {"tokens": 1}}
    status, _ = await raw(stack.proxy.port, request("POST", "/v1/chat/completions", asked))
    assert status == 200
    await stack.check_idle_and_well()


@pytest.mark.parametrize(
    "target", ["/v1/%63hat/completions", "/v1/chat%2Fcompletions", "/v1/ch%61t/completions/"]
)
async def test_an_escaped_path_is_no_way_around_the_queue(stack: Any, target: str) -> None:
    assert path_of(target + "?a=%2F") == "/v1/chat/completions"
    asked = {"messages": [{"role": "user", "content": "x"}], "emulate": {"tokens": 1}}
    _, answer = await raw(stack.proxy.port, request("POST", target, asked))
    assert b"x-clairvoyant-request-id" in answer
    assert stack.proxy.history.received == 1


def test_a_stated_number_of_answers_stays_a_number_a_float_holds() -> None:
    body = json.dumps({"prompt": ["x"] * 3, "n": 10**300}).encode()
    assert float(read_ask("/v1/completions", body).answers) == 1e6


def test_headers_that_differ_in_case_only_are_both_sent_on() -> None:
    sent = CIMultiDictProxy(CIMultiDict([("X-A", "1"), ("x-a", "2"), ("X-B", "3")]))
    assert list(request_headers(sent).items()) == [("X-A", "1"), ("X-A", "2"), ("X-B", "3")]


@pytest.mark.parametrize(("sent", "kept"), [("caf\udce9", "caf\u00e9"), ("caf\u00e9", "caf\u00e9")])
def test_no_letter_of_a_header_is_lost(sent: str, kept: str) -> None:
    headers = CIMultiDictProxy(CIMultiDict([("X-A", sent)]))
    assert request_headers(headers)["X-A"] == kept
    assert response_headers(headers)["X-A"] == kept


async def test_a_duplicate_header_reaches_the_backend_whatever_its_case(stack: Any) -> None:
    asked = {"messages": [{"role": "user", "content": "x"}], "emulate": {"tokens": 1}}
    data = request("POST", "/v1/chat/completions", asked, b"X-Two: 1", b"x-two: 2")
    server, seen = None, []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stack.proxy.upstream._base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await raw(stack.proxy.port, data)
    server.close()
    assert [line for line in seen[0].lower().split(b"\r\n") if line.startswith(b"x-two")] == [
        b"x-two: 1",
        b"x-two: 2",
    ]


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_upgrade_is_not_made_and_the_connection_serves_on(
    stack: Any, protocol: bytes, method: str
) -> None:
    asked = json.dumps({"messages": [{"role": "user", "content": "p=0.9 x"}], "emulate": {"tokens": 1}})
    head = f"{method} /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(asked)}\r\n".encode()
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n" + asked.encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    for _ in range(2):
        writer.write(head + upgrade)
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
        assert answer.split(b" ")[1] == (b"200" if method == "POST" else b"404")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert json.loads(await reader.readexactly(length))
    writer.close()
    assert stack.proxy.history.received == (2 if method == "POST" else 0)


# -- the control API -------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["\ud800", "name", "promotion", "tau_mode"])
async def test_a_lone_surrogate_is_refused_by_name(stack: Any, field: str) -> None:
    data = request("PATCH", "/clairvoyant/policy", {field: "\ud800"})
    assert (await raw(stack.proxy.port, data))[0] == 422


@pytest.mark.parametrize("model", ["x" * 5000, "\ud800", "/", "no/such.onnx"])
async def test_a_model_that_cannot_be_loaded_leaves_the_one_in_use(stack: Any, model: str) -> None:
    from clairvoyant_lab.serving.proxy import load_model

    stack.proxy._load_predictor = load_model
    before = stack.proxy.forecaster.predictor
    status, answer = await raw(stack.proxy.port, request("POST", "/clairvoyant/model", {"model": model}))
    assert status == 422
    assert ("no such file" in answer.decode()) == (model in ("/", "no/such.onnx")), "the loader's own words"
    assert stack.proxy.forecaster.predictor is before
    await stack.check_idle_and_well()


@pytest.mark.parametrize(
    ("host", "expected"), [(b"[::1", 400), (b"[evil]", 400), (b"\xff", 403), (b"a b", 403)]
)
async def test_a_host_that_is_none_is_refused(stack: Any, host: bytes, expected: int) -> None:
    data = request("GET", "/clairvoyant/state", None, b"Host: " + host)
    assert (await raw(stack.proxy.port, data))[0] == expected


@pytest.mark.parametrize("given", [b"Bearer \xff\xfe", b"Bearer ", b"Basic dG9rZW4=", b"\xc3\xa9"])
async def test_a_token_of_any_bytes_is_only_wrong(make_stack: Any, given: bytes) -> None:
    stack = await make_stack(token="tok\u00e9n")
    data = request("GET", "/clairvoyant/state", None, b"Authorization: " + given)
    assert (await raw(stack.proxy.port, data))[0] == 401
    right = request("GET", "/clairvoyant/state", None, "Authorization: Bearer tok\u00e9n".encode())
    assert (await raw(stack.proxy.port, right))[0] == 200


async def test_control_routes_answer_expect_100_continue(stack: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(
        b"PATCH /clairvoyant/policy HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    )
    first = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
    assert b" 100 " in first
    writer.write(b"{}")
    assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
    writer.close()


# -- the backend's side ----------------------------------------------------------------------------


async def test_nothing_is_made_up_about_an_answer(make_stack: Any) -> None:
    server, url = await backend_that_says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    stack = await make_stack(backend=url)
    _, answer = await raw(stack.proxy.port, request("POST", "/v1/completions", {"prompt": "x"}))
    server.close()
    names = {line.split(b":")[0].lower() for line in answer.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]}
    assert not {b"content-type", b"server"} & names


async def test_large_and_many_response_headers_come_through(make_stack: Any) -> None:
    many = b"".join(b"X-%d: 1\r\n" % k for k in range(300)) + b"X-Big: " + b"b" * 30_000 + b"\r\n"
    server, url = await backend_that_says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + many + b"\r\n{}")
    stack = await make_stack(backend=url)
    status, answer = await raw(stack.proxy.port, request("POST", "/v1/completions", {"prompt": "x"}))
    server.close()
    assert status == 200
    assert b"b" * 30_000 in answer
    assert b"X-299: 1" in answer


async def test_a_switch_of_protocols_nobody_asked_for_is_a_502(make_stack: Any) -> None:
    server, url = await backend_that_says(
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
    )
    stack = await make_stack(backend=url)
    data = request("POST", "/v1/completions", {"prompt": "x"}, b"Upgrade: websocket")
    assert (await raw(stack.proxy.port, data))[0] == 502
    server.close()
    stack.check_books()
    assert not stack.proxy.line.running


async def test_an_upload_may_last_longer_than_the_backend_may_be_silent(make_stack: Any) -> None:
    stack = await make_stack(first_byte_timeout_s=0.3, silence_timeout_s=0.3)

    async def slowly() -> Any:
        for _ in range(8):
            yield b"x" * 1000
            await asyncio.sleep(0.1)

    async with stack.http.post(stack.proxy.url + "/api/blobs/sha256:1", data=slowly()) as answer:
        assert answer.status == 404
        assert b"no POST" in await answer.read()


async def test_a_crowd_is_explained_with_fewer_names_each(stack: Any) -> None:
    from clairvoyant_lab.serving.admission import Line, Waiter
    from clairvoyant_lab.serving.explain import describe_queue
    from clairvoyant_lab.serving.forecast import Forecast

    line = Line(stack.proxy.line.policy, 1)

    def join(arrival_s: float, tokens: float) -> None:
        forecast = Forecast((0.5, 0.0, 0.5), tokens, "model")
        line.join(Waiter(line.ticket(), f"r{arrival_s:g}", arrival_s, forecast, 1.0))

    for k in range(300):
        join(float(k), 500.0 + k)
    for k in range(300, 310):  # short ones that come later go first
        join(float(k), 1.0)
        got = line.next(float(k))
        assert got is not None
        assert got.arrival_s == k
        line.finish(got)
    told = describe_queue(line, 400.0)["waiting"]
    assert len(told) == 300
    last = told[-1]
    assert (len(last["ahead"]), last["ahead_more"]) == (3, 296)
    assert [entry["request_id"] for entry in last["overtaken_by"]] == ["r307", "r308", "r309"]
    assert (last["overtaken_by_more"], last["served_meanwhile"]) == (7, 10)
    assert "shorter: 1 token predicted" in last["overtaken_by"][0]["why"]
