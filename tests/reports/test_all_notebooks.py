"""Every notebook through papermill, at its defaults and fast: it runs and leaves lean, strict files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clairvoyant_lab.reports import run_notebooks
from clairvoyant_lab.reports.execution import MAX_FILE_BYTES

pytestmark = [pytest.mark.notebooks, pytest.mark.timeout(1_800)]


def not_json(word: str) -> None:
    pytest.fail(f"{word} is no JSON")


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "defaults"])
def test_the_whole_report(fast: bool, tmp_path: Path) -> None:
    outcomes = run_notebooks(out_dir=tmp_path, fast=fast, progress=False)
    assert {outcome.name: outcome.error for outcome in outcomes if not outcome.ok} == {}
    for outcome in outcomes:
        print(f"{outcome.name}: {outcome.seconds:.1f} s, {len(outcome.ledger)} ledger lines")
        assert outcome.figure, f"{outcome.name} shows no figure"
        assert outcome.ledger, f"{outcome.name} has no ledger"
        assert outcome.notes == ()
        text = outcome.notebook.read_text(encoding="utf-8")
        notebook = json.loads(text, parse_constant=not_json)
        assert "widgets" not in notebook["metadata"]
        shown = [
            "".join(output["data"].get("text/html", ""))
            for cell in notebook["cells"]
            for output in cell.get("outputs", [])
            if "data" in output
        ]
        for html in shown:
            assert 'class="dataframe"' not in html, f"{outcome.name} shows a bare frame; use show_table"
            assert ">NaN<" not in html, f"{outcome.name} shows NaN"
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "plotly.min.js":
            assert file.stat().st_size < MAX_FILE_BYTES, file.name


def test_the_same_seed_gives_the_same_quickstart(tmp_path: Path) -> None:
    outputs = []
    for turn in ("first", "second"):
        (outcome,) = run_notebooks(["00"], out_dir=tmp_path / turn, fast=True, progress=False)
        assert outcome.ok, outcome.error
        cells = json.loads(outcome.notebook.read_text(encoding="utf-8"))["cells"]
        outputs.append([cell.get("outputs") for cell in cells])
    assert outputs[0] == outputs[1]
