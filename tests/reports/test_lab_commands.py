"""`notebooks` puts files down without harm; `doctor` tells needed from optional."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from clairvoyant_lab.cli import app
from clairvoyant_lab.paths import notebooks_dir
from clairvoyant_lab.reports import doctor


@pytest.mark.skipif(not list(notebooks_dir().glob("*.ipynb")), reason="no notebooks yet")
def test_notebooks_are_put_down_and_ones_own_work_is_kept(tmp_path: Path) -> None:
    cli = CliRunner()
    folder = tmp_path / "my" / "lab"
    first = cli.invoke(app, ["notebooks", str(folder)])
    assert first.exit_code == 0, first.output
    names = sorted(path.name for path in folder.glob("*.ipynb"))
    assert names == sorted(path.name for path in notebooks_dir().glob("*.ipynb"))
    mine = folder / names[0]
    mine.write_text("mine")
    assert "kept" in cli.invoke(app, ["notebooks", str(folder)]).output
    assert mine.read_text() == "mine"
    cli.invoke(app, ["notebooks", str(folder), "--force"])
    assert mine.read_text() != "mine"


def test_a_folder_that_cannot_be_made_is_bad_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["notebooks", str(tmp_path / "file" / "lab")])
    assert result.exit_code == 2
    assert "cannot be made" in result.output


def test_doctor_tells_needed_from_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.importlib.util.find_spec
    absent = {"plotly", "ortools"}
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name, *rest: None if name in absent else real(name, *rest)
    )
    states = {finding.part: finding for finding in doctor.examine()}
    assert states["plotly"].state == "missing"
    assert states["ortools"].state == "optional"
    assert "[exact]" in states["ortools"].remedy
    assert states["numpy"].state == "ok"
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 1
    assert "plotly" in result.output
