"""The published numbers are what the papers print: the registry, and cell by cell where the texts lie."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.papers.published import (
    PAPERS,
    load_published,
    parse_printed,
    published_keys,
    published_value,
)

NUMBERS = load_published()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.71", {"value": 10.71, "decimals": 2, "relation": "="}),
        ("1,004,248", {"value": 1004248.0, "decimals": 0}),
        ("-17.6%", {"value": -17.6, "unit": "%", "decimals": 1}),
        ("−17.6%", {"value": -17.6}),
        ("+3.2%", {"value": 3.2}),
        ("<0.02%", {"value": 0.02, "relation": "<", "unit": "%"}),
        ("≥800", {"value": 800.0, "relation": ">="}),
        ("~240", {"value": 240.0, "relation": "~"}),
        ("62–96%", {"value": 62.0, "upper": 96.0, "unit": "%"}),
        ("229.5 ± 12.3", {"value": 229.5, "spread": 12.3}),
        ("79.4 ± 13.7%", {"value": 79.4, "spread": 13.7, "unit": "%"}),
        ("30,000×", {"value": 30000.0, "unit": "×"}),
        ("0.029 ms", {"value": 0.029, "unit": "ms", "decimals": 3}),
    ],
)
def test_printed_forms(text: str, expected: dict[str, object]) -> None:
    read = parse_printed(text)
    assert {name: read[name] for name in expected} == expected


@pytest.mark.parametrize("text", ["", "four", "3/4", "1.2.3", "12 apples", "10-20 ms extra"])
def test_what_is_no_printed_number_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        parse_printed(text)


def test_keys_are_stable_names_below_their_paper() -> None:
    for key, number in NUMBERS.items():
        assert key == number.key
        assert key.split(".")[0] == number.paper in PAPERS
        assert re.fullmatch(r"[a-z0-9_.]+", key), key


def test_every_number_says_where_it_stands_and_what_it_allows() -> None:
    for number in NUMBERS.values():
        assert number.table
        assert number.cell
        assert number.text
        assert number.allowance > 0
        assert number.upper is None or number.upper > number.value
        assert number.tolerance == 0 or number.tolerance_why or number.relation in ("~", ">="), number.key


def test_the_tables_are_whole() -> None:
    sizes = {
        "clairvoyant.table1": 9, "clairvoyant.table5": 28, "clairvoyant.table9": 24,
        "clairvoyant.table10": 27,
        "isjl.table1": 72, "isjl.table2": 21, "isjl.table3": 24,
    }  # fmt: skip
    assert {prefix: len(published_keys(prefix)) for prefix in sizes} == sizes
    assert len([k for k in published_keys("clairvoyant.table4") if k.count(".") == 4]) == 36
    assert len([k for k in published_keys("clairvoyant.table7") if k.count(".") == 3]) == 12


def test_values_are_looked_up_by_key() -> None:
    assert published_value("clairvoyant.table10.cs2_2.0.tau_1x.p50_s") == 10.10
    with pytest.raises(ParameterError, match=r"Did you mean 'clairvoyant\.table10\.cs2_2\.0\.tau_1x\.p50_s'"):
        published_value("clairvoyant.table10.cs2_2.0.tau_1x.p50")
    with pytest.raises(ParameterError, match="prefix"):
        published_keys("clairvoyant.table99")


# ------------------------------------------------------------------ against the texts of the papers


def plain(text: str) -> str:
    """Strip the texts' markup to what a reader sees."""
    for mark, shown in ((r"\pm", "±"), (r"\times", "×"), (r"\sim", "~"), (r"\approx", "≈"), (r"\dagger", ""),
                        (r"\geq", "≥"), (r"\lesssim", "≲"), ("{,}", ",")):  # fmt: skip
        text = text.replace(mark, shown)
    text = re.sub(r"\\(mathbf|text|textbf)\{([^}]*)\}", r"\2", text)
    text = re.sub("[\u2009\u202f\u00a0]", " ", text)
    text = text.replace(r"\%", "%").replace("$", "").replace("†", "")
    return re.sub(r"[ ]+", " ", text)


@pytest.fixture(scope="module")
def texts(shared_dir: Path) -> dict[str, str]:
    folder = shared_dir / "papers"
    if not (folder / "clairvoyant.txt").is_file():
        pytest.skip("no texts of the papers in the shared folder")
    return {paper: plain((folder / f"{paper}.txt").read_text("utf-8")) for paper in PAPERS}


def table(text: str, number: int) -> list[list[str]]:
    """Return the tab-separated rows below a table's caption."""
    lines = text[text.index(f"\nTable {number}:") :].splitlines()[2:]
    rows = []
    for line in lines:
        if rows and "\t" not in line and line.strip() != "FCFS / SJF":
            break
        if "\t" in line:
            rows.append([cell.strip() for cell in line.split("\t")])
    return rows


def shown(key: str) -> str:
    return NUMBERS[key].text.replace(" ms", "").replace(" ", "")


def bare(cell: str) -> str:
    return cell.replace(" ms", "").replace(" ", "")


def test_clairvoyant_table_1(texts: dict[str, str]) -> None:
    for row, name in zip(table(texts["clairvoyant"], 1)[1:], ("short", "medium", "long"), strict=True):
        assert row[1:] == [shown(f"clairvoyant.table1.{name}.{c}") for c in ("mean_s", "p50_s", "p95_s")]


def test_clairvoyant_table_3(texts: dict[str, str]) -> None:
    names = ("sharegpt", "lmsys", "oasst1", "alpaca", "codealpaca", "dolly", "cnn_dailymail")
    for row, name in zip(table(texts["clairvoyant"], 3)[1:], names, strict=True):
        prefix = f"clairvoyant.table3.{name}"
        assert row[1].split()[0] == shown(f"{prefix}.total")
        if "filtered" in row[1]:
            assert f"({shown(f'{prefix}.filtered')} filtered)" in row[1]
        assert row[2:6] == [shown(f"{prefix}.{part}") for part in ("short", "medium", "long", "long_pct")]


def test_clairvoyant_table_4(texts: dict[str, str]) -> None:
    rows = table(texts["clairvoyant"], 4)[1:]
    names = [(model, split) for model in "abc" for split in ("train", "val", "test")]
    for row, (model, split) in zip(rows, names, strict=True):
        prefix = f"clairvoyant.table4.{model}.{split}"
        assert row[3:] == [shown(f"{prefix}.{part}") for part in ("short", "medium", "long", "total")]


def test_clairvoyant_table_5(texts: dict[str, str]) -> None:
    rows = table(texts["clairvoyant"], 5)[1:]
    assert len(rows) == 7
    for row in rows:
        prefix = f"clairvoyant.table5.{row[0]}"
        assert row[1:5] == [shown(f"{prefix}.{c}") for c in ("sharegpt", "lmsys", "oasst1", "average")]


def test_clairvoyant_tables_6_7_and_8(texts: dict[str, str]) -> None:
    for row, model in zip(table(texts["clairvoyant"], 6)[1:], "abc", strict=True):
        prefix = f"clairvoyant.table6.{model}"
        assert row[2:4] == [shown(f"{prefix}.ranking_pct"), shown(f"{prefix}.class_pct")]
        assert row[4] == f"{shown(f'{prefix}.delta_pp')} pp"
    corpora = ("sharegpt", "lmsys", "oasst1", "dolly")
    for row, model in zip(table(texts["clairvoyant"], 7)[1:], "abc", strict=True):
        assert row[1:] == [shown(f"clairvoyant.table7.{model}.{corpus}") for corpus in corpora]
    names = ("fcfs", "prompt_length", "keyword", "distilbert", "clairvoyant")
    for row, name in zip(table(texts["clairvoyant"], 8)[1:], names, strict=True):
        prefix = f"clairvoyant.table8.{name}"
        columns = ("p99_ms", "sharegpt", "lmsys", "oasst1")
        assert [bare(c) for c in row[1:5]] == [shown(f"{prefix}.{column}") for column in columns]


def test_clairvoyant_table_9(texts: dict[str, str]) -> None:
    rows = [row for row in table(texts["clairvoyant"], 9) if "±" in "".join(row)]
    names = [(model, cls) for model in ("gemma3_4b", "llama3_1_8b") for cls in ("short", "long")]
    for row, (model, cls) in zip(rows, names, strict=True):
        cells = [cell for cell in row if "±" in cell]
        for cell, column in zip(cells, ("p50_s", "p95_s", "p99_s"), strict=True):
            prefix = f"clairvoyant.table9.{model}.{cls}"
            expected = f"{shown(f'{prefix}.fcfs.{column}')}/{shown(f'{prefix}.sjf.{column}')}"
            assert cell.replace(" ", "") == expected


def test_clairvoyant_table_10(texts: dict[str, str]) -> None:
    for row, cs2 in zip(table(texts["clairvoyant"], 10)[1:], ("0.5", "1.0", "2.0"), strict=True):
        prefix = f"clairvoyant.table10.cs2_{cs2}"
        assert row[:2] == [cs2, shown(f"{prefix}.fcfs.p50_s")]
        for cell, tau in zip(row[2:], ("tau_1x", "tau_2x", "tau_3x", "tau_none"), strict=True):
            assert cell == f"{shown(f'{prefix}.{tau}.p50_s')} ({shown(f'{prefix}.{tau}.change_pct')})"


def test_isjl_tables(texts: dict[str, str]) -> None:
    policies = ("fcfs", "ljf", *(f"isjl_{a}" for a in (50, 100, 150, 250, 300, 400, 500)))
    columns = ("profit", "cost", "tau_q", "c_t", "tau_e", "throughput", "gain_pct", "extent")
    for row, policy in zip(table(texts["isjl"], 1)[1:], policies, strict=True):
        assert row[1:] == [shown(f"isjl.table1.{policy}.{column}") for column in columns]
    for row, policy in zip(table(texts["isjl"], 2)[1:], policies[2:], strict=True):
        assert row[1:] == [
            shown(f"isjl.table2.{policy}.{c}") for c in ("saving_steps", "tau_e", "break_even_c")
        ]
    rows = [row for row in table(texts["isjl"], 3) if row[-1].isdigit()]
    names = [(batch, measure) for batch in ("b16", "b32") for measure in ("throughput", "ael")]
    order = ("fcfs", "sjf", "ljf", "isjl_50", "isjl_100", "isjl_150")
    for row, (batch, measure) in zip(rows, names, strict=True):
        assert row[2:] == [shown(f"isjl.table3.{batch}.{policy}.{measure}") for policy in order]


# printed as a word or formula: the text must hold the words, the value is what they say
FORMULAS = {"3/4": "3}{4", "2/3": "2}{3", "4/5": "4}{5", "1/2": "1}{2", "1/3": "1}{3", "B/(2B-1)": "B}{2B-1",
            "(2-γ)/(3-2γ)": r"2-\gamma}{3-2\gamma", "(√5-1)/2": r"\sqrt{5}-1}{2",
            "Π = R - τQ - cT - τE": r"R(\mathcal{I})-\tau Q(\mathcal{I})-cT_", "E <= αO": r"\leq\alpha O(",
            "T = L": r"T_{\mathcal{F}CFS}(\mathcal{I})=L", "L(L-1)/2": "L(L-1)}{2",
            "E = 0": r"E_{\mathcal{L}JF}(\mathcal{I})=0",
            "L + ⌈(L-1)/2⌉": r"L+\left\lceil\frac{L-1}{2}\right\rceil"}  # fmt: skip


def test_every_other_number_stands_in_its_paper(texts: dict[str, str]) -> None:
    for key, number in NUMBERS.items():
        text = texts[number.paper]
        wanted = FORMULAS.get(number.text, number.text)
        if wanted in text or wanted.replace(" ±", "% ±") in text or wanted.replace("–", "%–") in text:
            continue
        core = re.search(r"\d[\d,]*(?:\.\d+)?", wanted)
        assert core is not None, f"{key}: {number.text!r} is not in the text"
        assert re.search(rf"(?<![\d.,]){re.escape(core.group())}(?![\d])", text), f"{key}: {number.text!r}"
