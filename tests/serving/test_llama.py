"""The proxy in front of a real llama.cpp server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clairvoyant_lab.bench.overtaking import bench_overtaking, with_oracle
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.serving.backends.local import LocalServer, bundled_model

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def llama_is_here() -> None:
    if importlib.util.find_spec("xllamacpp") is None or bundled_model() is None:
        what = "no llama.cpp server: install the extra `local` and run `backend install-model`"
        if os.environ.get("REQUIRE_PEERS") == "1":
            pytest.fail(f"{what}, and REQUIRE_PEERS=1 asks for it")
        pytest.skip(what)


@pytest.fixture(scope="module")
def llama(llama_is_here: None) -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


def chat(text: str, cap: int, stream: bool = True) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": cap,
        "stream": stream,
        "temperature": 0.0,
        "ignore_eos": True,
    }


async def probe(stack: Any) -> float:
    """Seconds that a tiny request takes: long if the backend is still busy with someone else's."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stack.http.post(stack.proxy.url + "/v1/chat/completions", json=chat("Hi.", 1)) as answer:
        assert answer.status == 200
        await answer.read()
    return loop.time() - began


@pytest.mark.parametrize("phase", ["queued", "before_first_byte", "mid_stream", "not_streaming"])
async def test_a_disconnect_frees_the_slot_within_a_second(
    make_stack: Any, llama: LocalServer, phase: str
) -> None:
    stack = await make_stack(backend=llama.url)
    base = await probe(stack)
    url = stack.proxy.url + "/v1/chat/completions"
    text = "word " * 1500 if phase == "before_first_byte" else "Tell me a story."

    async def ask(stream: bool) -> None:
        async with stack.http.post(url, json=chat(text, 400, stream)) as answer:
            await answer.read()

    task = asyncio.create_task(ask(phase != "not_streaming"))
    if phase == "mid_stream":
        await stack.until(lambda: stack.first_bytes() >= 2, within_s=20.0)
    else:
        await stack.until(lambda: len(stack.proxy.line.running) == 1)
        await asyncio.sleep(0.3)
    if phase == "queued":
        second = asyncio.create_task(ask(True))
        await stack.until(lambda: len(stack.proxy.line.waiting) == 1)
        second.cancel()
        assert await stack.until(lambda: not stack.proxy.line.waiting) < 1.0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await stack.until(lambda: not stack.proxy.line.running) < 1.0
    # and the server itself is free: it gives up a generation within about a second when not streaming
    assert await probe(stack) < base + 2.0
    stack.check_books()


@pytest.mark.parametrize("stream", [True, False])
async def test_what_the_server_says_reaches_the_client_byte_for_byte(
    make_stack: Any, llama: LocalServer, stream: bool
) -> None:
    sent: list[bytes] = []
    got: list[bytes] = []
    relay = await _tap(llama.url, sent)
    stack = await make_stack(backend=f"http://127.0.0.1:{relay.sockets[0].getsockname()[1]}")
    for text in ("Name three colours.", "Zähle auf Deutsch: eins, zwei, …", "漢字を書いてください"):
        async with stack.http.post(
            stack.proxy.url + "/v1/chat/completions", json=chat(text, 24, stream)
        ) as answer:
            assert answer.status == 200
            got.append(await answer.read())
            assert int(answer.headers["x-clairvoyant-position"]) == 1
    relay.close()
    assert [_body(raw) for raw in sent] == got
    assert stack.proxy.history.response_tokens == 72


async def test_the_servers_own_errors_and_routes_pass(make_stack: Any, llama: LocalServer) -> None:
    stack = await make_stack(backend=llama.url)
    async with stack.http.post(
        stack.proxy.url + "/v1/chat/completions", json=chat("word " * 9000, 5)
    ) as answer:
        assert answer.status == 400, "more than the context holds"
        assert "error" in json.loads(await answer.read())
    async with stack.http.post(stack.proxy.url + "/v1/chat/completions", data=b"no json") as answer:
        assert answer.status in (400, 500)
    async with stack.http.get(stack.proxy.url + "/v1/models") as answer:
        assert (await answer.json(content_type=None))["data"]
    async with stack.http.get(stack.proxy.url + "/health") as answer:
        assert answer.status == 200
    stack.check_books()
    assert await probe(stack) < 5.0


async def test_short_requests_overtake_long_ones(make_stack: Any, llama: LocalServer) -> None:
    stack = await make_stack(backend=llama.url)
    finished: list[str] = []

    async def ask(name: str, cap: int) -> None:
        async with stack.http.post(
            stack.proxy.url + "/v1/chat/completions", json=chat("Tell me.", cap)
        ) as answer:
            await answer.read()
        finished.append(name)

    tasks = [asyncio.create_task(ask("first", 8))]
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    for k in range(3):
        tasks.append(asyncio.create_task(ask(f"long{k}", 60)))
        await stack.until(lambda k=k: len(stack.proxy.line.waiting) == 2 * k + 1)
        tasks.append(asyncio.create_task(ask(f"short{k}", 6)))
        await stack.until(lambda k=k: len(stack.proxy.line.waiting) == 2 * k + 2)
    await asyncio.gather(*tasks)
    assert finished == ["first", "short0", "short1", "short2", "long0", "long1", "long2"]


@pytest.mark.usefixtures("llama_is_here")
@pytest.mark.parametrize("caps", [(12, 80), (None, None)])
def test_in_a_burst_all_shorts_are_answered_first_as_the_oracle_would(
    caps: tuple[int | None, int | None],
) -> None:
    with LocalServer(context_tokens=384) as server:  # the small model's long answers end with the context
        report = bench_overtaking(
            server.url, n_short=2, n_long=2, short_cap=caps[0], long_cap=caps[1], runs=1, seed=2
        )
    both = {sample.policy: sample for sample in with_oracle(report, "sjf_tokens").samples}
    short, long = (
        {name: sample.values(kind, "sojourn_s") for name, sample in both.items()}
        for kind in (LengthClass.SHORT, LengthClass.LONG)
    )
    assert short["sjf_tokens"].max() < long["sjf_tokens"].min(), "prompts or caps tell them apart"
    assert short["oracle"].max() <= short["sjf_tokens"].max() + 1e-6
    assert np.median(short["sjf_tokens"]) < 0.5 * np.median(short["fcfs"]), "a long one was asked first"


async def _tap(url: str, sent: list[bytes]) -> asyncio.Server:
    """Stands between proxy and server and keeps what the server sends, one entry a connection."""
    host, port = url.removeprefix("http://").split(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        kept = bytearray()
        length: int | None = None

        async def forward() -> None:
            try:
                while piece := await reader.read(65536):
                    up_writer.write(piece)
            finally:
                up_writer.close()

        task = asyncio.create_task(forward())
        try:
            while piece := await up_reader.read(65536):
                kept += piece
                writer.write(piece)
                head, gap, rest = bytes(kept).partition(b"\r\n\r\n")
                if gap and b"content-length: " in head.lower():
                    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                if (length is not None and len(rest) >= length) or kept.endswith(b"\r\n0\r\n\r\n"):
                    sent.append(bytes(kept))
                    kept.clear()
                    length = None
        finally:
            task.cancel()
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def _body(raw: bytes) -> bytes:
    """The body of a raw answer, without the marks of its chunks."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body
