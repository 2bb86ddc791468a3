"""The pages under docs/ and the README are true: examples run, commands parse, links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer.main

REPO = Path(__file__).resolve().parents[2]
PAGES = [*sorted((REPO / "docs").glob("*.md")), REPO / "README.md"]
BY_NAME = {page.name: page for page in PAGES}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def fences(page: Path, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(page.read_text("utf-8")) if language in languages]


def pages_with(*languages: str) -> list[str]:
    return [page.name for page in PAGES if fences(page, *languages)]


@pytest.mark.parametrize("name", [n for n in pages_with("python") if n != "README.md"])
def test_examples_run_and_give_what_the_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_examples("\n".join(fences(BY_NAME[name], "python")))
    assert examples, f"{name} has python without >>>: nothing checks it"
    failed, tried = doctest.testfile(
        str(BY_NAME[name]),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL,
    )
    assert (failed, tried) == (0, len(examples))


def test_the_readmes_python_runs(tmp_path: Path) -> None:
    """Each block in a fresh interpreter: a reader copies one, not all."""
    for block in fences(BY_NAME["README.md"], "python"):
        done = subprocess.run(
            [sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path, timeout=120
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def command_lines(page: Path) -> list[str]:
    """Return the calls of `clairvoyant-lab` in a page's shell blocks and in its `code` spans."""
    shell = "\n".join(fences(page, "sh", "", "bash"))
    lines = [line.split("#")[0].strip() for line in shell.splitlines()]
    spans = re.findall(r"`(clairvoyant-lab [^`]+)`", FENCE.sub("", page.read_text("utf-8")))
    return [line for line in [*lines, *spans] if line.startswith("clairvoyant-lab ")]


def parses(line: str) -> str | None:
    """Say what is wrong with a command line, by the command's own parser; None if nothing is."""
    words = shlex.split(line)[1:]
    command = typer.main.get_command(__import__("clairvoyant_lab.cli.app", fromlist=["app"]).app)
    context = click.Context(command)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        nested = command.get_command(context, words[0])
        if nested is None:
            return f"no command {words[0]!r}"
        command, words = nested, words[1:]
        context = click.Context(command, parent=context)
    try:
        _, left, _ = command.make_parser(context).parse_args(list(words))
    except Exception as error:  # a usage error of click, or of the click that typer carries
        return str(error) or type(error).__name__
    return f"unexpected {left[0]!r}" if left and not context.allow_extra_args else None


@pytest.mark.parametrize("name", [page.name for page in PAGES if command_lines(page)])
def test_every_command_line_is_one_the_command_takes(name: str) -> None:
    wrong = {line: fault for line in command_lines(BY_NAME[name]) if (fault := parses(line)) is not None}
    assert not wrong


def test_the_check_of_command_lines_finds_faults() -> None:
    assert parses("clairvoyant-lab no-such-command") is not None
    assert parses("clairvoyant-lab ledger --no-such-option") is not None
    assert parses("clairvoyant-lab proxy --shadow sjf") is not None
    assert parses("clairvoyant-lab ledger --format md") is None


def test_the_commands_of_the_ledger_are_ones_the_command_takes() -> None:
    from clairvoyant_lab.papers.published import load_published

    lines = {part.strip() for number in load_published().values() for part in re.split("[;,] ", number.how)}
    wrong = {line: fault for line in lines if line.startswith("clairvoyant-lab ") and (fault := parses(line))}
    assert not wrong


@pytest.mark.parametrize("name", list(BY_NAME))
def test_links_between_pages_lead_to_files_and_headings(name: str) -> None:
    page = BY_NAME[name]
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text("utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name} links to {target}"
        if heading:
            titles = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, f"{name} links to {target}"


def test_the_committed_ledger_has_a_line_for_every_published_number() -> None:
    from clairvoyant_lab.papers.ledger import ledger_table
    from clairvoyant_lab.papers.published import load_published

    committed = BY_NAME["LEDGER.md"].read_text("utf-8")
    # the first two columns of a row, cell and published, hang on no run; a variant may follow the cell
    wanted = {
        tuple(line.split(" | ")[:2])
        for line in ledger_table([], also=load_published()).to_markdown(with_source=False).splitlines()
        if line.startswith("| ")
    }
    rows = [line.split(" | ")[:2] for line in committed.splitlines() if line.startswith("| ")]
    there = {(cell, text) for cell, text, *_ in (row for row in rows if len(row) == 2)}
    there |= {(cell.rpartition(" (")[0], text) for cell, text in there if cell.endswith(")")}
    missing = sorted(wanted - there)
    assert not missing, "make it again: clairvoyant-lab ledger --format md --output docs/LEDGER.md"


# ------------------------------------------------------------------ the rooms of architecture.md


def rooms() -> list[str]:
    """Rooms from top to bottom, as the page's table has them."""
    return re.findall(r"^\| `(\w+)` \|", BY_NAME["architecture.md"].read_text("utf-8"), re.M)


def test_the_page_names_every_room() -> None:
    package = REPO / "clairvoyant_lab"
    found = {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}
    found |= {path.stem for path in package.glob("*.py")} - {
        "__init__",
        "errors",
        "paths",
        "lengths",
        "results",
        "lazy",
    }
    assert set(rooms()) == found


def test_a_room_imports_only_rooms_below_it() -> None:
    order = {room: height for height, room in enumerate(rooms())}
    package = REPO / "clairvoyant_lab"
    upward = []
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        if room not in order:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                parts = module.split(".")
                if parts[0] == "clairvoyant_lab" and len(parts) > 1 and order.get(parts[1], 99) < order[room]:
                    upward.append(f"{file.relative_to(package)} imports {module}")
    assert not upward
