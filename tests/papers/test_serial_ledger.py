"""Section 5.6 comes out, each artefact under the rule that made it; every row has a printed number."""

from __future__ import annotations

from clairvoyant_lab.papers.ledger import ledger_table
from clairvoyant_lab.papers.serial import measure
from clairvoyant_lab.papers.serial_experiments import figure3, table10


def test_figure_3_peaks_at_0_74_between_17_and_19_percent() -> None:
    frame = figure3(range(60), rhos=(0.5, 0.65, 0.74, 0.82, 0.85))
    peak = frame.sort_values("cut_pct").iloc[-1]
    assert peak["rho"] == 0.74
    assert 17.0 <= peak["cut_pct"] <= 19.0 or peak["low_pct"] <= 19.0 <= peak["high_pct"]
    assert frame.set_index("rho").loc[0.85, "cut_pct"] < 10.0


def test_table_10_comes_out_under_shortest_and_not_under_the_papers_own_rule() -> None:
    frame = table10(range(60))
    frame["within"] = frame["z"].abs() <= 2
    within = frame.groupby("promotion")["within"].sum()
    assert len(frame) == 30
    assert within["shortest"] >= 13
    assert within["oldest"] <= 10
    # under section 3.4 τ = 1x is nearly FCFS; the paper prints -51 %
    cell = frame.query("promotion == 'oldest' and cs2 == 2.0 and setting == 'tau_1x'")
    assert cell["change_pct"].item() > -5.0


def test_every_serial_row_has_a_verdict() -> None:
    rows = measure(fast=True, seed=42)
    ledger = ledger_table(rows)
    frame = ledger.to_frame()
    assert len(frame) >= 120
    verdicts = frame.set_index(["key", "variant"])["verdict"]
    assert verdicts["clairvoyant.figure3.peak_cut_pct", ""] == "reproduced"
    assert verdicts["clairvoyant.section3_4.throughput_change_pct", ""] == "reproduced"
    assert verdicts["clairvoyant.section3_4.long_p95_inflation_pct", ""] == "reproduced"
    assert verdicts["clairvoyant.table10.cs2_2.0.tau_1x.p50_s", "shortest"] == "reproduced"
    assert verdicts["clairvoyant.table10.cs2_2.0.tau_1x.p50_s", "oldest"] == "differs"
    sections = {key.split(".")[1] for key in frame["key"]}
    assert {
        "table9",
        "section5_4",
        "section5_5",
        "section5_6",
        "section3_4",
        "figure3",
        "figure4",
    } <= sections
