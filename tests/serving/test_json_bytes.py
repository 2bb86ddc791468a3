"""JSON objects from bytes: what the standard library reads, whatever reads it first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clairvoyant_lab.serving.json_bytes import json_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def by_the_standard_library(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.booleans())
@settings(max_examples=300, deadline=None)
def test_it_reads_what_the_standard_library_reads(value: dict[str, Any], escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    assert repr(json_object(text)) == repr(by_the_standard_library(text))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[1]",
        b"null",
        b"{",
        b"\xff",
        b'{"a": NaN, "b": -Infinity}',
        b'{"a": "\\ud800"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": 1, "a": 2}',
        b'{"a": 1} x',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' + b"[" * 1500 + b"]" * 1500 + b"}",
        b'{"a": 1e999, "b": -0, "c": 0.1}',
    ],
)
def test_odd_texts_are_read_or_refused_alike(text: bytes) -> None:
    assert repr(json_object(text)) == repr(by_the_standard_library(text))
