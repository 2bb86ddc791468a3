"""Files of others come from one named folder, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.papers import claims
from clairvoyant_lab.papers.prediction_rows import FOREIGN, authors_model, corpus_rows, foreign_rows
from clairvoyant_lab.papers.reference_files import (
    REFERENCE_FILES,
    REFERENCE_VARIABLE,
    reference_file,
    reference_folder,
)
from clairvoyant_lab.papers.runner import measure_all


@pytest.fixture(autouse=True)
def no_folder_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REFERENCE_VARIABLE, raising=False)


def test_without_a_named_folder_nothing_is_found_whatever_lies_beside_the_checkout() -> None:
    assert reference_folder() is None
    assert [reference_file(name) for name in REFERENCE_FILES] == [None] * len(REFERENCE_FILES)
    assert [foreign_rows(name) for name in FOREIGN] == [None] * len(FOREIGN)
    assert corpus_rows("oasst1") is None
    assert authors_model() is None


def test_the_parameter_beats_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    name = next(iter(REFERENCE_FILES))
    for folder in (one, other):
        folder.mkdir()
        (folder / name).touch()
    monkeypatch.setenv(REFERENCE_VARIABLE, str(one))
    assert reference_file(name) == one / name
    assert reference_file(name, other) == other / name


def test_a_named_folder_that_is_not_there_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with pytest.raises(ParameterError, match="reference_dir"):
        measure_all(fast=True, topics=["claims"], tell=told.append, reference_dir=tmp_path / "missing")
    assert told == []
    for named in (str(tmp_path / "missing"), ""):
        monkeypatch.setenv(REFERENCE_VARIABLE, named)
        with pytest.raises(ParameterError, match=REFERENCE_VARIABLE):
            reference_folder()


def test_every_foreign_file_says_where_it_comes_from() -> None:
    assert {file for file, _ in FOREIGN.values()} < set(REFERENCE_FILES)


def test_splits_are_not_run_here_without_the_files_and_measured_with_them(shared_dir: Path) -> None:
    prefix = "clairvoyant.section4_2.oasst1"
    absent = {row.key: row for row in claims._splits(None)}
    assert absent[f"{prefix}.balanced_rows"].value is None
    assert "--reference-dir" in absent[f"{prefix}.balanced_rows"].how
    present = {row.key: row for row in claims._splits(shared_dir / "data")}
    assert present[f"{prefix}.balanced_rows"].value == 828
    assert present["clairvoyant.table4.c.test.total"].value == 166
