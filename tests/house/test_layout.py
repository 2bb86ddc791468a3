"""The house keeps its shape: imports go downward, rooms stay small, nothing of a machine is committed."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

# From the ground up; a room may use its own and lower ones only (DESIGN: one direction of imports).
FLOORS = [
    {"errors", "lazy", "lengths", "paths", "results"},
    {"journal"},
    {"prompts"},
    {"corpora"},
    {"predictor"},
    {"scheduling"},
    {"simulation"},
    {"economics"},
    {"advice"},
    {"serving"},
    {"bench"},
    {"papers"},
    {"figures"},
    {"panels"},
    {"reports"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
MAX_LINES = 420


def _modules(root: Path) -> list[Path]:
    return sorted(p for p in (root / "clairvoyant_lab").rglob("*.py") if "_carried" not in p.parts)


def _room(path: Path, root: Path) -> str:
    part = path.relative_to(root / "clairvoyant_lab").parts[0]
    return part.removesuffix(".py")


def _imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "clairvoyant_lab":
                names = [f"clairvoyant_lab.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "clairvoyant_lab" and len(parts) > 1:
                rooms.add(parts[1])
    return rooms


def test_every_room_has_a_floor(repo_root: Path) -> None:
    rooms = {_room(path, repo_root).split("_")[0] for path in _modules(repo_root)} - {""}
    assert rooms <= set(LEVEL), sorted(rooms - set(LEVEL))


def test_imports_go_downward(repo_root: Path) -> None:
    upward = []
    for path in _modules(repo_root):
        room = _room(path, repo_root).split("_")[0]
        if room not in LEVEL:  # the package's own __init__ hands names on
            continue
        for other in _imported_rooms(path):
            target = other.split("_")[0]
            if target in LEVEL and LEVEL[target] > LEVEL[room]:
                upward.append(f"{path.relative_to(repo_root)} imports {other}")
    assert upward == []


def test_rooms_fit_one_sitting(repo_root: Path) -> None:
    long = {
        str(path.relative_to(repo_root)): lines
        for path in _modules(repo_root)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert long == {}


def test_no_grab_bag_modules(repo_root: Path) -> None:
    names = {path.stem for path in _modules(repo_root)}
    assert names.isdisjoint({"utils", "util", "helpers", "common", "core", "misc"})


def test_notebooks_are_stories_without_outputs(repo_root: Path) -> None:
    notebooks = sorted((repo_root / "notebooks").glob("*.ipynb"))
    if not notebooks:
        pytest.fail("there are no notebooks")
    faults = []
    for path in notebooks:
        book = json.loads(path.read_text(encoding="utf-8"))
        cells = book["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        if any(cell.get("outputs") or cell.get("execution_count") for cell in code):
            faults.append(f"{path.name}: has outputs")
        if "widgets" in book["metadata"]:
            faults.append(f"{path.name}: has widget state")
        if cells[0]["cell_type"] != "markdown":
            faults.append(f"{path.name}: does not open with its question")
        if "parameters" not in code[0]["metadata"].get("tags", []):
            faults.append(f"{path.name}: its first code cell is not tagged parameters")
        for cell in code:
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    faults.append(f"{path.name}: defines {node.name}; logic belongs in the package")
    assert faults == []
