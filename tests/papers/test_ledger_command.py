"""The command `ledger`: formats, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clairvoyant_lab.cli.app import app

RUN = ["ledger", "--topic", "claims", "--fast", "--seed", "3"]


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout


def test_text_ends_with_the_counts() -> None:
    code, text = call(*RUN)
    assert code == 0
    assert "clairvoyant.section3_4.tau_s" in text
    assert " not run here" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("form", "start"), [("md", "# Published"), ("html", "<!doctype html>"), ("csv", "key,variant,paper")]
)
def test_formats(form: str, start: str, tmp_path: Path) -> None:
    file = tmp_path / f"ledger.{form}"
    code, _ = call(*RUN, "--format", form, "--output", str(file))
    assert code == 0
    assert file.read_text("utf-8").startswith(start)
    assert "ledger --topic claims --fast --seed 3" in file.read_text("utf-8") or form == "csv"


def test_json_is_strict() -> None:
    code, text = call(*RUN, "--json")
    assert code == 0
    start = text.index("{")
    data = json.loads(text[start:], parse_constant=lambda name: pytest.fail(name))
    assert data["summary"]["rows"] == len(data["rows"])


def test_keys_are_listed_without_running() -> None:
    code, text = call("ledger", "--keys", "isjl.table2", "--json")
    assert code == 0
    assert len(json.loads(text)) == 21


@pytest.mark.parametrize("words", [["--topic", "nothing"], ["--keys", "isjl.table9"], ["--format", "pdf"]])
def test_bad_use_is_refused(words: list[str]) -> None:
    code, _ = call("ledger", *words)
    assert code == 2
