"""Every notebook keeps to the house's form: parameters, validation, panel, ledger; no output, no function."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from clairvoyant_lab.reports.parameters import declared_parameters

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


def cells_of(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_form(path: Path) -> None:
    cells = cells_of(path)
    title, parameters, check = cells[0], cells[1], cells[2]
    assert title["cell_type"] == "markdown"
    assert source(title).startswith("# ")
    for word in ("**Question.**", "**Data.**", "**Time.**", "**Paper.**"):
        assert word in source(title)
    assert parameters["metadata"]["tags"] == ["parameters"]
    declared = declared_parameters(source(parameters))
    assert declared["fast"].default is False
    assert isinstance(declared["seed"].default, int)
    assert "validate_parameters(" in source(check)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    text = "\n".join(source(cell) for cell in code)
    assert "ledger_table(" in text
    assert "main=" in text, "one figure stands for the notebook in the report's index"
    assert ".style." not in text, "a styled table differs from run to run; show_table(frame) doesn't"
    identifiers = [cell["id"] for cell in cells]
    assert len(set(identifiers)) == len(identifiers)
    for cell in code:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        for node in ast.walk(ast.parse(source(cell))):
            assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef), (
                f"{cell['id']}: move it into the package"
            )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_has_its_panel(path: Path) -> None:
    text = "\n".join(source(cell) for cell in cells_of(path) if cell["cell_type"] == "code")
    assert "clairvoyant_lab.panels import" in text


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
