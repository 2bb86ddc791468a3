"""Tables for people: n/a for what doesn't exist, whole numbers without a point, the frame untouched."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from clairvoyant_lab.figures import theme
from clairvoyant_lab.figures.show import show_table
from clairvoyant_lab.results import counted, format_column, format_value, frame_html


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([math.nan, 50.0, 1500.0], ["n/a", "50", "1,500"]),
        ([None, True, False], ["n/a", "yes", "no"]),
        ([7, 12_345], ["7", "12,345"]),
        ([170.88, 171.04, -0.5], ["170.88", "171.04", "-0.50"]),
        ([1 / 3, 2 / 3], ["0.3333", "0.6667"]),
        ([1e-6, 2.0], ["1e-06", "2"]),  # one number of digits would show the first as nothing
        ([math.inf, 1.5], ["inf", "1.5"]),
        ([pd.NA, pd.NaT, math.nan], ["n/a", "n/a", "n/a"]),
        ([0.0, 0.0], ["0", "0"]),
        ([], []),
        (["a < b", None, [1, 2]], ["a < b", "n/a", "[1, 2]"]),
    ],
)
def test_a_column_is_written_for_people(values: list[object], texts: list[str]) -> None:
    assert format_column(values)[0] == texts


def test_the_frame_keeps_its_numbers_and_the_page_its_escapes() -> None:
    frame = pd.DataFrame({"policy": ["<b>ljf", "isjl"], "alpha": [math.nan, 50.0], "fair": [None, True]})
    html = frame_html(frame, caption="a & b")
    assert frame["alpha"].dtype == np.float64
    assert "NaN" not in html
    assert "<td style='text-align:right'>n/a</td>" in html
    assert "<td style='text-align:right'>50</td>" in html
    assert "&lt;b&gt;ljf" in html
    assert "a &amp; b" in html
    assert html.count("<th ") == 3  # an index that only counts rows is left out
    named = frame_html(frame.set_index(["policy", "alpha"]))
    assert named.count("<th ") == 3
    texts = frame_html(frame.set_index("policy").rename_axis(None))
    assert "&lt;b&gt;ljf" in texts


def test_columns_of_two_levels_are_written_in_one() -> None:
    frame = pd.DataFrame({("p50_s", "fcfs"): [1.5], ("p50_s", "sjf"): [2.5]})
    assert ">p50_s fcfs<" in frame_html(frame)


def test_show_table_publishes_html_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.publish_display_data", lambda data: seen.append(data))
    show_table(pd.DataFrame({"alpha": [math.nan, 2.0]}))
    assert "n/a" in seen[0]["text/html"]
    assert "n/a" in seen[0]["text/plain"]
    json.dumps(seen)


def test_values_and_counts() -> None:
    assert format_value(30_057.3) == "30,057"
    assert format_value(math.nan) == "n/a"
    assert format_value(1.23456) == "1.235"
    assert [counted(n, "row") for n in (0, 1, 1_204)] == ["0 rows", "1 row", "1,204 rows"]
    assert counted(2, "differs", "differ") == "2 differ"


def test_labels_and_ticks() -> None:
    assert theme.run_label("isjl(100)") == "ISJL(100)"
    assert theme.run_label("sjf, τ = 60 s") == "SJF, τ = 60 s"
    assert theme.run_label("mine") == "mine"
    ticks = theme.log_ticks(3, 400)
    assert dict(zip(ticks["tickvals"], ticks["ticktext"], strict=True))[20.0] == "20"
    assert ticks["ticktext"][-1] == "5,000"


def test_an_index_may_be_called_as_a_column_is() -> None:
    table = frame_html(pd.DataFrame({"n": [1], "": [2]}, index=pd.Index(["x"], name="n")))
    assert table.count("<th") - table.count("<thead") == 3
    nested = pd.DataFrame({"n": [1]}, index=pd.MultiIndex.from_tuples([("a", "b")]))
    assert ">a<" in frame_html(nested)
    assert ">b<" in frame_html(nested)


def test_cells_of_numpys_kinds() -> None:
    cells = [np.str_("x"), np.bool_(True), np.array([1, 2]), np.datetime64("2020-01-01"), np.float32(2.5)]
    table = frame_html(pd.DataFrame({"a": pd.Series(cells, dtype=object)}))
    for text in ("x", "yes", "[1 2]", "2020-01-01", "2.5"):
        assert f">{text}<" in table
    assert format_column([-0.0, 5.0]) == (["0", "5"], True)
