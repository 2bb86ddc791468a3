"""Reading requests and answers: what counts as the prompt, the cap, a token, wherever pieces are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clairvoyant_lab.serving.dialects import Tally, dialect_of, error_body
from clairvoyant_lab.serving.prompts_in import path_of, read_ask, stated_class

CHAT = "/v1/chat/completions"


def ask(path: str, **fields: Any) -> Any:
    return read_ask(path, json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("messages", "prompt"),
    [
        ([{"role": "user", "content": "one"}], "one"),
        ([{"role": "system", "content": "be brief"}, {"role": "user", "content": "two"}], "two"),
        (
            [
                {"role": "user", "content": "first"},
                {"role": "assistant", "content": "answer"},
                {"role": "user", "content": "last"},
            ],
            "last",
        ),
        ([{"role": "user", "content": "asked"}, {"role": "tool", "content": "result"}], "asked"),
        ([{"role": "system", "content": "only system"}], "only system"),
        ([{"role": "tool", "content": "only tool"}], "only tool"),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "look"},
                        {"type": "image_url", "image_url": {"url": "data:..."}},
                        {"type": "text", "text": "here"},
                    ],
                }
            ],
            "look\nhere",
        ),
        ([{"role": "user", "content": None}], ""),
        (["nonsense", 3], ""),
        ([], ""),
    ],
)
def test_the_prompt_of_a_chat_is_the_last_user_message(messages: Any, prompt: str) -> None:
    got = ask(CHAT, messages=messages)
    assert (got.kind, got.prompt) == ("generation", prompt)


def test_lists_of_prompts_and_n_count_as_so_many_answers() -> None:
    got = ask("/v1/completions", prompt=["a", "longer"], n=3)
    assert (got.prompt, got.answers) == ("longer", 6)
    assert ask("/v1/completions", prompt=[[1, 2, 3], [4]]).answers == 2
    assert ask("/v1/completions", prompt="x").answers == 1


@pytest.mark.parametrize(
    ("path", "fields", "cap"),
    [
        (CHAT, {"max_tokens": 12}, 12),
        (CHAT, {"max_completion_tokens": 7, "max_tokens": 12}, 7),
        (CHAT, {"max_tokens": 0}, 0),
        (CHAT, {"max_tokens": None}, None),
        (CHAT, {"max_tokens": -1}, None),
        (CHAT, {"max_tokens": True}, None),
        (CHAT, {"max_tokens": "12"}, None),
        (CHAT, {"n_predict": 9}, 9),
        ("/api/chat", {"options": {"num_predict": 30}}, 30),
        ("/api/chat", {"options": {"num_predict": -1}}, None),
        ("/api/chat", {"options": {"num_predict": -2}}, None),
        ("/api/chat", {"options": []}, None),
        ("/api/chat", {"max_tokens": 30}, None),
    ],
)
def test_caps(path: str, fields: dict[str, Any], cap: int | None) -> None:
    assert ask(path, messages=[{"role": "user", "content": "x"}], **fields).token_cap == cap


@pytest.mark.parametrize(
    ("path", "fields", "kind"),
    [
        ("/api/generate", {"model": "m"}, "bypass"),
        ("/api/generate", {"model": "m", "prompt": ""}, "bypass"),
        ("/api/generate", {"model": "m", "prompt": "", "keep_alive": 0}, "bypass"),
        ("/api/chat", {"model": "m", "messages": [], "keep_alive": 0}, "bypass"),
        ("/api/generate", {"model": "m", "prompt": "x", "keep_alive": 0}, "generation"),
        ("/api/generate", {"model": "m", "prompt": "", "suffix": "end"}, "generation"),
        ("/v1/completions", {"prompt": ""}, "generation"),
        ("/v1/embeddings", {"input": "x"}, "embedding"),
        ("/api/embed", {"input": "x"}, "embedding"),
        ("/api/embeddings", {"prompt": "x"}, "embedding"),
    ],
)
def test_kinds(path: str, fields: dict[str, Any], kind: str) -> None:
    assert ask(path, **fields).kind == kind


def test_ollama_streams_unless_told_otherwise_openai_only_when_asked() -> None:
    message = [{"role": "user", "content": "x"}]
    assert ask("/api/chat", messages=message).stream
    assert not ask("/api/chat", messages=message, stream=False).stream
    assert not ask(CHAT, messages=message).stream
    assert ask(CHAT, messages=message, stream=True).stream


@settings(max_examples=300, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8", "ignore")))
)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/api/chat", "/api/generate", "/api/embed"])
def test_no_body_breaks_the_reader(path: str, body: bytes) -> None:
    read_ask(path, body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 3000) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "messages",
                    "role",
                    "content",
                    "prompt",
                    "text",
                    "options",
                    "num_predict",
                    "max_tokens",
                    "stream",
                    "n",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(value=JSON)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/api/chat", "/api/generate"])
def test_no_json_breaks_the_reader(path: str, value: Any) -> None:
    got = read_ask(path, json.dumps(value).encode())
    assert got.token_cap is None or got.token_cap >= 0


def test_a_bomb_is_opaque_not_unpacked() -> None:
    import zlib

    packer = zlib.compressobj(9, wbits=31)
    packed = b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(80)) + packer.flush()
    assert read_ask(CHAT, packed, "gzip").kind == "opaque"


def test_paths_words_and_errors() -> None:
    assert path_of("/v1/completions/?x=1") == "/v1/completions"
    assert path_of("/") == "/"
    assert stated_class(" Background ") == "background"
    assert stated_class("huge") is None
    assert (dialect_of("/api/tags"), dialect_of("/apix"), dialect_of("/v1/models")) == (
        "ollama",
        "openai",
        "openai",
    )
    assert json.loads(error_body("ollama", 429, "full", "queue_full")) == {"error": "full"}
    assert json.loads(error_body("openai", 429, "full", "queue_full"))["error"]["type"] == "rate_limit_error"


# -- answers ---------------------------------------------------------------------------------------


def openai_stream(words: list[str], newline: str = "\n", space: str = " ", usage: int | None = None) -> bytes:
    lines = [": a comment"]
    for word in words:
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        lines += [f"data:{space}{json.dumps({'choices': [choice]}, ensure_ascii=False)}", ""]
    lines += ["data:" + space + json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]}), ""]
    if usage is not None:
        lines += ["data:" + space + json.dumps({"choices": [], "usage": {"completion_tokens": usage}}), ""]
    lines += ["data:" + space + "[DONE]", "", ""]
    return newline.join(lines).encode()


def fed(tally: Tally, text: bytes, cuts: list[int]) -> Tally:
    at = 0
    for cut in sorted(min(c, len(text)) for c in cuts):
        tally.feed(text[at:cut])
        at = cut
    tally.feed(text[at:])
    return tally


@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["a", "é", "漢字", "\u2028", '"', "\\n", "{", "data: "]), min_size=1, max_size=20
    ),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    space=st.sampled_from(["", " "]),
    cuts=st.lists(st.integers(0, 3000), max_size=12),
    usage=st.one_of(st.none(), st.integers(0, 99)),
)
def test_an_event_stream_is_counted_wherever_it_is_cut(
    words: list[str], newline: str, space: str, cuts: list[int], usage: int | None
) -> None:
    text = openai_stream(words, newline, space, usage)
    tally = fed(Tally("openai", stream=True), text, cuts)
    assert tally.response_tokens() == (len(words) if usage is None else usage)
    assert tally.bytes_seen == len(text)


def test_ollamas_last_line_is_the_final_word_without_a_final_newline() -> None:
    lines = [json.dumps({"response": "é", "done": False}) for _ in range(5)]
    end = json.dumps({"done": True, "eval_count": 7, "prompt_eval_count": 3})
    text = "\n".join([*lines, end]).encode()
    for cut in range(0, len(text), 7):
        tally = fed(Tally("ollama", stream=True), text, [cut])
        assert (tally.response_tokens(), tally.prompt_tokens()) == (7, 3)
    assert fed(Tally("ollama", stream=True), "\n".join(lines).encode(), []).response_tokens() == 5


def test_whole_answers() -> None:
    tally = fed(Tally("openai", stream=False), b'{"usage":{"completion_tokens":4,"prompt_tokens":2}}', [9])
    assert (tally.response_tokens(), tally.prompt_tokens()) == (4, 2)
    assert fed(Tally("ollama", stream=False), b'{"eval_count":0}', []).response_tokens() == 0
    assert fed(Tally("openai", stream=False), b"no json", []).response_tokens() is None
    for odd in (b"-5", b"true", b"1" + b"0" * 30, b"1e3"):  # no answer has so many tokens
        tally = fed(
            Tally("openai", stream=False),
            b'{"usage":{"completion_tokens":%b,"prompt_tokens":%b}}' % (odd, odd),
            [],
        )
        assert tally.response_tokens() is None
        assert tally.prompt_tokens() is None
    assert fed(Tally("openai", stream=False, content_encoding="gzip"), b"{}", []).response_tokens() is None


def test_memory_stays_bounded_and_no_token_is_lost_in_a_long_stream() -> None:
    text = openai_stream(["word"] * 20_000)
    tally = Tally("openai", stream=True)
    for at in range(0, len(text), 4099):
        tally.feed(text[at : at + 4099])
        assert len(tally._tail) <= 2 * 64 * 1024
    assert tally.response_tokens() == 20_000


def test_a_line_without_end_does_not_grow() -> None:
    tally = Tally("openai", stream=True)
    for _ in range(100):
        tally.feed(b"x" * 100_000)
    assert len(tally._tail) <= 3 * 64 * 1024
    assert tally.response_tokens() is None
