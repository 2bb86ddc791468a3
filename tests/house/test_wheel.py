"""The built wheel, alone in an empty environment, carries notebooks, data and models, and they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.notebooks, pytest.mark.timeout(1_800)]


def _run(*command: str | Path, cwd: Path, timeout_s: int = 600) -> str:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CLAIRVOYANT_"))
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_wheel_in_an_empty_venv_runs_every_notebook(repo_root: Path, tmp_path: Path) -> None:
    _run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        tmp_path / "dist",
        repo_root,
        cwd=tmp_path,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.stat().st_size < 30e6

    _run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bin_dir = tmp_path / "venv" / "bin"
    _run(bin_dir / "python", "-m", "pip", "install", "-q", wheel, cwd=tmp_path)
    command = bin_dir / "clairvoyant-lab"

    home = _run(
        bin_dir / "python", "-c", "import clairvoyant_lab as c; print(c.__file__)", cwd=tmp_path
    ).strip()
    assert str(tmp_path / "venv") in home

    _run(command, "notebooks", "lab", cwd=tmp_path)
    laid = sorted(path.name for path in (tmp_path / "lab").glob("*.ipynb"))
    assert laid == sorted(path.name for path in (repo_root / "notebooks").glob("*.ipynb"))

    answer = json.loads(
        _run(command, "predict", "Write a long story about a dragon.", "--json", cwd=tmp_path)
    )
    assert 0.0 <= answer["p_long"] <= 1.0

    # nothing of the extras is here
    _run(command, "report", "--fast", cwd=tmp_path, timeout_s=1200)
    for name in laid:
        (page,) = (tmp_path / "reports").rglob(f"{name.removesuffix('.ipynb')}.html")
        assert "plotly" in page.read_text(encoding="utf-8").lower()
