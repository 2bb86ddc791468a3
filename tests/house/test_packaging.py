"""The files that install the project agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

# conda-forge's name for a distribution, where it differs
CONDA_NAMES = {"prometheus-client": "prometheus_client"}
# left to pip in environment.yml, with the reason in that file
PIP_ONLY = {"xgboost", "xgboost-cpu", "uvloop"}

REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)\s*([<>=!~][^;]*)?")


def _split(requirement: str) -> tuple[str, str]:
    match = REQUIREMENT.match(requirement)
    assert match is not None, requirement
    return match[1], (match[2] or "").replace(" ", "")


def _project(repo_root: Path) -> dict[str, object]:
    return tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]


def _conda_lines(repo_root: Path) -> list[str]:
    text = (repo_root / "environment.yml").read_text()
    return [line.strip()[2:] for line in text.splitlines() if line.startswith("  - ")]


def test_environment_has_the_names_and_ranges_of_pyproject(repo_root: Path) -> None:
    project = _project(repo_root)
    wanted = {
        CONDA_NAMES.get(name, name): spec
        for name, spec in map(_split, project["dependencies"])
        if name not in PIP_ONLY
    }
    given = dict(
        _split(line)
        for line in _conda_lines(repo_root)
        if line.split("=")[0] not in {"python", "pip", "make", "conda-forge"} and not line.startswith("pip:")
    )
    assert given == wanted


def test_environment_pins_a_supported_python_minor_and_installs_the_checkout(repo_root: Path) -> None:
    text = (repo_root / "environment.yml").read_text()
    minor = re.search(r"- python=3\.(\d+)\n", text)
    assert minor is not None
    lowest, above = re.findall(r"3\.(\d+)", _project(repo_root)["requires-python"])
    assert int(lowest) <= int(minor[1]) < int(above)
    assert "      - -e .\n" in text


def test_every_runtime_dependency_says_why_it_is_here(repo_root: Path) -> None:
    text = (repo_root / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") : text.index("[project.optional-dependencies]")]
    lines = [line for line in block.splitlines() if line.strip().startswith('"')]
    assert len(lines) >= 8
    assert [line for line in lines if "#" not in line] == []


def test_the_users_packages_are_dependencies(repo_root: Path) -> None:
    names = {_split(line)[0] for line in _project(repo_root)["dependencies"]}
    assert {"jupyterlab", "ipywidgets", "plotly", "pandas", "onnxruntime", "httpx", "papermill"} <= names
    assert names & {"xgboost", "xgboost-cpu"}


def test_version_is_stated_once_in_two_places_alike(repo_root: Path) -> None:
    import clairvoyant_lab

    assert _project(repo_root)["version"] == clairvoyant_lab.__version__
