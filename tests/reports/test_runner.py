"""The report: notebooks run in parallel, a failure is named and stops nothing, pages open offline."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clairvoyant_lab.cli import app
from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.reports import NotebookOutcome, run_notebooks
from clairvoyant_lab.reports.execution import MAX_FILE_BYTES, read_outcome
from clairvoyant_lab.reports.extract import ledger_rows, verdict_counts
from clairvoyant_lab.reports.pages import write_index
from clairvoyant_lab.reports.runner import find_notebooks, plan_parameters
from clairvoyant_lab.reports.worker import Workers

NOTEBOOKS = Path(__file__).with_name("notebooks")
RUN = ["good", "raises_in_second_section", "kernel_dies"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, NotebookOutcome]]:
    out = tmp_path_factory.mktemp("report")
    outcomes = run_notebooks(
        RUN, out_dir=out, parameters={"tau": "None", "n": "7"}, fast=True, folder=NOTEBOOKS, progress=False
    )
    return out, {outcome.name: outcome for outcome in outcomes}


def test_a_failure_is_named_and_stops_nothing(report: tuple[Path, dict[str, NotebookOutcome]]) -> None:
    _, outcomes = report
    assert outcomes["good"].ok, outcomes["good"].error
    assert not outcomes["raises_in_second_section"].ok
    assert "ZeroDivisionError" in outcomes["raises_in_second_section"].error
    assert not outcomes["kernel_dies"].ok
    assert "Dead" in outcomes["kernel_dies"].error


def test_parameters_arrive_as_their_types(report: tuple[Path, dict[str, NotebookOutcome]]) -> None:
    out, _ = report
    text = (out / "good.ipynb").read_text()
    assert "{'n': 7, 'tau': None, 'fast': True, 'seed': 42}" in text


def test_executed_notebooks_are_strict_and_lean(report: tuple[Path, dict[str, NotebookOutcome]]) -> None:
    out, outcomes = report

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    for name in RUN:
        text = (out / f"{name}.ipynb").read_text()
        notebook = json.loads(text, parse_constant=refuse)
        assert "widgets" not in notebook["metadata"]
        assert "widget-view" not in text
    for outcome in outcomes.values():
        assert outcome.page is not None
        for file in (outcome.notebook, outcome.page):
            assert file.stat().st_size < MAX_FILE_BYTES
        assert outcome.notes == ()


def test_pages_ask_nothing_of_the_network(report: tuple[Path, dict[str, NotebookOutcome]]) -> None:
    out, _ = report
    for page in out.glob("*.html"):
        loads = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", page.read_text())
        outside = [target for target in loads if target.startswith(("http:", "https:", "//"))]
        assert outside == [], page.name
        for target in loads:
            if not target.startswith(("#", "data:")):
                assert (out / target).is_file(), f"{page.name} asks for {target}"


def test_the_index_shows_figure_and_ledger(report: tuple[Path, dict[str, NotebookOutcome]]) -> None:
    out, outcomes = report
    index = (out / "index.html").read_text()
    assert "1 of 3 notebooks ran to their end" in index
    assert "Squares of small numbers" in index
    assert "1 reproduced" in index
    assert "1 differs" in index
    assert "ZeroDivisionError" in index
    script = (out / "figures" / "good.js").read_text()
    figure = json.loads(script.removeprefix('window.clairvoyantFigure("good", ').removesuffix(");\n"))
    assert figure["data"][0]["y"] == [0, 1, 4, 9, 16, 25, 36]
    assert len(outcomes["good"].ledger) == 2


def test_the_command_runs_the_same_again(
    report: tuple[Path, dict[str, NotebookOutcome]], tmp_path: Path
) -> None:
    out, _ = report
    options = ["-p", "n=7", "-p", "tau=none", "--fast", "--jobs", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(
        app, ["report", "good", "raises_in_second_section", *options, "--notebooks", str(NOTEBOOKS)]
    )
    assert result.exit_code == 1
    assert "ran     good" in result.output
    assert "raises_in_second_section: In [5]: ZeroDivisionError" in result.output

    def outputs(folder: Path) -> list[object]:
        return [cell.get("outputs") for cell in json.loads((folder / "good.ipynb").read_text())["cells"]]

    assert outputs(tmp_path) == outputs(out)


def test_the_command_refuses_bad_use() -> None:
    cli = CliRunner()
    for bad in (["-p", "alhpa=1"], ["-p", "n"], ["-p", "n=many"], ["--jobs", "0"]):
        result = cli.invoke(app, ["report", "good", *bad, "--notebooks", str(NOTEBOOKS)])
        assert result.exit_code == 2, result.output


def test_names_and_parameters_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for bad in ({"names": ["goood"]}, {"names": ["good"], "parameters": {"sede": 1}}, {"jobs": 0}):
        with pytest.raises(ParameterError):
            run_notebooks(out_dir=tmp_path / "r", folder=NOTEBOOKS, progress=False, **bad)
    assert not (tmp_path / "r").exists()
    with pytest.raises(ParameterError, match="Did you mean 'good'"):
        find_notebooks(["goood"], NOTEBOOKS)
    with pytest.raises(ParameterError, match="fits"):
        find_notebooks([""], NOTEBOOKS)
    with pytest.raises(DataError, match=r"untyped_parameters.*row 0"):
        plan_parameters(find_notebooks(["untyped"], NOTEBOOKS), {})
    with pytest.raises(DataError, match="no notebooks"):
        find_notebooks(folder=tmp_path)


def test_plain_papermill_refuses_a_misspelled_name_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "papermill", str(NOTEBOOKS / "good.ipynb"), str(tmp_path / "x.ipynb")),
            *("-p", "sede", "1", "--no-progress-bar"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "Did you mean 'seed'" in done.stderr


def test_ledger_tables_are_found_among_others() -> None:
    class Cell(dict):
        pass

    html = (
        "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"
        "<table><thead><tr><th>Published</th><th>ours</th><th>Verdict</th></tr></thead><tbody>"
        "<tr><td>1 &lt; 2</td><td><b>2</b></td><td>the paper contradicts itself (x); ours differs</td></tr>"
        "</tbody></table>"
    )
    notebook = type("N", (), {"cells": [Cell(outputs=[{"data": {"text/html": html}}]), Cell()]})
    rows = list(ledger_rows(notebook))
    assert rows == [
        {"published": "1 < 2", "ours": "2", "verdict": "the paper contradicts itself (x); ours differs"}
    ]
    assert verdict_counts(rows) == ["1 contradiction"]
    assert verdict_counts([*rows, *rows, {"verdict": "differs by 3"}]) == ["1 differs", "2 contradictions"]


def test_a_plain_script_adds_to_what_earlier_runs_left(
    report: tuple[Path, dict[str, NotebookOutcome]], tmp_path: Path
) -> None:
    out, _ = report
    folder = Path(shutil.copytree(out, tmp_path / "r"))
    script = tmp_path / "script.py"  # without an `if __name__ == "__main__"` guard
    script.write_text(
        "from clairvoyant_lab.reports import run_notebooks\n"
        f"(outcome,) = run_notebooks(['good'], out_dir={str(folder)!r}, folder={str(NOTEBOOKS)!r}, "
        "parameters={'seed': 7}, progress=False)\n"
        "print(outcome.ok, dict(outcome.settings))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stdout == "True {'fast': False, 'seed': 7}\n", done.stderr
    index = (folder / "index.html").read_text()
    assert "1 of 3 notebooks ran to their end" in index
    for name in RUN:
        assert f'href="{name}.html"' in index
    rows = re.findall(r"<tr><td><a href=\"#(\w+)\">.*?</tr>", index)
    assert rows == sorted(RUN)
    assert "fast = False, seed = 7" in index  # this run's
    assert "fast = True" in index  # the earlier one's
    assert "ZeroDivisionError" in index
    # what a killed run leaves behind must not pass for the earlier success
    (folder / "good.html").unlink()
    write_index([], folder)
    assert 'href="good.html"' not in (folder / "index.html").read_text()


def test_a_page_of_plain_papermill_is_listed_too(
    report: tuple[Path, dict[str, NotebookOutcome]], tmp_path: Path
) -> None:
    out, _ = report
    notebook = json.loads((out / "good.ipynb").read_text())
    del notebook["metadata"]["clairvoyant_report"]
    (tmp_path / "good.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "good.html").write_text("<p>a page</p>")
    outcome = read_outcome(tmp_path / "good.ipynb")
    assert outcome.ok
    assert outcome.ran_at
    assert outcome.settings == {"n": 7, "tau": None, "fast": True, "seed": 42}
    notebook["metadata"]["papermill"]["end_time"] = None
    (tmp_path / "good.ipynb").write_text(json.dumps(notebook))
    assert not read_outcome(tmp_path / "good.ipynb").ok


def test_a_killed_process_is_an_outcome(tmp_path: Path) -> None:
    outcome = Workers().run(tmp_path / "none.ipynb", tmp_path / "out.ipynb", {}, "no number")  # type: ignore[arg-type]
    assert not outcome.ok
    assert outcome.error


@pytest.mark.parametrize(
    "odd",
    [
        "no json",
        "[1]",
        {"clairvoyant_report": [1]},
        {"clairvoyant_report": {"title": "x", "seconds": "long"}},
    ],
)
def test_a_file_that_is_no_page_of_ours_costs_no_index(
    report: tuple[Path, dict[str, NotebookOutcome]], tmp_path: Path, odd: Any
) -> None:
    out, outcomes = report
    notebook = json.loads((out / "good.ipynb").read_text())
    if isinstance(odd, dict):
        notebook["metadata"].update(odd)
    text = odd if isinstance(odd, str) else json.dumps(notebook)
    (tmp_path / "50% #1.ipynb").write_text(text)
    (tmp_path / "50% #1.html").write_text("<p>a page</p>")
    with pytest.raises(DataError):
        read_outcome(tmp_path / "50% #1.ipynb")
    index = write_index([outcomes["good"]], tmp_path).read_text()
    assert "1 of 2 notebooks ran" in index
    assert 'href="50%25%20%231.html"' in index


def test_a_page_of_a_later_version_is_read(
    report: tuple[Path, dict[str, NotebookOutcome]], tmp_path: Path
) -> None:
    out, outcomes = report
    notebook = json.loads((out / "good.ipynb").read_text())
    notebook["metadata"]["clairvoyant_report"]["weather"] = "fair"
    (tmp_path / "good.ipynb").write_text(json.dumps(notebook))
    assert read_outcome(tmp_path / "good.ipynb").settings == outcomes["good"].settings


HANGS = "import os, pathlib, time; pathlib.Path(pid_file).write_text(str(os.getpid())); time.sleep(600)"


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals of POSIX")
@pytest.mark.parametrize("way", ["interrupt", "kill"])
def test_no_kernel_outlives_the_report(tmp_path: Path, way: str) -> None:
    import nbformat.v4 as v4

    pid_file = tmp_path / "pid"
    notebook = v4.new_notebook(cells=[v4.new_code_cell(f"pid_file = {str(pid_file)!r}\n{HANGS}")])
    (tmp_path / "hangs.ipynb").write_text(json.dumps(notebook))
    script = (
        "import sys; from clairvoyant_lab.reports import run_notebooks\n"
        "run_notebooks(out_dir=sys.argv[1], folder=sys.argv[2], progress=False)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "out"), str(tmp_path)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _until(lambda: pid_file.is_file() and pid_file.read_text() != "")
    # to the one process only, as an editor's stop button does it
    process.send_signal(signal.SIGINT if way == "interrupt" else signal.SIGKILL)
    process.wait(timeout=30)
    _until(lambda: not _runs(int(pid_file.read_text())))


def _until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
