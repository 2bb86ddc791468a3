"""Checks of the Clairvoyant paper against itself; each yields what it finds."""

from __future__ import annotations

from collections.abc import Iterator

from clairvoyant_lab.papers.printed import Book, Check, Span
from clairvoyant_lab.papers.verdicts import Contradiction

__all__ = ["CLAIRVOYANT_CHECKS"]

C = "clairvoyant"
DATASETS = ("sharegpt", "lmsys", "oasst1", "alpaca", "codealpaca", "dolly", "cnn_dailymail")


def _dataset_sums(book: Book) -> Iterator[Contradiction]:
    """Table 3: classes must add to the total or to the filtered total."""
    for name in DATASETS:
        keys = [f"{C}.table3.{name}.{part}" for part in ("short", "medium", "long")]
        totals = [key for part in ("total", "filtered") if (key := f"{C}.table3.{name}.{part}") in book]
        added = book.count(keys[0]) + book.count(keys[1]) + book.count(keys[2])
        if not any(added.meets(Span(book[key], book[key])) for key in totals):
            total = sum(book[key] for key in keys)
            yield Contradiction(
                f"table3_sum_{name}",
                (*keys, *totals),
                f"Table 3, {name}",
                f"{' + '.join(book.text(key) for key in keys)} = {total:,.0f}, not {book.text(totals[0])}",
            )


def _dataset_shares(book: Book) -> Iterator[Contradiction]:
    """Table 3: the share of Long must follow from its counts."""
    for name in DATASETS:
        long_key, share_key = f"{C}.table3.{name}.long", f"{C}.table3.{name}.long_pct"
        totals = [key for part in ("total", "filtered") if (key := f"{C}.table3.{name}.{part}") in book]
        hundred = Span(100.0, 100.0)
        shares = {key: hundred * book.count(long_key) / Span(book[key], book[key]) for key in totals}
        if not any(span.meets(book.span(share_key)) for span in shares.values()):
            computed = " or ".join(
                f"{book.text(long_key)} / {book.text(key)} = {100 * book[long_key] / book[key]:.1f} %"
                for key in totals
            )
            yield Contradiction(
                f"table3_share_{name}",
                (long_key, share_key, *totals),
                f"Table 3, {name}",
                f"{computed}, not {book.text(share_key)}",
            )


def _same_total(book: Book) -> Iterator[Contradiction]:
    """Table 3: ShareGPT and Alpaca are different corpora."""
    first, second = f"{C}.table3.sharegpt.total", f"{C}.table3.alpaca.total"
    if book[first] == book[second]:
        classes = [book[f"{C}.table3.sharegpt.{part}"] for part in ("short", "medium", "long")]
        yield Contradiction(
            "table3_same_total",
            (first, *(f"{C}.table3.sharegpt.{part}" for part in ("short", "medium", "long"))),
            "Table 3, ShareGPT and Alpaca",
            f"two unrelated corpora have the same total, {book.text(first)}, and ShareGPT's classes add to "
            f"{sum(classes):,.0f}",
        )


def _balance_limit(book: Book) -> Iterator[Contradiction]:
    """Section 4.2: how many balanced rows do so many Long rows allow."""
    source, rows = f"{C}.section4_2.oasst1.long_source", f"{C}.section4_2.oasst1.balanced_rows"
    each = f"{C}.section4_2.oasst1.per_class"
    if book[source] > 1.05 * book[each]:
        yield Contradiction(
            "section4_2_limit",
            (source, rows, each),
            "Section 4.2",
            f"{book.text(source)} Long rows as the limit would allow {3 * book[source]:,.0f} balanced "
            "rows, not "
            f"{book.text(rows)} ({book.text(each)} per class)",
        )


def _split_sums(book: Book) -> Iterator[Contradiction]:
    """Table 4: classes add to totals, and the splits to the balanced set."""
    for model, rows_key in (
        ("a", f"{C}.section4_2.sharegpt.balanced_rows"),
        ("c", f"{C}.section4_2.oasst1.balanced_rows"),
    ):
        keys = [f"{C}.table4.{model}.{split}.total" for split in ("train", "val", "test")]
        total = sum(book[key] for key in keys)
        if total != book[rows_key]:
            yield Contradiction(
                f"table4_sum_{model}",
                (*keys, rows_key),
                f"Table 4, model {model.upper()}, and section 4.2",
                f"{' + '.join(book.text(key) for key in keys)} = {total:,.0f}, not {book.text(rows_key)}",
            )
    for model in "abc":
        for split in ("train", "val", "test"):
            parts = [f"{C}.table4.{model}.{split}.{part}" for part in ("short", "medium", "long")]
            whole = f"{C}.table4.{model}.{split}.total"
            if sum(book[key] for key in parts) != book[whole]:
                yield Contradiction(
                    f"table4_classes_{model}_{split}",
                    (*parts, whole),
                    f"Table 4, model {model.upper()}, {split}",
                    f"{' + '.join(book.text(key) for key in parts)} is not {book.text(whole)}",
                )


def _test_sizes(book: Book) -> Iterator[Contradiction]:
    """Table 4's test rows against Table 6's n, and against the held-out share of section 4.3."""
    rows6, share = f"{C}.table6.test_rows", f"{C}.section4_3.test_pct"
    for model in "abc":
        test = f"{C}.table4.{model}.test.total"
        if book[test] != book[rows6]:
            yield Contradiction(
                f"table4_table6_{model}",
                (test, rows6),
                f"Table 4 and Table 6, model {model.upper()}",
                f"{book.text(test)} test rows against {book.text(rows6)}",
            )
        total = sum(book[f"{C}.table4.{model}.{split}.total"] for split in ("train", "val", "test"))
        held_out = 100 * book[test] / total
        if abs(held_out - book[share]) > 1:
            yield Contradiction(
                f"table4_share_{model}",
                (test, share),
                f"Table 4, model {model.upper()}, and section 4.3",
                f"{book.text(test)} of {total:,.0f} rows is {held_out:.0f} %, and {book[share]:.0f} % "
                "would be "
                f"{book[share] * total / 100:,.0f} rows",
            )
    val = f"{C}.table4.val_pct_of_train"
    shares = {m: 100 * book[f"{C}.table4.{m}.val.total"] / book[f"{C}.table4.{m}.train.total"] for m in "abc"}
    if any(abs(value - book[val]) > 1 for value in shares.values()):
        yield Contradiction(
            "table4_val",
            (val, *(f"{C}.table4.{m}.val.total" for m in "abc")),
            "Table 4 and its caption",
            f"the validation rows are {', '.join(f'{value:.1f}' for value in shares.values())} % of "
            "the training "
            f"rows, not {book.text(val)}",
        )


def _ranking_twice(book: Book) -> Iterator[Contradiction]:
    """Table 6 against Table 8: one model, one test split, one metric."""
    for model, corpus in (("a", "sharegpt"), ("b", "lmsys"), ("c", "oasst1")):
        first, second = f"{C}.table6.{model}.ranking_pct", f"{C}.table8.clairvoyant.{corpus}"
        if not book.span(first).meets(book.span(second)):
            yield Contradiction(
                f"table6_table8_{model}",
                (first, second),
                f"Table 6 and Table 8, {corpus}",
                f"{book.text(first)} against {book.text(second)} on the same test split",
            )


def _one_latency_two_models(book: Book) -> Iterator[Contradiction]:
    """Table 8's DistilBERT overhead against section 3.3's sentence embedding."""
    first, second = f"{C}.table8.distilbert.p99_ms", f"{C}.section3_3.embedding_p99_ms"
    if abs(book[first] - book[second]) < 1:
        yield Contradiction(
            "table8_section3_3_p99",
            (first, second),
            "Table 8 and section 3.3",
            f"the P99 of DistilBERT, {book.text(first)}, is that of the sentence-embedding model, "
            f"{book.text(second)}",
        )


def _fidelity(book: Book) -> Iterator[Contradiction]:
    """The abstract's share of the transformer's ranking accuracy against Table 8."""
    claim = f"{C}.abstract.ranking_fidelity_pct"
    hundred = Span(100.0, 100.0)
    shares = {}
    for corpus in ("sharegpt", "lmsys", "oasst1"):
        ours, theirs = (f"{C}.table8.{method}.{corpus}" for method in ("clairvoyant", "distilbert"))
        shares[corpus] = (hundred * book.span(ours) / book.span(theirs), 100 * book[ours] / book[theirs])
    low = {corpus: value for corpus, (span, value) in shares.items() if span.high < book[claim]}
    if low:
        mean = sum(value for _, value in shares.values()) / len(shares)
        yield Contradiction(
            "abstract_fidelity",
            (claim, *(f"{C}.table8.{m}.{corpus}" for corpus in low for m in ("clairvoyant", "distilbert"))),
            "the abstract and Table 8",
            f"{book.text(claim)} of DistilBERT's ranking accuracy, but "
            f"{', '.join(f'{value:.1f} % on {corpus}' for corpus, value in low.items())} (mean {mean:.1f} %)",
        )


def _net_harmful(book: Book) -> Iterator[Contradiction]:
    """Section 4.4 names so many net-harmful features and removes so many."""
    named, removed = f"{C}.section4_4.net_harmful_named", f"{C}.section4_4.net_harmful_removed"
    if book[named] != book[removed]:
        yield Contradiction(
            "section4_4_count",
            (named, removed, f"{C}.section4_4.minimal_model"),
            "Section 4.4",
            f"{book[named]:.0f} features are net-harmful, the minimal model removes all "
            f"{book[removed]:.0f} of them",
        )


def _ablation_averages(book: Book) -> Iterator[Contradiction]:
    """Table 5: the average column follows from its row, and section 4.4 repeats it."""
    features = sorted({key.split(".")[2] for key in book.numbers if key.startswith(f"{C}.table5.")})
    third = Span(1 / 3, 1 / 3)
    for feature in features:
        keys = [f"{C}.table5.{feature}.{corpus}" for corpus in ("sharegpt", "lmsys", "oasst1")]
        mean = (book.span(keys[0]) + book.span(keys[1]) + book.span(keys[2])) * third
        whole = f"{C}.table5.{feature}.average"
        if not mean.meets(book.span(whole)):
            yield Contradiction(
                f"table5_average_{feature}",
                (*keys, whole),
                f"Table 5, {feature}",
                f"the mean is {sum(book[key] for key in keys) / 3:.2f}, not {book.text(whole)}",
            )


def _timeout_definitions(book: Book) -> Iterator[Contradiction]:
    """Tau from waits (2.2) or from service (3.4)."""
    waits, service = (
        f"{C}.section2_2.tau_multiple_of_short_wait",
        f"{C}.section3_4.tau_multiple_of_short_service",
    )
    wait, tau = f"{C}.section5_5.short.fcfs.ttft_p50_s", f"{C}.section3_4.tau_s"
    from_wait = book[waits] * book[wait]
    if abs(from_wait / book[tau] - 1) > 0.2:
        yield Contradiction(
            "tau_definition",
            (waits, service, tau),
            "Section 2.2 and section 3.4",
            f"τ is {book[waits]:.0f} times the mean short wait in one and {book[service]:.0f} times "
            "the mean short "
            f"service in the other: with section 5.5's short wait of {book.text(wait)}, "
            f"{from_wait:.1f} s against "
            f"{book[tau]:.1f} s",
        )


def _timeout_as_bound(book: Book) -> Iterator[Contradiction]:
    """A bound on the wait that waits exceed."""
    tau, share = f"{C}.section3_4.tau_s", f"{C}.section5_6.long_over_tau_pct"
    wait = f"{C}.section5_6.long.tau_3x.wait_p99_s"
    if book[share] > 0:
        yield Contradiction(
            "tau_bound",
            (tau, share, wait),
            "Section 3.4 and section 5.6",
            f"τ of about {book[tau]:.1f} s is called an upper bound on the delay, yet "
            f"{book.text(share)} of the "
            f"Long requests waited longer than τ, and their P99 wait is {book.text(wait)}",
        )


def _replay(book: Book) -> Iterator[Contradiction]:
    """Section 5.5: throughput, utilisation, mean service and waits of one replay of 30 requests."""
    rho, mean, rate = (f"{C}.section5_5.{name}" for name in ("rho", "mean_service_s", "throughput_req_s"))
    rows = f"{C}.section5_5.requests"
    arrivals = book.span(rho) / book.span(mean)
    # 30 requests may straggle: their last service still counts into the span, so half the rate is allowed for
    if book.span(rate).high < 0.5 * arrivals.low:
        yield Contradiction(
            "section5_5_rates",
            (rho, mean, rate),
            "Section 5.5",
            f"ρ = {book.text(rho)} and E[S] = {book.text(mean)} s mean {book[rho] / book[mean]:.3f} "
            "req/s, the "
            f"throughput of {book.text(rate)} means ρ = {book[rate] * book[mean]:.2f}",
        )
    work = book[rows] * book.span(mean).high
    waits = [
        key
        for key in (
            f"{C}.section5_6.long.tau_3x.wait_p99_s",
            f"{C}.section5_6.long.fcfs.wait_p99_s",
            f"{C}.section5_6.long.tau_none.wait_max_s",
        )
        if book[key] > work
    ]
    if waits:
        yield Contradiction(
            "section5_6_work",
            (*waits, rows, mean),
            "Section 5.5 and section 5.6",
            f"waits of {', '.join(book.text(key) for key in waits)}, though all {book.text(rows)} "
            "requests together "
            f"are {book[rows] * book[mean]:.0f} s of work",
        )
    done, started = f"{C}.section5_5.short.sjf.e2e_p50_s", f"{C}.section5_5.short.sjf.ttft_p50_s"
    service = f"{C}.section3_4.short_service_s"
    if (book.span(done) - book.span(started)).high < 0.1 * book[service]:
        yield Contradiction(
            "section5_5_no_service",
            (done, started),
            "Section 5.5 and section 3.4",
            f"the short requests' completion, {book.text(done)}, equals their wait, "
            f"{book.text(started)}, which "
            f"leaves nothing for a service of about {book[service]:.1f} s",
        )


CLAIRVOYANT_CHECKS: tuple[Check, ...] = (
    _dataset_sums,
    _dataset_shares,
    _same_total,
    _balance_limit,
    _split_sums,
    _test_sizes,
    _ablation_averages,
    _net_harmful,
    _ranking_twice,
    _one_latency_two_models,
    _fidelity,
    _timeout_definitions,
    _timeout_as_bound,
    _replay,
)
