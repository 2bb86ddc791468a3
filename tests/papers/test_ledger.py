"""The ledger as a table: rows, order, variants, escaping, exports."""

from __future__ import annotations

import io
import json
import xml.dom.minidom

import pandas as pd
import pytest

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.papers.document import html_document, markdown_document
from clairvoyant_lab.papers.ledger import VERDICT_KINDS, Measured, ledger_table
from clairvoyant_lab.papers.published import load_published

FCFS = "clairvoyant.table10.cs2_2.0.fcfs.p50_s"
TAU_1 = "clairvoyant.table10.cs2_2.0.tau_1x.p50_s"


def sample() -> list[Measured]:
    return [
        Measured("isjl.table1.ljf.tau_e", 0.0, n=5, how="table1()"),
        Measured(
            TAU_1, 20.1, 19.0, 21.2, 5, how="table10('oldest')", variant="oldest", because="it is FCFS | <b>"
        ),
        Measured(TAU_1, 10.0, 9.5, 10.5, 5, how="table10('shortest')", variant="shortest"),
        Measured(FCFS, 20.4, 19.1, 21.7, 5, how="table10()", note="five <seeds>"),
        Measured.not_run("clairvoyant.table8.distilbert.lmsys", how="get it", why="needs weights"),
    ]


def test_rows_are_in_the_order_of_the_papers_and_keep_variants() -> None:
    frame = ledger_table(sample()).to_frame()
    assert list(frame["key"]) == [
        "clairvoyant.table8.distilbert.lmsys", FCFS, TAU_1, TAU_1, "isjl.table1.ljf.tau_e",
    ]  # fmt: skip
    assert list(frame["variant"]) == ["", "", "oldest", "shortest", ""]
    assert list(frame["verdict"]) == ["not run here", "reproduced", "differs", "reproduced", "reproduced"]


def test_counts_add_up() -> None:
    ledger = ledger_table(sample(), also=load_published())
    summary = ledger.summary()
    assert sum(summary[kind] for kind in VERDICT_KINDS) == summary["rows"] == len(ledger)
    assert summary["weak"] <= summary["reproduced"]
    assert {row.published.key for row in ledger} == set(load_published())


def test_every_number_that_nobody_measured_says_why_or_how() -> None:
    for row in ledger_table([], also=load_published()):
        assert row.verdict.kind in ("contradiction", "not run here")


def test_a_number_that_repeats_another_takes_its_measurement() -> None:
    first, repeat = "clairvoyant.section3_3.model_a_ms", "clairvoyant.section8.predictor_ms"
    rows = {row.published.key: row for row in ledger_table([Measured(first, 0.03, how="x")], also=[repeat])}
    assert rows[repeat].ours == rows[first].ours
    assert rows[repeat].verdict.kind == "reproduced"
    own = [Measured(first, 0.03, how="x"), Measured(repeat, 0.9, how="y")]
    assert {row.published.key: row.verdict.kind for row in ledger_table(own)}[repeat] == "differs"
    assert repeat not in {row.published.key for row in ledger_table([Measured(first, 0.03, how="x")])}


def test_repeated_numbers_are_printed_alike() -> None:
    """An abstract may round what a table prints, never contradict it."""
    numbers = load_published()
    for number in numbers.values():
        if number.same_as and number.decimals == numbers[number.same_as].decimals:
            assert abs(number.value - numbers[number.same_as].value) <= 1, number.key


def test_unknown_and_doubled_keys_are_refused() -> None:
    with pytest.raises(ParameterError, match="Did you mean"):
        ledger_table([Measured(FCFS + "x", 1.0, how="x")])
    with pytest.raises(ParameterError, match="measured twice"):
        ledger_table([Measured(FCFS, 1.0, how="x"), Measured(FCFS, 2.0, how="y")])
    with pytest.raises(ParameterError, match="also"):
        ledger_table([], also=["nothing"])


def test_html_is_well_formed_and_escaped() -> None:
    html = ledger_table(sample())._repr_html_()
    assert "<b>" not in html
    assert "it is FCFS | &lt;b&gt;" in html
    document = xml.dom.minidom.parseString(html)
    assert len(document.getElementsByTagName("tr")) == 1 + len(sample())


def test_markdown_has_one_line_a_row_with_as_many_cells_as_the_header() -> None:
    text = ledger_table(sample()).to_markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(sample())
    assert {line.replace("\\|", "").count("|") for line in rows} == {8}


def test_documents_hold_every_row_and_the_command() -> None:
    ledger = ledger_table(sample(), also=load_published())
    text = markdown_document(ledger, "the command")
    assert "`the command`" in text
    assert text.count("### ") == len({(row.published.paper, row.published.table) for row in ledger})
    page = html_document(ledger, "the command")
    assert page.count("data-verdict") == len(ledger)
    assert len(page) < 1_000_000


def test_frames_go_to_csv_and_strict_json() -> None:
    frame = ledger_table(sample()).to_frame()
    back = pd.read_csv(io.StringIO(frame.to_csv(index=False)), keep_default_na=False)
    assert list(back["key"]) == list(frame["key"])
    records = json.loads(frame.to_json(orient="records"), parse_constant=lambda name: pytest.fail(name))
    assert records[0]["ours"] is None


def test_lines_put_differences_first() -> None:
    lines = ledger_table(sample()).lines(2)
    assert len(lines) == 2
    assert "differs" in lines[0]
