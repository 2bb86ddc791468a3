"""Every fault has its answer; after each the slot is free, the books add up, the next request is served."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import aiohttp
import pytest

SCHEDULED = ["/v1/chat/completions", "/v1/completions", "/api/chat", "/api/generate"]


async def start(stack: Any, path: str, stream: bool, tokens: int = 20_000, **more: Any) -> asyncio.Task[Any]:
    """A request under way that lasts long if nobody stops it."""

    async def go() -> bytes:
        from_conftest = body(path, "long", tokens, stream=stream, **more)
        async with stack.http.post(stack.proxy.url + path, json=from_conftest) as answer:
            return await answer.read()

    return asyncio.create_task(go())


def body(path: str, marker: str, tokens: int, **more: Any) -> dict[str, Any]:
    fault = more.pop("fault", None)
    steer = {"tokens": tokens, "marker": marker, **({"fault": fault} if fault else {})}
    if path.endswith(("/chat/completions", "/api/chat")):
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": "p=0.2 go"}]}
    else:
        asked = {"prompt": "p=0.2 go"}
    return {"model": "m", **asked, "emulate": steer, **more}


async def leave(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def error_message(path: str, text: bytes) -> str:
    """The message of an error in the dialect of the path; fails if it is in the other one."""
    error = json.loads(text)["error"]
    if path.startswith("/api"):
        assert isinstance(error, str)
        return error
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["message"])


async def test_the_log_says_that_the_backend_is_down_and_not_once_a_request(
    stack: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await stack.emulator.stop()
    for _ in range(3):
        status, _, _ = await stack.ask("x", tokens=1)
        assert status == 502
    said = [r.getMessage() for r in caplog.records if r.name == "clairvoyant_lab.proxy"]
    assert [text for text in said if "failed" in text] == [
        "a request failed: the backend cannot be reached; is it running? (backend_down)"
    ]


# -- the client leaves -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCHEDULED)
async def test_client_gone_while_queued_is_dropped_at_once(stack: Any, path: str) -> None:
    running = await start(stack, path, stream=True)
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    queued = await start(stack, path, stream=True)
    await stack.until(lambda: len(stack.proxy.line.waiting) == 1)
    await leave(queued)
    assert await stack.until(lambda: not stack.proxy.line.waiting) < 1.0
    assert stack.proxy.history.outcomes["gone_queued"] == 1
    assert len(stack.emulator.served) == 1, "the backend must never see it"
    await leave(running)
    await stack.check_idle_and_well()


@pytest.mark.parametrize("path", SCHEDULED)
@pytest.mark.parametrize("phase", ["before_first_byte", "mid_stream", "not_streaming"])
async def test_client_gone_mid_generation_frees_slot_and_backend(
    make_stack: Any, path: str, phase: str
) -> None:
    # at 1/20 of the pace the first token takes 2 s, so leaving before it is certain
    stack = await make_stack(speedup=0.05 if phase == "before_first_byte" else 50.0)
    task = await start(stack, path, stream=phase != "not_streaming")
    await stack.until(lambda: stack.emulator.busy == 1)
    if phase == "mid_stream":
        await stack.until(lambda: stack.first_bytes() > 0)
    await leave(task)
    assert await stack.until(lambda: not stack.proxy.line.running) < 1.0
    assert await stack.until(lambda: stack.emulator.busy == 0) < 1.0, "the backend goes on for nobody"
    assert stack.proxy.history.outcomes["gone_running"] == 1
    stack.emulator.speedup = 50.0
    await stack.check_idle_and_well()


async def test_the_connection_of_a_stream_rests_after_its_end_only(
    make_stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clairvoyant_lab.serving.upstream._RestingConnector.REST_S", 3600.0)
    stack = await make_stack()
    task = await start(stack, SCHEDULED[0], stream=True)
    await stack.until(lambda: stack.first_bytes() > 0)
    await leave(task)
    # an answer that breaks off is no end: the backend must see the connection go now
    await stack.until(lambda: stack.emulator.busy == 0)
    await stack.check_idle_and_well()


async def test_drain_reads_an_abandoned_answer_to_its_end(make_stack: Any) -> None:
    stack = await make_stack(on_client_gone="drain")
    task = await start(stack, "/v1/chat/completions", stream=True, tokens=400)
    await stack.until(lambda: stack.first_bytes() > 0)
    await leave(task)
    await asyncio.sleep(0.05)
    assert len(stack.proxy.line.running) == 1, "the slot is held until the backend is through"
    await stack.until(lambda: not stack.proxy.line.running)
    assert stack.emulator.served[0].outcome == "done"
    assert stack.proxy.history.outcomes["gone_running"] == 1
    await stack.check_idle_and_well()


async def test_drain_serves_a_client_that_stays_like_any_other(make_stack: Any) -> None:
    stack = await make_stack(on_client_gone="drain")
    status, _, text = await stack.ask(tokens=7)
    assert (status, json.loads(text)["usage"]["completion_tokens"]) == (200, 7)
    await stack.check_idle_and_well()


async def test_two_hundred_clients_leave_at_once(stack: Any) -> None:
    running = await start(stack, "/v1/completions", stream=True)
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    crowd = [await start(stack, "/v1/completions", stream=bool(k % 2)) for k in range(200)]
    await stack.until(lambda: len(stack.proxy.line.waiting) == 200, within_s=10.0)
    for task in [*crowd, running]:
        task.cancel()
    await asyncio.gather(*crowd, running, return_exceptions=True)
    await stack.until(lambda: not stack.proxy.line.waiting and not stack.proxy.line.running, within_s=10.0)
    await stack.check_idle_and_well()


async def test_a_client_that_stops_reading_does_not_hold_the_slot(make_stack: Any) -> None:
    stack = await make_stack(speedup=1000.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    text = json.dumps(body("/v1/completions", "slow", 5000, stream=True)).encode()
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + f"Content-Length: {len(text)}\r\n\r\n".encode()
        + text
    )
    await writer.drain()
    await stack.until(lambda: stack.proxy.history.outcomes["done"] == 1, within_s=10.0)
    assert not stack.proxy.line.running
    whole = b""
    while not whole.endswith(b"0\r\n\r\n"):
        piece = await asyncio.wait_for(reader.read(65536), 5.0)
        assert piece, "the whole answer must still come"
        whole += piece
    assert whole.count(b"data: ") == 5002
    writer.close()
    await stack.check_idle_and_well()


async def test_a_client_that_stops_reading_a_huge_answer_is_cut_off(make_stack: Any) -> None:
    stack = await make_stack(speedup=1e5, send_buffer_bytes=4096, client_stall_timeout_s=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    text = json.dumps(body("/v1/completions", "slow", 200_000, stream=True)).encode()
    writer.write(
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text
    )
    await stack.until(lambda: stack.proxy.history.outcomes["gone_running"] == 1, within_s=20.0)
    writer.close()
    del reader
    await stack.check_idle_and_well()


async def test_a_body_that_never_comes_whole_is_answered_408_and_holds_nothing(make_stack: Any) -> None:
    stack = await make_stack(client_stall_timeout_s=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 3.0)
    assert b" 408 " in head
    writer.close()
    assert stack.proxy.history.outcomes["refused_body"] == 1
    await stack.check_idle_and_well()


# -- the backend fails -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCHEDULED)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [("refuse", 502), ("garbage", 502), ("hang", 504)],
)
async def test_backend_that_gives_no_answer(
    make_stack: Any, path: str, stream: bool, fault: str, expected: int
) -> None:
    stack = await make_stack(first_byte_timeout_s=0.3)
    status, headers, text = await stack.ask(path=path, fault=fault, stream=stream)
    assert status == expected
    assert "backend" in error_message(path, text)
    assert headers["x-clairvoyant-request-id"]
    assert stack.proxy.history.outcomes["backend_failed"] == 1
    await stack.check_idle_and_well()


@pytest.mark.parametrize("path", SCHEDULED)
@pytest.mark.parametrize("fault", ["die_first", "die_mid", "stall_mid", "bad_chunk"])
async def test_backend_that_breaks_off_mid_stream_ends_in_a_cut_not_in_a_whole_answer(
    make_stack: Any, path: str, fault: str
) -> None:
    stack = await make_stack(silence_timeout_s=0.3)
    with pytest.raises(aiohttp.ClientError):
        await stack.ask(path=path, fault=fault, stream=True, tokens=40)
    await stack.until(lambda: stack.proxy.history.outcomes["backend_failed"] == 1)
    await stack.check_idle_and_well()


async def test_pieces_that_came_before_the_break_reach_the_client(make_stack: Any) -> None:
    stack = await make_stack(silence_timeout_s=0.3)
    got, cut = b"", False
    async with stack.http.post(
        stack.proxy.url + "/v1/completions",
        json=body("/v1/completions", "m", 40, fault="die_mid", stream=True),
    ) as answer:
        try:
            async for piece in answer.content.iter_any():
                got += piece
        except aiohttp.ClientPayloadError:
            cut = True
    assert cut
    assert got.count(b"data: ") >= 20


async def test_backend_that_is_not_there(make_stack: Any, unused_tcp_port: int) -> None:
    stack = await make_stack(backend=f"http://127.0.0.1:{unused_tcp_port}")
    for path in SCHEDULED:
        status, _, text = await stack.ask(path=path)
        assert status == 502
        assert "is it running" in error_message(path, text)
    assert not stack.proxy.line.running
    async with stack.http.get(stack.proxy.url + "/api/tags") as answer:
        assert answer.status == 502
        assert "is it running" in error_message("/api/tags", await answer.read())


async def test_a_backends_own_error_goes_through_as_it_is(stack: Any) -> None:
    status, _, text = await stack.ask(fault="status")
    assert (status, json.loads(text)["error"]["message"]) == (500, "emulated failure")
    assert stack.proxy.history.outcomes["backend_status"] == 1
    await stack.check_idle_and_well()


async def test_a_compressed_answer_goes_through_untouched(stack: Any) -> None:
    status, headers, text = await stack.ask(fault="gzip", tokens=3)
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert json.loads(gzip.decompress(text))["usage"]["completion_tokens"] == 3
    await stack.check_idle_and_well()


async def test_an_answer_that_is_no_json_goes_through(stack: Any) -> None:
    status, _, text = await stack.ask(fault="not_json")
    assert (status, text) == (200, b"this is no JSON")
    await stack.check_idle_and_well()


# -- what the proxy refuses ------------------------------------------------------------------------


async def test_a_full_queue_answers_429_with_retry_after(make_stack: Any) -> None:
    stack = await make_stack(max_queue=1)
    running = await start(stack, "/v1/completions", stream=True)
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    queued = await start(stack, "/v1/completions", stream=True)
    await stack.until(lambda: len(stack.proxy.line.waiting) == 1)
    for path in SCHEDULED:
        status, headers, text = await stack.ask(path=path)
        assert status == 429
        assert int(headers["Retry-After"]) >= 1
        assert "full" in error_message(path, text)
    assert stack.proxy.history.outcomes["refused_full"] == len(SCHEDULED)
    await leave(queued)
    await leave(running)
    await stack.check_idle_and_well()


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_that_is_too_large_answers_413(make_stack: Any, declared: bool) -> None:
    stack = await make_stack(max_body_bytes=1000)
    text = json.dumps(body("/api/chat", "m", 5, filler="x" * 5000)).encode()

    async def pieces() -> Any:
        yield text

    data = text if declared else pieces()
    async with stack.http.post(stack.proxy.url + "/api/chat", data=data) as answer:
        assert answer.status == 413
        assert "larger than 1000" in error_message("/api/chat", await answer.read())
    assert stack.proxy.history.outcomes["refused_body"] == 1
    await stack.check_idle_and_well()


async def test_what_is_not_scheduled_may_be_larger(make_stack: Any) -> None:
    stack = await make_stack(max_body_bytes=1000)
    async with stack.http.post(stack.proxy.url + "/api/create", data=b"x" * 100_000) as answer:
        assert answer.status == 404
        assert b"no POST /api/create" in await answer.read()


@pytest.mark.parametrize("garbage", [b"", b"{", b"[1]", b"\xff\xfe", b'{"messages":' + b"[" * 5000])
async def test_a_body_that_is_no_json_object_is_the_backends_to_judge(stack: Any, garbage: bytes) -> None:
    async with stack.http.post(stack.proxy.url + "/v1/chat/completions", data=garbage) as answer:
        assert answer.status == 400
        assert b"the body is not JSON" in await answer.read()
        assert answer.headers["x-clairvoyant-p-long"] == "0.333333"
    await stack.check_idle_and_well()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_request_is_understood_and_forwarded_as_it_came(stack: Any, encoding: str) -> None:
    plain = json.dumps(body("/v1/completions", "m", 5) | {"prompt": "p=0.9 go"}).encode()
    packed = gzip.compress(plain) if encoding == "gzip" else zlib.compress(plain)
    async with stack.http.post(
        stack.proxy.url + "/v1/completions", data=packed, headers={"Content-Encoding": encoding}
    ) as answer:
        assert answer.headers["x-clairvoyant-p-long"] == "0.900000"
    assert stack.emulator.served[0].headers["content-encoding"] == encoding
    assert stack.emulator.served[0].headers["content-length"] == str(len(packed))


async def test_a_predictor_that_fails_costs_no_request(stack: Any) -> None:
    stack.proxy.forecaster.predictor.broken = True
    status, headers, _ = await stack.ask()
    assert (status, headers["x-clairvoyant-p-long"]) == (200, "0.333333")
    assert stack.proxy.forecaster.failures == 1
    stack.proxy.forecaster.predictor.broken = False
    await stack.check_idle_and_well()


# -- start and stop --------------------------------------------------------------------------------


async def test_two_proxies_on_one_port(make_stack: Any) -> None:
    from clairvoyant_lab.errors import ClairvoyantError

    first = await make_stack()
    with pytest.raises(ClairvoyantError, match="another --port"):
        await make_stack(port=first.proxy.port)
    await first.check_idle_and_well()


async def test_stopping_lets_the_running_finish_and_refuses_the_waiting(stack: Any) -> None:
    running = asyncio.create_task(stack.ask("running", tokens=400))
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    waiting = [asyncio.create_task(stack.ask(f"w{k}", path=path)) for k, path in enumerate(SCHEDULED)]
    await stack.until(lambda: len(stack.proxy.line.waiting) == len(SCHEDULED))
    await stack.proxy.stop(grace_s=10.0)
    assert (await running)[0] == 200
    for path, task in zip(SCHEDULED, waiting, strict=True):
        status, _, text = await task
        assert status == 503
        assert "stopping" in error_message(path, text)
    stack.check_books()
    assert stack.proxy.history.outcomes["refused_draining"] == len(SCHEDULED)
    with pytest.raises(aiohttp.ClientConnectionError):
        await stack.ask("late")
