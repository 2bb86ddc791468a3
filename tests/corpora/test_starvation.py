"""The starvation analysis, fidelity of characters/4, figures, ledger rows and commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import clairvoyant_lab as cl
from clairvoyant_lab.corpora import causal, compare
from clairvoyant_lab.corpora.fidelity import approximation_fidelity
from clairvoyant_lab.corpora.starvation import VERDICTS, starvation_of, starvation_report, wilson_interval
from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.figures import corpora as figures
from clairvoyant_lab.papers import datasets


@pytest.fixture(scope="module")
def triple(shared_dir: Path) -> list[Path]:
    """The three public files of the causal test."""
    names = ("gpt4_1106_preview_concise", "gpt4_1106_preview", "gpt4_1106_preview_verbose")
    return [shared_dir / "data" / f"alpaca_eval_{name}.json" for name in names]


def test_causal_test_by_characters_over_four(triple: list[Path]) -> None:
    reports = causal.causal_test(**causal.causal_files_by_name(triple), tokenizer="chars/4")
    assert list(reports) == list(causal.INSTRUCTIONS.values())
    assert [report.n for report in reports.values()] == [805] * 3
    assert [round(100 * report.shares[2], 1) for report in reports.values()] == [2.5, 16.8, 29.8]


def test_causal_test_wants_the_same_prompts(tmp_path: Path) -> None:
    def write(name: str, prompts: list[str]) -> Path:
        file = tmp_path / name
        file.write_text(
            "".join(json.dumps({"prompt": one, "response": f"{one} " * 9}) + "\n" for one in prompts)
        )
        return file

    first, turned = write("a.jsonl", ["rain", "snow", "fog"]), write("b.jsonl", ["fog", "rain", "snow"])
    other = write("c.jsonl", ["rain", "snow", "hail"])
    assert len(causal.causal_test(first, turned, first)) == 3
    with pytest.raises(DataError, match=r"c\.jsonl.*of which 2 are among the first file's 3"):
        causal.causal_test(first, turned, other)
    with pytest.raises(ParameterError, match="verbose"):
        causal.causal_test(first, turned, tmp_path / "gone.json")
    assert causal.causal_files_by_name([]) == {}
    with pytest.raises(ParameterError, match="give three paths"):
        causal.causal_files_by_name([first, turned])
    with pytest.raises(ParameterError, match=r"causal_files\[1\]"):
        causal.causal_files_by_name([first, tmp_path / "gone.json", first])
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,5,6\n")
    with pytest.raises(DataError, match="no texts"):
        causal.causal_test(trace, trace, trace, tokenizer="reported")


def test_corpora_side_by_side(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"prompt": "Tell me of rain", "response": "water"}\n')
    (tmp_path / "b").mkdir()
    twin = tmp_path / "b" / "mine.jsonl"
    twin.write_text('{"prompt": "Tell me of snow", "response": "water"}\n')
    copy = tmp_path / "code.json"
    copy.write_text(json.dumps([{"instruction": "q", "input": "", "output": "a " * 900}]))
    local = compare.local_reports({"codealpaca": copy}, progress=False)
    assert local["codealpaca"].counts.tolist() == [0, 0, 1]
    reports = compare.compare_corpora([mine, twin], local, language=None, progress=False)
    assert list(reports)[-3:] == ["CodeAlpaca 20K, code.json", "mine.jsonl", str(twin)]
    table = compare.starvation_table(reports).set_index("corpus")
    assert len(table) == 9
    assert table.loc["ShareGPT V3, first turns, llama-like", "rows"] == 8_716  # every language
    long_rows = table.loc[[f"ShareGPT V3, all turns, {name}" for name in compare.COUNTED], "Long"]
    assert long_rows["ShareGPT V3, all turns, tekken"] == long_rows.min() < 0.5 * long_rows.max()
    assert (table["Long_low_pct"] <= table["Long_pct"]).all()
    lower = compare.compare_corpora([mine], long_from=300, progress=False)
    assert lower["ShareGPT V3, first turns, chars/4"].bounds == (200, 300)
    with pytest.raises(ParameterError, match=r"own_files\[0\]"):
        compare.compare_corpora([tmp_path / "gone.json"])
    with pytest.raises(ParameterError, match=r"local_copies.*codealpaca"):
        compare.local_reports({"codealpacca": copy})
    with pytest.raises(ParameterError, match=r"local_copies\['dolly'\]"):
        compare.local_reports({"dolly": tmp_path / "gone.json"})


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_wilson_holds_the_share_and_shrinks(n: int, share: float) -> None:
    k = round(share * n)
    low, high = wilson_interval(k, n)
    assert 0 <= low <= k / n <= high <= 1
    wider = wilson_interval(k, n, z=3.0)
    assert wider[0] <= low
    assert high <= wider[1]
    assert np.isclose(wilson_interval(n - k, n)[0], 1 - high)


def test_wilson_known_values() -> None:
    # Newcombe 1998, Table I, method 3: 81/263 and 0/20
    assert np.allclose(wilson_interval(81, 263), (0.2553, 0.3662), atol=5e-5)
    assert np.allclose(wilson_interval(0, 20), (0.0, 0.1611), atol=5e-5)
    with pytest.raises(ParameterError, match="n"):
        wilson_interval(0, 0)
    with pytest.raises(ParameterError, match="successes"):
        wilson_interval(3, 2)


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=300))
def test_counts_shares_and_verdict_follow_the_rules(lengths: list[int]) -> None:
    report = starvation_of(lengths)
    tokens = np.array(lengths)
    assert report.counts.tolist() == [
        int((tokens < 200).sum()), int(((tokens >= 200) & (tokens < 800)).sum()), int((tokens >= 800).sum()),
    ]  # fmt: skip
    assert np.isclose(report.shares.sum(), 1)
    assert report.balanced_rows == 3 * report.counts.min()
    assert report.counts.min() >= VERDICTS[report.verdict][0]
    assert report.what_would_change()
    assert len(report.to_frame()) == 3


@pytest.mark.parametrize(
    ("long_rows", "verdict"),
    [(0, "starved"), (29, "starved"), (30, "test only"), (88, "test only"), (200, "usable, limited"),
     (551, "usable, limited"), (2_000, "usable, balanced"), (7_800, "usable, balanced")],
)  # fmt: skip
def test_verdicts(long_rows: int, verdict: str) -> None:
    report = starvation_of(np.repeat([100, 400, 900], [10_000, 10_000, long_rows]))
    assert report.verdict == verdict


def test_what_would_change_is_true() -> None:
    rng = np.random.default_rng(5)
    tokens = np.minimum(rng.lognormal(5.3, 0.8, 5_000), 1_500).astype(int)
    report = starvation_of(tokens)
    lines = " ".join(report.what_would_change())
    needed = next(least for least, _ in reversed(VERDICTS.values()) if least > report.counts.min())
    assert f"{needed - report.counts.min():,} more" in lines
    bound = int(lines.split("with Long from ")[1].split(" tokens")[0].replace(",", ""))
    assert (tokens >= bound).sum() >= needed


def test_sharegpt_report_compares_tokenizers() -> None:
    report = starvation_report("sharegpt")
    assert report.verdict == "usable, limited"
    assert {row["tokenizer"] for row in report.by_tokenizer} == {"tekken", "chars/4"}
    assert starvation_report("sharegpt", turns="all").verdict == "usable, balanced"
    assert "counted by tekken" in " ".join(report.what_would_change())
    html = report._repr_html_()
    assert "<table" in html
    assert "Wilson" not in repr(report)
    frame = report.to_frame()
    assert len(frame) == 9
    assert (frame["low"] <= frame["share"]).all()


def test_real_traffic_can_be_starved_too(shared_dir: Path) -> None:
    report = starvation_report(shared_dir / "data" / "azure_llm_2023_conv.csv", progress=False)
    assert report.n == 19_366
    assert round(100 * report.shares[2], 2) == 0.23


def test_a_path_and_an_upload_are_reported(shared_dir: Path) -> None:
    path = shared_dir / "data" / "code_alpaca_2k.json"
    options = {"tokenizer": "chars/4", "language": None, "deduplicate": False, "progress": False}
    by_path = starvation_report(path, **options)
    by_upload = starvation_report({"name": path.name, "content": path.read_bytes()}, **options)
    assert by_path.counts.tolist() == by_upload.counts.tolist() == [1_990, 25, 0]
    assert by_path.verdict == "starved"


def test_report_refuses_what_it_cannot_read() -> None:
    with pytest.raises(DataError, match="response_tokens"):
        starvation_report(pd.DataFrame({"tokens": [1]}))
    with pytest.raises(DataError, match="no row"):
        starvation_of([])
    with pytest.raises(DataError, match="row 1"):
        starvation_of([3, -1])
    with pytest.raises(ParameterError, match="options"):
        starvation_report(pd.DataFrame({"response_tokens": [1]}), turns="all")


# ------------------------------------------------------------------ characters/4


@given(st.lists(st.integers(1, 50), min_size=3, max_size=60))
def test_fidelity_by_plain_counting(lengths: list[int]) -> None:
    exact = np.array(lengths)
    near = (exact * 7 + np.arange(exact.size) % 3) // 8
    if np.ptp(exact) == 0 or np.ptp(near) == 0:
        with pytest.raises(DataError):
            approximation_fidelity(exact, near)
        return
    result = approximation_fidelity(exact, near)
    asked = [(i, j) for i in range(exact.size) for j in range(i) if exact[i] != exact[j]]
    same = sum((exact[i] > exact[j]) == (near[i] > near[j]) and near[i] != near[j] for i, j in asked)
    assert result.pairs == len(asked)
    assert np.isclose(result.rank_consistency, same / len(asked))
    assert approximation_fidelity(exact, exact * 2).rank_consistency == 1
    assert np.isclose(approximation_fidelity(exact, exact * 2).pearson, 1)


def test_fidelity_on_sharegpt() -> None:
    corpus = cl.load_corpus("sharegpt")
    result = approximation_fidelity(corpus["prompt_tokens"], corpus["prompt_token_len"].astype(int))
    assert 0.9 < result.pearson < 1
    assert 0.94 < result.rank_consistency < 1
    assert "pearson r" in result.summary()
    with pytest.raises(ParameterError, match="one count for each"):
        approximation_fidelity([1, 2], [1])


# ------------------------------------------------------------------ figures


def test_figures_show_what_the_report_says() -> None:
    report = starvation_report("sharegpt")
    histogram = figures.length_histogram(report)
    assert sum(int(np.sum(bar.y)) for bar in histogram.data) == report.n
    by_class = {bar.name.split(" ")[0]: int(np.sum(bar.y)) for bar in histogram.data}
    assert list(by_class.values()) == report.counts.tolist()
    shares = figures.class_shares({"a": report, "b": starvation_of([1, 2, 3])})
    assert np.allclose(np.sum([bar.x for bar in shares.data], axis=0), 100)
    tokenizers = figures.tokenizer_classes(report)
    assert [int(bar.y[0]) for bar in tokenizers.data] == report.counts.tolist()
    rarest = figures.long_rows([report, starvation_of([5] * 10, name="none")])
    assert rarest.data[0].text == (f"{report.counts.min():,}", "0")
    result = approximation_fidelity(np.arange(1, 100), np.arange(1, 100) // 2)
    assert "r = " in figures.fidelity_scatter(result).layout.title.text
    for figure in (histogram, shares, tokenizers, rarest):
        assert figure.layout.xaxis.title.text
    with pytest.raises(ParameterError, match="one tokenizer"):
        figures.tokenizer_classes(starvation_of([1, 2]))
    with pytest.raises(ParameterError, match="reports"):
        figures.class_shares([])


# ------------------------------------------------------------------ ledger and commands


def test_ledger_rows_stand_in_the_registry() -> None:
    from clairvoyant_lab.papers.ledger import ledger_table

    ledger = ledger_table(datasets.measure(fast=True, seed=42))
    by_key = {(row.published.key, row.measured.variant): row for row in ledger}
    assert by_key["clairvoyant.section3_2.rank_consistency_pct", ""].verdict.kind == "reproduced"
    assert by_key["clairvoyant.table3.lmsys.long_pct", ""].verdict.kind == "not run here"
    assert by_key["clairvoyant.table3.sharegpt.long_pct", "all turns"].measured.value < 7
    for key in ("table3.codealpaca.long_pct", "abstract.curated_long_pct"):
        row = by_key[f"clairvoyant.{key}", ""]
        assert row.verdict.kind == "not run here"
        assert 'report 01_dataset_starvation -p \'local_copies={"codealpaca": "FILE"}\'' in row.how


def test_a_local_copy_is_measured(shared_dir: Path) -> None:
    from clairvoyant_lab.papers.ledger import ledger_table

    path = shared_dir / "data" / "code_alpaca_2k.json"
    local = compare.local_reports({"codealpaca": path}, progress=False)
    ledger = ledger_table(datasets.measure(fast=True, seed=42, local=local))
    by_key = {(row.published.key, row.measured.variant): row for row in ledger}
    for key in ("table3.codealpaca.long_pct", "abstract.curated_long_pct"):
        row = by_key[f"clairvoyant.{key}", path.name]
        assert row.measured.n == 2_015
        assert row.verdict.kind == "reproduced"
    table = datasets.published_table3(local).set_index("corpus")
    assert table.loc["CodeAlpaca 20K", "ours"].startswith("code_alpaca_2k.json: 0.00 %")


def test_table_3_by_one_rule() -> None:
    table = datasets.published_table3().set_index("corpus")
    assert table.loc["CNN/DailyMail", "usable, as printed"] == "Test-only"
    assert table.loc["CNN/DailyMail", "by our rules"] == table.loc["Alpaca 52K", "by our rules"] == "starved"
    assert table.loc["Dolly 15K", "by our rules"] == "test only"
    assert table.loc["ShareGPT", "by our rules"] == "usable, balanced"
    assert table.loc["LMSYS-Chat-1M", "ours"] == "not run here"
    assert "all turns: 5." in table.loc["ShareGPT", "ours"]


def run(*arguments: str):
    from clairvoyant_lab.cli.app import app

    return CliRunner().invoke(app, list(arguments))


def test_features_command() -> None:
    result = run("features", "What is rain?", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert list(found) == list(cl.FEATURE_NAMES)
    assert (found["ends_with_question"], found["verb_what"]) == (1, 1)
    assert run("features", "x", "--variant", "mine").exit_code == 2


def test_corpora_commands(tmp_path: Path) -> None:
    listed = json.loads(run("corpora", "list", "--json").stdout)
    assert {"sharegpt", "lmsys", "oasst1", "alpaca", "codealpaca", "dolly", "cnn_dailymail", "wildchat"} <= {
        row["name"] for row in listed
    }
    told = json.loads(run("corpora", "starvation", "sharegpt", "--json").stdout)
    assert told["verdict"] == "usable, limited"
    assert len(told["classes"]) == 9
    path = tmp_path / "mine.csv"
    path.write_text("q,a\nWhat is rain?,water\nWhat is snow?,water too\n")
    assert run("corpora", "starvation", str(path), "--language", "any").exit_code == 2
    named = ["--prompt-column", "q", "--response-column", "a", "--tokenizer", "chars/4", "--language", "any"]
    assert run("corpora", "starvation", str(path), *named, "--json").exit_code == 0
    assert run("corpora", "starvation", "nothing").exit_code == 2
    assert run("corpora", "starvation", str(path), str(path), "--path", str(path)).exit_code == 2
    assert run("corpora", "starvation", str(path), *named[:2]).exit_code == 2


def test_starvation_command_compares_files(triple: list[Path], shared_dir: Path) -> None:
    how = ["--tokenizer", "chars/4", "--language", "any", "--keep-duplicates"]
    files = [str(file) for file in triple]
    found = json.loads(run("corpora", "starvation", *files, *how, "--json").stdout)
    shares = [one["classes"][2]["share"] for one in found]
    assert [round(100 * share, 1) for share in shares] == [2.5, 16.8, 29.8]
    table = run("corpora", "starvation", *files, *how).stdout
    assert [line.split()[-1] for line in table.splitlines() if "805" in line] == ["starved", "only", "only"]
    trace = run("corpora", "starvation", str(shared_dir / "data" / "azure_llm_2023_conv.csv"))
    assert "read 19,366, kept 19,366" in trace.stdout


def test_build_command_writes_figures_without_text(tmp_path: Path, shared_dir: Path) -> None:
    target = tmp_path / "out.parquet"
    source = str(shared_dir / "data" / "code_alpaca_2k.json")
    result = run("corpora", "build", source, "-o", str(target), "--tokenizer", "chars/4", "-q")
    assert result.exit_code == 0, result.output
    frame = pd.read_parquet(target)
    assert "prompt" not in frame
    assert len(frame) > 1_900
