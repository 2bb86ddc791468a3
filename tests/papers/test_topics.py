"""The runs behind the ledger: topics measure published numbers, and every published number has its row."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.papers.derived import derive
from clairvoyant_lab.papers.ledger import Ledger, Measured, ledger_table
from clairvoyant_lab.papers.published import load_published
from clairvoyant_lab.papers.runner import TOPICS, measure_all, run_ledger

NUMBERS = load_published()


@pytest.fixture(scope="module")
def measured() -> dict[str, list[Measured]]:
    return {
        topic: import_module(f"clairvoyant_lab.papers.{topic}").measure(fast=True, seed=7) for topic in TOPICS
    }


@pytest.fixture(scope="module")
def ledger(measured: dict[str, list[Measured]]) -> Ledger:
    run = [row for rows in measured.values() for row in rows]
    return ledger_table([*run, *derive(run)], also=NUMBERS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_measures_published_numbers_once_a_variant(
    topic: str, measured: dict[str, list[Measured]]
) -> None:
    assert measured[topic]
    assert {row.key for row in measured[topic]} <= set(NUMBERS)
    doubled = [
        key for key, count in Counter((row.key, row.variant) for row in measured[topic]).items() if count > 1
    ]
    assert not doubled


def test_no_number_is_measured_by_two_topics(measured: dict[str, list[Measured]]) -> None:
    owners: dict[str, set[str]] = {}
    for topic, rows in measured.items():
        for row in rows:
            owners.setdefault(row.key, set()).add(topic)
    assert {key: topics for key, topics in owners.items() if len(topics) > 1} == {}


def test_every_published_number_has_a_row_and_a_verdict(ledger: Ledger) -> None:
    assert {row.published.key for row in ledger} == set(NUMBERS)
    for row in ledger:
        assert row.verdict.text


def test_what_is_not_run_here_says_how_to_run_it(ledger: Ledger) -> None:
    silent = [row.published.key for row in ledger if row.verdict.kind == "not run here" and not row.how]
    assert not silent


def test_derived_rows_follow_from_the_measured_ones(measured: dict[str, list[Measured]]) -> None:
    run = [row for rows in measured.values() for row in rows]
    rows = derive(run)
    assert {row.key for row in rows} <= set(NUMBERS)
    assert not {(row.key, row.variant) for row in rows} & {(row.key, row.variant) for row in run}
    assert derive([])[0].key == "clairvoyant.section3_3.embedding_slower_times"
    ends = {row.variant: row.value for row in rows if row.key.endswith("prompt_length_range_pct")}
    corpora = ("sharegpt", "oasst1")
    cells = [
        row.value
        for row in run
        if row.key in {f"clairvoyant.table8.prompt_length.{name}" for name in corpora}
    ]
    assert ends == ({"lowest": min(cells), "highest": max(cells)} if cells else {})


def test_what_differs_says_why(ledger: Ledger) -> None:
    unexplained = [row.published.key for row in ledger if "cause not found" in row.verdict.text]
    assert len(unexplained) <= 0.05 * len(ledger), unexplained


def test_known_results_come_out(ledger: Ledger) -> None:
    """Facts that do not hang on a seed."""
    kinds = {
        (row.published.key, row.measured.variant if row.measured else ""): row.verdict.kind for row in ledger
    }
    assert kinds["isjl.theorem3_3.ljf_cr_b2", ""] == "reproduced"
    assert kinds["isjl.table1.ljf.tau_e", ""] == "reproduced"
    assert kinds["isjl.section3_3.isjl_cr", ""] == "differs"
    assert kinds["clairvoyant.abstract.features", ""] == "reproduced"
    assert kinds["clairvoyant.section5_2.essay_prompt_tokens", ""] == "differs"


def test_the_claims_are_the_same_for_the_same_seed() -> None:
    first, second = (
        [row for row in measure_all(fast=True, seed=7, topics=["claims"]) if not row.key.endswith("_ms")]
        for _ in range(2)
    )
    assert first == second


def test_a_chosen_topic_lists_only_what_it_measured() -> None:
    told: list[str] = []
    rows = run_ledger(fast=True, seed=7, topics=["claims"], tell=told.append)
    assert told == ["claims"]
    assert all(row.measured is not None for row in rows)
    with pytest.raises(ParameterError, match="known: datasets"):
        run_ledger(topics=["nothing"])
