"""The control API, the clients' view of it, events, metrics, model swaps, tokens; what must never leak."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import aiohttp
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import clairvoyant_lab as cl
from clairvoyant_lab.errors import (
    BackendError,
    ParameterError,
    QueueFullError,
    UpstreamStatusError,
    UpstreamTimeoutError,
)
from clairvoyant_lab.serving import AsyncProxyClient, ProxyClient, ProxySettings, ThreadedStack

CANARY = "zanzibar-canary-7f3a"


@pytest.fixture
def threaded(word_predictor: Any) -> Any:
    with ThreadedStack(emulator={"speedup": 100.0}, predictor=word_predictor()) as made:
        yield made


def test_the_client_asks_streams_and_reads_the_state(threaded: ThreadedStack) -> None:
    with ProxyClient(threaded.url) as client:
        assert client.healthy()
        reply = client.chat("p=0.9 tell me", max_tokens=50, emulate={"tokens": 90})
        assert (reply.response_tokens, reply.finish_reason, reply.promoted, reply.position) == (
            50,
            "stop",
            False,
            1,
        )
        assert reply.p_long == 0.0, "a cap of 50 cannot be long"
        assert reply.queue_wait_s is not None
        chunks = list(client.stream_chat([{"role": "user", "content": "p=0.9 x"}], emulate={"tokens": 6}))
        assert len([c for c in chunks if c.text]) == 6
        assert chunks[-1].finish_reason == "stop"
        state = client.state()
        assert (state.counts["done"], state.waiting, state.running) == (2, 0, 0)
        assert state.to_frame().set_index("length_class").loc["Short", "n"] == 2
        assert "Proxy" in state._repr_html_()


def test_leaving_a_stream_frees_the_slot(threaded: ThreadedStack) -> None:
    with ProxyClient(threaded.url) as client:
        stream = client.stream_chat("x", emulate={"tokens": 50_000})
        next(stream)
        stream.close()
        assert client.chat("y", emulate={"tokens": 1}).text
        assert client.state().counts["gone_running"] == 1


def test_policies_are_set_one_field_at_a_time(threaded: ThreadedStack) -> None:
    with ProxyClient(threaded.url) as client:
        state = client.set_policy("sjf", 20.0, promotion="shortest")
        assert (state.name, state.starvation_timeout_s, state.promotion) == ("sjf", 20.0, "shortest")
        assert client.set_policy(slots=2).starvation_timeout_s == 20.0
        assert client.set_policy(starvation_timeout_s=None).starvation_timeout_s is None
        assert client.set_policy("aging", rate=0.5).rate == 0.5
        assert client.set_policy("fcfs").slots == 2
        assert client.set_policy(tau_mode="auto").tau_mode == "auto"
        assert client.set_policy(starvation_timeout_s=4).tau_mode == "fixed"


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "sj"},
        {"name": "srpt"},
        {"starvation_timeout_s": -1},
        {"promotion": "youngest"},
        {"slots": 0},
        {"slots": True},
        {"tau_mode": "sometimes"},
        {"shadow": "yes"},
        {"rate": 1.0},
    ],
)
def test_a_bad_policy_is_refused_and_changes_nothing(threaded: ThreadedStack, fields: dict[str, Any]) -> None:
    with ProxyClient(threaded.url) as client:
        before = client.policy()
        with pytest.raises(ParameterError) as refused:
            client.set_policy(**fields)
        assert str(next(iter(fields.values()))) in str(refused.value)
        assert client.policy() == before


async def test_the_asynchronous_client_does_the_same(stack: Any) -> None:
    async with AsyncProxyClient(stack.proxy.url) as client:
        assert await client.healthy()
        assert (await client.chat("x", emulate={"tokens": 3})).response_tokens == 3
        assert len([c async for c in client.stream_chat("x", emulate={"tokens": 3}) if c.text]) == 3
        assert (await client.set_policy("sjf", 9)).starvation_timeout_s == 9
        assert (await client.state()).counts["done"] == 2
        assert (await client.queue()).summary()["waiting"] == 0
        assert "clairvoyant_waiting" in await client.metrics()
        assert (await client.swap_model("other"))["name"] == "other"
        assert (await client.roll_back_model())["name"] == "word"
        assert (await client.shadow("sjf"))["n"] == 2
        with pytest.raises(UpstreamStatusError):
            await client.roll_back_model()


async def test_events_tell_a_requests_life(stack: Any) -> None:
    async with AsyncProxyClient(stack.proxy.url) as client:
        heard = []

        async def listen() -> None:
            async for event in client.events(limit=6):
                heard.append(event)

        task = asyncio.create_task(listen())
        await stack.until(lambda: len(stack.proxy.events) == 2)
        await client.chat("p=0.7 x", emulate={"tokens": 4})
        await client.set_policy("sjf")
        await asyncio.wait_for(task, 5.0)
    names = [event.name for event in heard]
    assert names == ["hello", "queued", "dispatched", "first_token", "finished", "policy"]
    assert heard[0].data["policy"]["name"] == "sjf_tokens"
    assert len({event.data["request_id"] for event in heard[1:5]}) == 1
    assert (heard[1].data["p_long"], heard[4].data["response_tokens"]) == (0.7, 4)
    await stack.until(lambda: len(stack.proxy.events) == 1)


async def test_the_queue_says_who_goes_before_and_why(stack: Any) -> None:
    first = asyncio.create_task(stack.ask("running", tokens=20_000))
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    later = []
    for k, (p, path) in enumerate([(0.9, "/api/chat"), (0.1, "/api/chat"), (0.5, "/v1/embeddings")]):
        later.append(asyncio.create_task(stack.ask(f"w{k}", path=path, p=p, tokens=1)))
        await stack.until(lambda k=k: len(stack.proxy.line.waiting) == k + 1)
    async with AsyncProxyClient(stack.proxy.url) as client:
        queue = await client.queue()
        embedding, short, long = queue.waiting
        assert [w["position"] for w in queue.waiting] == [1, 2, 3]
        assert [w["position_at_arrival"] for w in (embedding, short, long)] == [1, 1, 1]
        assert embedding["origin"] == "embedding"
        assert long["ahead"][0]["why"] == "an embedding call, the shortest job"
        assert "shorter: 179 tokens predicted against 895" in long["ahead"][1]["why"]
        assert 0 < embedding["estimated_wait_s"] <= short["estimated_wait_s"] < long["estimated_wait_s"]
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.gather(*later)
    assert stack.served() == ["running", "w2", "w1", "w0"]


async def test_who_was_overtaken_learns_by_whom(make_stack: Any) -> None:
    stack = await make_stack(starvation_timeout_s=3600.0)
    tasks = [asyncio.create_task(stack.ask("a", tokens=300))]
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    tasks.append(asyncio.create_task(stack.ask("long", p=0.9, tokens=1)))
    await stack.until(lambda: len(stack.proxy.line.waiting) == 1)
    tasks.append(asyncio.create_task(stack.ask("short", p=0.1, tokens=300)))
    await stack.until(lambda: stack.emulator.served[-1].marker == "short" and stack.emulator.busy == 1)
    async with AsyncProxyClient(stack.proxy.url) as client:
        (waiting,) = (await client.queue()).waiting
    assert [o["why"] for o in waiting["overtaken_by"]] == ["shorter: 179 tokens predicted against 895"]
    assert "1 that came later went before" in waiting["why"]
    await asyncio.gather(*tasks)


async def test_stated_classes_decide_and_are_taken_off(stack: Any) -> None:
    tasks = [asyncio.create_task(stack.ask("run", tokens=300))]
    await stack.until(lambda: len(stack.proxy.line.running) == 1)

    async def stated(word: str) -> None:
        fields = {"prompt": "p=0.5 x", "stream": False, "emulate": {"tokens": 1, "marker": word}}
        async with stack.http.post(
            stack.proxy.url + "/api/generate", json=fields, headers={"X-Clairvoyant-Class": word}
        ) as answer:
            assert answer.status == 200

    for k, word in enumerate(("background", "long", "medium", "short", "nonsense")):
        tasks.append(asyncio.create_task(stated(word)))
        await stack.until(lambda k=k: len(stack.proxy.line.waiting) == k + 1)
    await asyncio.gather(*tasks)
    # nonsense states nothing: the model's 0.5 * 89 + 0.5 * 985 = 537 tokens lie between medium and long
    assert stack.served() == ["run", "short", "medium", "nonsense", "long", "background"]
    assert not any("x-clairvoyant-class" in entry.headers for entry in stack.emulator.served)


async def test_tau_promotes_live(make_stack: Any) -> None:
    stack = await make_stack(starvation_timeout_s=0.05)
    tasks = [asyncio.create_task(stack.ask("run", tokens=250))]
    await stack.until(lambda: len(stack.proxy.line.running) == 1)
    tasks.append(asyncio.create_task(stack.ask("long", p=0.9, tokens=1)))
    await stack.until(lambda: len(stack.proxy.line.waiting) == 1)
    await asyncio.sleep(0.06)
    tasks.append(asyncio.create_task(stack.ask("short", p=0.1, tokens=1)))
    answers = await asyncio.gather(*tasks)
    assert stack.served() == ["run", "long", "short"]
    assert answers[1][1]["x-clairvoyant-promoted"] == "true"


async def test_metrics_parse_and_add_up(stack: Any) -> None:
    await stack.ask(tokens=3)
    await stack.ask(fault="status")
    async with AsyncProxyClient(stack.proxy.url) as client:
        text = await client.metrics()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ended = {s.labels["outcome"]: s.value for s in families["clairvoyant_requests_ended"].samples}
    assert (ended["done"], ended["backend_status"], sum(ended.values())) == (1, 1, 2)
    assert families["clairvoyant_requests_received"].samples[0].value == 2
    waits = {s.labels.get("le"): s.value for s in families["clairvoyant_wait_seconds"].samples}
    assert waits["+Inf"] == 1, "failures never enter latencies"


async def test_a_model_is_swapped_under_load_without_dropping_a_request(stack: Any) -> None:
    tasks = [asyncio.create_task(stack.ask(f"m{k}", tokens=3)) for k in range(40)]
    async with AsyncProxyClient(stack.proxy.url) as client:
        for k in range(5):
            assert (await client.swap_model(f"model-{k}"))["can_roll_back"]
        for k in (3, 2, 1, 0):
            assert (await client.roll_back_model())["source"] == f"model-{k}"
    assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}
    stack.check_books()


async def test_a_model_that_cannot_be_loaded_leaves_the_one_in_use(make_stack: Any) -> None:
    stack = await make_stack()
    from clairvoyant_lab.serving.proxy import load_model

    stack.proxy._load_predictor = load_model
    async with AsyncProxyClient(stack.proxy.url) as client:
        with pytest.raises(ParameterError, match="no committed model"):
            await client.swap_model("there-is-none")
        with pytest.raises(ParameterError, match="has no fast form"):
            await client.swap_model("sharegpt:fast")
        assert (await client.model())["name"] == "word"


async def test_a_model_that_gives_no_forecast_is_not_swapped_in(make_stack: Any) -> None:
    stack = await make_stack()
    dumb = type(stack.proxy.forecaster.predictor)("dumb")
    dumb.broken = True
    stack.proxy._load_predictor = lambda name: dumb
    async with AsyncProxyClient(stack.proxy.url) as client:
        with pytest.raises(ParameterError, match="gives no forecast"):
            await client.swap_model("dumb")
        state = await client.model()
    assert (state["name"], state["can_roll_back"], state["failures"]) == ("word", False, 0)


async def test_the_fast_form_of_a_model_is_asked_for_by_its_name(make_stack: Any) -> None:
    stack = await make_stack()
    from clairvoyant_lab.serving.proxy import load_model

    stack.proxy._load_predictor = load_model
    async with AsyncProxyClient(stack.proxy.url) as client:
        await client.swap_model("sharegpt-rich:fast")
        assert (await client.model())["source"] == "sharegpt-rich:fast"
        reply = await client.chat("Write a long essay", emulate={"tokens": 2})
    fast = cl.LengthPredictor.load(form="fast").predict("Write a long essay").p_long
    assert reply.p_long == pytest.approx(fast, abs=1e-6)


async def test_the_log_says_what_was_changed(stack: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "clairvoyant_lab.proxy")
    async with AsyncProxyClient(stack.proxy.url) as client:
        await client.set_policy(name="sjf_tokens", starvation_timeout_s=30.0)
        await client.set_policy(starvation_timeout_s=30.0)
        await client.set_policy(shadow=True)
        await client.swap_model("model-1")
        await client.roll_back_model()
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [
        "policy sjf_tokens, τ = 30 s; τ is fixed, slots 1",
        "policy fcfs; shadow of sjf_tokens, τ = 30 s; τ is fixed, slots 1",
    ], "what changes nothing is not said"
    assert "from model-1" in said[2]
    assert [text.split()[0] for text in said[2:]] == ["model", "model"]


# -- who may ------------------------------------------------------------------------------------


async def test_a_token_guards_all_control_routes_but_healthz_and_nothing_else(make_stack: Any) -> None:
    stack = await make_stack(token="secret")
    for route in ("state", "queue", "policy", "model", "shadow", "events", "metrics"):
        async with stack.http.get(f"{stack.proxy.url}/clairvoyant/{route}") as answer:
            assert answer.status == 401, route
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    async with stack.http.get(f"{stack.proxy.url}/clairvoyant/healthz") as answer:
        assert answer.status == 200
    assert (await stack.ask(tokens=1))[0] == 200
    async with AsyncProxyClient(stack.proxy.url, token="secret") as client:
        assert (await client.state()).counts["done"] == 1
        assert "Bearer secret" not in json.dumps((await client.state()).raw)
    async with AsyncProxyClient(stack.proxy.url, token="wrong") as client:
        with pytest.raises(UpstreamStatusError, match="401"):
            await client.state()


def test_an_open_address_needs_a_token() -> None:
    with pytest.raises(ParameterError, match="need a token"):
        ProxySettings(backend="http://x", host="0.0.0.0")
    assert ProxySettings(backend="http://x", host="0.0.0.0", token="t").token == "t"


async def test_a_foreign_name_for_this_machine_and_a_form_from_a_web_page_are_refused(stack: Any) -> None:
    url = f"{stack.proxy.url}/clairvoyant/policy"
    async with stack.http.get(url, headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403
    async with stack.http.get(url, headers={"Host": "localhost:1"}) as answer:
        assert answer.status == 200
    async with stack.http.patch(url, data=b'{"slots": 3}', headers={"Content-Type": "text/plain"}) as answer:
        assert answer.status == 415
    async with stack.http.delete(url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, PATCH")
    async with stack.http.get(f"{stack.proxy.url}/clairvoyant/nothing") as answer:
        assert answer.status == 404
    assert not stack.emulator.served


# -- what must not leak ---------------------------------------------------------------------------


async def test_no_prompt_text_in_logs_errors_metrics_events_or_journal(
    make_stack: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    journal = tmp_path / "requests.sqlite"
    stack = await make_stack(
        journal=str(journal),
        journal_ngrams=True,
        first_byte_timeout_s=0.2,
        silence_timeout_s=0.2,
        shadow=True,
    )
    seen: list[bytes] = []
    listener = stack.proxy.events.subscribe()
    for path in ("/v1/chat/completions", "/api/chat", "/api/generate"):
        for fault in (None, "refuse", "hang", "garbage", "die_mid"):
            if fault == "die_mid":
                with pytest.raises(aiohttp.ClientError):
                    await stack.ask(path=path, tokens=40, text=CANARY, fault=fault, stream=True)
                continue
            status, headers, text = await stack.ask(path=path, text=CANARY, fault=fault, stream=True)
            seen.append(text + repr(headers).encode() + str(status).encode())
    stack.proxy.forecaster.predictor.broken = True
    await stack.ask(text=CANARY, tokens=1)
    # a wrong length: the rest of the prompt arrives as if it were a request
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.proxy.port)
    writer.write(
        b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + CANARY.encode() + b"\r\n\r\n"
    )
    await asyncio.wait_for(reader.read(100), 3.0)
    writer.close()
    async with AsyncProxyClient(stack.proxy.url) as client:
        seen.append(json.dumps((await client.state()).raw).encode())
        seen.append((await client.metrics()).encode())
        seen.append(json.dumps(dict(await client.shadow())).encode())
    while not listener.empty():
        seen.append(listener.get_nowait() or b"")
    await stack.proxy.stop(grace_s=0.0)
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert files
    assert sum(map(len, files)) > 5000
    for text in [*seen, *files, caplog.text.encode()]:
        assert CANARY.encode() not in text


# -- errors of the clients ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (429, {"Retry-After": "7"}, QueueFullError),
        (504, {}, UpstreamTimeoutError),
        (500, {}, UpstreamStatusError),
    ],
)
def test_statuses_become_errors(status: int, headers: dict[str, str], error: type[BackendError]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers=headers, json={"error": {"message": "so it is"}})

    client = ProxyClient("http://x", transport=httpx.MockTransport(answer))
    with pytest.raises(error, match="so it is") as caught:
        client.chat("x")
    if isinstance(caught.value, QueueFullError):
        assert caught.value.retry_after_s == 7.0


def test_a_proxy_that_is_not_there(unused_tcp_port: int) -> None:
    client = ProxyClient(f"http://127.0.0.1:{unused_tcp_port}")
    assert not client.healthy()
    with pytest.raises(BackendError, match="cannot be reached"):
        client.state()
    with pytest.raises(ParameterError, match="base_url"):
        ProxyClient("127.0.0.1:8080")
    with pytest.raises(ParameterError, match="length_class"):
        client.chat("x", length_class="huge")


def test_a_client_does_not_wait_for_ever(threaded: ThreadedStack) -> None:
    with ProxyClient(threaded.url, chat_timeout_s=0.2) as client, pytest.raises(UpstreamTimeoutError):
        client.chat("x", emulate={"tokens": 50_000})
