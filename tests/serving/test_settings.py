"""Settings: where they come from, and what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.serving.config import ProxySettings, load_settings


def test_settings_come_from_arguments_then_environment_then_file(tmp_path: Any) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(
        '[proxy]\nbackend = "http://file"\nslots = 2\nstarvation_timeout_s = 5.0\npolicy = "sjf"\n'
    )
    env = {"CLAIRVOYANT_SLOTS": "3", "CLAIRVOYANT_STARVATION_TIMEOUT_S": "none", "CLAIRVOYANT_SHADOW": "true"}
    got = load_settings({"slots": 4}, file=file, environ=env)
    assert (got.backend, got.slots, got.starvation_timeout_s, got.policy) == ("http://file", 4, None, "sjf")
    assert got.shadow is True
    assert load_settings({}, file=file, environ={}).starvation_timeout_s == 5.0


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"backend": "ftp://x"}, "backend"),
        ({"backend": "http://x", "port": 70000}, "port"),
        ({"backend": "http://x", "slots": 0}, "slots"),
        ({"backend": "http://x", "starvation_timeout_s": float("inf")}, "starvation_timeout_s"),
        ({"backend": "http://x", "on_client_gone": "shrug"}, "on_client_gone"),
        ({"backend": "http://x", "silence_timeout_s": 0}, "silence_timeout_s"),
        ({"backend": "http://x", "journal_ngrams": True}, "journal_ngrams"),
        ({"backend": "http://x", "slotz": 1}, "slotz"),
        ({"backend": 5}, "backend"),
        ({"backend": "http://x", "host": "  "}, "host"),
        ({"backend": "http://x", "model": ""}, "model"),
        ({"backend": "http://x", "token": 7}, "token"),
        ({"backend": "http://x", "journal": 7}, "journal"),
        ({"backend": "http://x", "buffer": "no"}, "buffer"),
        ({"backend": "http://x", "shadow": 1}, "shadow"),
        ({}, "backend"),
    ],
)
def test_bad_settings_name_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        load_settings(fields, environ={})


@pytest.mark.parametrize("text", ["", "slots = 2", "proxy = 3", "[other]\nslots = 2"])
def test_a_file_whose_settings_would_be_passed_over_is_refused(tmp_path: Any, text: str) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(text)
    with pytest.raises(DataError, match=r"\[proxy\]"):
        load_settings({"backend": "http://x"}, file=file, environ={})


def test_a_journal_may_be_a_path(tmp_path: Path) -> None:
    assert ProxySettings(backend="http://x", journal=tmp_path / "j.sqlite").journal == tmp_path / "j.sqlite"
