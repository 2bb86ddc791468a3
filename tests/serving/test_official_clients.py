"""The official OpenAI and Ollama clients, unchanged, with the proxy as their server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clairvoyant_lab.serving import ThreadedStack

openai = pytest.importorskip("openai")
ollama = pytest.importorskip("ollama")


@pytest.fixture(scope="module")
def base(request: pytest.FixtureRequest) -> Iterator[ThreadedStack]:
    from clairvoyant_lab.predictor import LengthPredictor

    with ThreadedStack(emulator={"speedup": 100.0}, predictor=LengthPredictor.load("sharegpt")) as made:
        yield made


def test_openai_chat_and_stream(base: ThreadedStack) -> None:
    with openai.OpenAI(base_url=f"{base.url}/v1", api_key="sk-x", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "What is two plus two?"}]
        whole = client.chat.completions.create(model="m", messages=messages, max_tokens=7)
        assert whole.usage.completion_tokens == 7
        raw = client.chat.completions.with_raw_response.create(model="m", messages=messages, max_tokens=7)
        assert 0.0 <= float(raw.headers["x-clairvoyant-p-long"]) <= 1.0
        stream = client.chat.completions.create(
            model="m",
            messages=messages,
            max_completion_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices).split() == [
            *(["a", "serial", "server", "answers", "one"]),
        ]
        assert chunks[-1].usage.completion_tokens == 5
        text = client.completions.create(model="m", prompt="Say x", max_tokens=3)
        assert text.usage.completion_tokens == 3
        assert (
            client.embeddings.create(model="m", input="x", encoding_format="float").data[0].embedding[1]
            == 0.6
        )
        assert [model.id for model in client.models.list()] == ["emulated"]


def test_openai_errors(base: ThreadedStack) -> None:
    with openai.OpenAI(base_url=f"{base.url}/v1", api_key="sk-x", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "x"}]
        with pytest.raises(openai.InternalServerError, match="emulated failure"):
            client.chat.completions.create(
                model="m", messages=messages, extra_body={"emulate": {"fault": "status"}}
            )
        with pytest.raises(openai.InternalServerError) as broken:
            client.chat.completions.create(
                model="m", messages=messages, extra_body={"emulate": {"fault": "refuse"}}
            )
        assert broken.value.status_code == 502
        assert broken.value.code == "backend_closed"


async def test_openai_asynchronous_client_leaves_mid_stream(base: ThreadedStack) -> None:
    async with openai.AsyncOpenAI(base_url=f"{base.url}/v1", api_key="sk-x", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            extra_body={"emulate": {"tokens": 50_000}},
        )
        async for _ in stream:
            break
        await stream.close()
        again = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], max_tokens=1
        )
        assert again.usage.completion_tokens == 1


def test_ollama_chat_generate_embed_and_the_rest(base: ThreadedStack) -> None:
    client = ollama.Client(host=base.url)
    messages = [{"role": "user", "content": "Why is the sky blue?"}]
    assert client.chat("m", messages, options={"num_predict": 4}).eval_count == 4
    parts = list(client.chat("m", messages, options={"num_predict": 4}, stream=True))
    assert "".join(p.message.content for p in parts).split() == ["a", "serial", "server", "answers"]
    assert parts[-1].done
    assert client.generate("m", "Say x", options={"num_predict": 2}).eval_count == 2
    assert client.generate("m", "", keep_alive=0).done_reason == "load"
    assert client.embed("m", "x").embeddings[0][2] == 0.8
    assert client.list().models[0].model == "emulated"
    broken = ollama.Client(host=base.url, headers={"x-emulate": '{"fault": "refuse"}'})
    with pytest.raises(ollama.ResponseError) as error:
        broken.chat("m", messages)
    assert error.value.status_code == 502
    assert "closed the connection" in error.value.error
