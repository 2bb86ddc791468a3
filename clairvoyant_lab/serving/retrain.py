"""Learn from a journal: train on its earlier part, compare with what was in use on its held-out tail.

A journal that kept n-grams teaches a rich model, like the one that serves by default; one without teaches
the lexical model of the paper, which ranks far less well.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError, unknown_name
from clairvoyant_lab.journal_reader import TrainingSet, read_journal
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, LengthClass, classify_lengths
from clairvoyant_lab.results import counted
from clairvoyant_lab.serving.retrain_report import RetrainReport, report_on_tail

if TYPE_CHECKING:
    from clairvoyant_lab.predictor import TrainedPredictor, TrainedRich
    from clairvoyant_lab.predictor.linear import LinearScores
    from clairvoyant_lab.predictor.rich_ways import WayChoice

__all__ = ["KINDS", "RetrainReport", "retrain_from_journal"]

KINDS = ("auto", "lexical", "rich")
MODEL = "sharegpt-rich"

_LEARNT = "words_learnt_unix_s"
_WAYS_SAID = {
    "own": "words and trees of its own",
    "base": "the words of {}, weighed anew",
    "base+trees": "the words of {}, trees of its own",
}

_BLOCKS = 40
"""Stretches of time that folds keep whole: turns of a conversation come soon after one another."""


def retrain_from_journal(
    path: str | Path,
    out: str | Path,
    *,
    kind: str = "auto",
    base: str | Path | None = MODEL,
    hold_out: float = 0.2,
    seed: int = 42,
    name: str = "journal",
    **hyper: Any,
) -> RetrainReport:
    """Train a model on a journal's earlier requests, export it, and compare on the later ones.

    Parameters
    ----------
    path : path
        The journal.
    out : path
        The ONNX file to write; its folder must exist.
    kind : {"auto", "lexical", "rich"}
        `rich` learns from words too, and needs a journal with n-grams and surface counts (the proxy's
        `journal_ngrams`); `lexical` from the 19 features; `auto` takes rich where the journal can teach it.
    base : str, path or None
        A rich model whose linear scores over words may be taken over, when they rank this traffic better
        than words learnt from the journal alone (`predictor.rich_ways`). It must not have learnt its words
        from the same requests. None: own words only.
    hold_out : float
        Share of the rows, the last ones, that the comparison is made on.
    seed : int
        Of training and bootstrap.
    name : str
        The model's name.
    **hyper
        As for `train_predictor` or `train_rich`.

    Raises
    ------
    ParameterError
        For a share outside (0, 1), an unknown kind, a missing folder, or a base that cannot serve.
    StarvedDatasetError
        If a class has too few rows to learn from.
    DataError
        If the journal has no usable row, or `rich` is asked for and it kept no n-grams.
    """
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    if not 0.0 < hold_out < 1.0:
        raise ParameterError("hold_out", hold_out, "give a share above 0 and below 1")
    target = Path(out)
    if target.suffix != ".onnx":
        raise ParameterError("out", str(out), "give a name that ends in .onnx")
    if not target.absolute().parent.is_dir():
        raise ParameterError("out", str(out), "its folder does not exist; make it first")
    rows = read_journal(path).training_set()
    if len(rows) < 2:
        raise DataError(
            f"has {counted(len(rows), 'request')} to learn from (left out: {_left_out(rows.dropped)})",
            source=str(path),
        )
    chosen, why = _choose_kind(rows, kind, hold_out, str(path))
    if chosen == "rich":
        rows = rows.take(np.flatnonzero(rows.has_words))
    cut = _cut(len(rows), hold_out)
    learnt, tail = rows.take(np.arange(cut)), rows.take(np.arange(cut, len(rows)))
    if chosen == "lexical":
        trained = _train_lexical(learnt, seed, hyper)
        trained.export_onnx(target, name=name)
        p_new, way, ranking = trained.predict_proba(tail.features), None, {}
    else:
        rich, choice = _train_rich(learnt, base, seed, hyper)
        rich.export_onnx(target, name=name)
        p_new, way, ranking = rich.from_scan(_rich_features(tail), tail.ngrams), choice.way, choice.ranking
        why = f"{why}; {_WAYS_SAID[choice.way].format(base)}: {choice.why}"
    return report_on_tail(
        tail,
        p_new,
        seed,
        model=str(target),
        kind=chosen,
        way=way,
        why=why,
        n_train=cut,
        ranking_in_training=ranking,
    )


def _choose_kind(rows: TrainingSet, kind: str, hold_out: float, source: str) -> tuple[str, str]:
    """Lexical or rich, and why; refuses what cannot be learnt, naming what would mend it."""
    from clairvoyant_lab.predictor.ngrams import RICH_HASH

    n, n_words = len(rows), int(rows.has_words.sum())
    if n_words and rows.words_hash != RICH_HASH:
        short, n_words = f"its n-grams are of schema {rows.words_hash}, this version reads {RICH_HASH}", 0
    elif not n_words:
        short = f"none of its {n} requests has n-grams and surface counts"
    else:
        few = _too_few(rows.response_tokens[rows.has_words], hold_out)
        short = "" if few is None else f"of its {n_words} requests with n-grams {few}"
    if kind != "lexical" and not short:
        return "rich", f"{n_words} of {n} requests have n-grams and surface counts"
    if kind == "rich":
        remedy = (
            "let the proxy serve more" if n_words else "keep them from now on (proxy --journal-ngrams)"
        ) + ", or retrain with kind lexical"
        raise (StarvedDatasetError if n_words else DataError)(f"{short}: {remedy}", source=source)
    few = _too_few(rows.response_tokens, hold_out)
    if few is not None:
        raise StarvedDatasetError(
            f"of its {n} requests {few}: let the proxy serve more, without token caps where that can be "
            f"(left out: {_left_out(rows.dropped)})",
            source=source,
        )
    return "lexical", "asked for" if kind == "lexical" else f"{short} (proxy --journal-ngrams keeps them)"


def _left_out(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "none"


def _too_few(tokens: NDArray[np.int64], hold_out: float) -> str | None:
    """Which class has too few of the rows to learn from; None if each has enough."""
    from clairvoyant_lab.predictor.training import MIN_ROWS_PER_CLASS

    cut = _cut(tokens.size, hold_out)
    counts = np.bincount(classify_lengths(tokens[:cut]), minlength=3)
    least = LengthClass(int(counts.argmin()))
    if counts[least] >= MIN_ROWS_PER_CLASS:
        return None
    return (
        f"the first {cut} are to learn from, and {counts[least]} of those are {least.label}; "
        f"{MIN_ROWS_PER_CLASS} of each class are needed"
    )


def _cut(n: int, hold_out: float) -> int:
    return max(1, min(n - 1, round(n * (1.0 - hold_out))))


def _train_lexical(rows: TrainingSet, seed: int, hyper: dict[str, Any]) -> TrainedPredictor:
    from clairvoyant_lab.predictor import train_predictor

    return train_predictor(rows.features, rows.response_tokens, seed=seed, test_fraction=None, **hyper)


def _rich_features(rows: TrainingSet) -> NDArray[np.float32]:
    return np.column_stack([rows.features, rows.surface])


def _train_rich(
    rows: TrainingSet, base: str | Path | None, seed: int, hyper: dict[str, Any]
) -> tuple[TrainedRich, WayChoice]:
    from clairvoyant_lab.predictor.rich_rows import rows_from_scan
    from clairvoyant_lab.predictor.rich_ways import choose_way, fit_way

    span = [float(rows.arrival_unix_s[0]), float(rows.arrival_unix_s[-1])]
    scores, origin_of_base = (None, {}) if base is None else _read_base(base, span)
    block = np.arange(len(rows)) * _BLOCKS // len(rows)
    bounds = (SHORT_BELOW_TOKENS, LONG_FROM_TOKENS)
    table = rows_from_scan(_rich_features(rows), rows.ngrams, rows.response_tokens, block, None, bounds)
    choice = choose_way(table, scores, seed=seed, **hyper)
    trained = fit_way(choice.way, table, scores, seed=seed, **hyper)
    origin = {_LEARNT: span} if choice.way == "own" else {"base": Path(str(base)).stem, **origin_of_base}
    return replace(trained, hyper={**trained.hyper, "way": choice.way, **origin}), choice


def _read_base(base: str | Path, span: list[float]) -> tuple[LinearScores, dict[str, Any]]:
    """Linear scores of a rich model, and when it learnt its words if that was from a journal.

    Scores of rows that a model learnt its words from are far too good: the choice between the ways and the
    probabilities would come out wrong.
    """
    from clairvoyant_lab.predictor import LengthPredictor
    from clairvoyant_lab.predictor.model_info import RICH
    from clairvoyant_lab.predictor.rich_engine import read_linear
    from clairvoyant_lab.predictor.runtime import model_path

    info = LengthPredictor.load(base).info
    if info.schema != RICH:
        raise ParameterError("base", str(base), f"is a {info.schema} model; give a rich one, or none")
    learnt = info.hyper.get(_LEARNT)
    if not isinstance(learnt, list):
        return read_linear(model_path(base)), {}
    if learnt[0] <= span[1] and span[0] <= learnt[1]:
        raise ParameterError(
            "base",
            str(base),
            f"learnt its words from requests of the same time; give another model, such as {MODEL}",
        )
    return read_linear(model_path(base)), {_LEARNT: learnt}
