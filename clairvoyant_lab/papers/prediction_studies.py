"""The studies behind the predictor's part of the ledger, run once and shared with the notebook's tables."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from clairvoyant_lab.errors import DataError, unknown_name
from clairvoyant_lab.papers.prediction_rows import (
    FOREIGN,
    corpus_rows,
    foreign_rows,
    held_out_texts,
    sharegpt_held_out,
)
from clairvoyant_lab.papers.reference_files import HOW_TO_RUN, reference_folder
from clairvoyant_lab.predictor.evaluation import Study, ablation, baselines, retraining_curve, seed_study
from clairvoyant_lab.predictor.ranking import RankingEstimate, bootstrap_ranking
from clairvoyant_lab.predictor.runtime import LengthPredictor

__all__ = ["held_out_ranking", "study"]


def study(
    kind: str,
    corpus: str,
    seeds: tuple[int, ...] = (42, 1, 2, 3, 4),
    reference_dir: str | Path | None = None,
) -> Study:
    """Run one of the paper's studies; kept, so that a notebook's tables and its ledger share one run.

    Parameters
    ----------
    kind : {"seeds", "ablation", "baselines", "retraining"}
        Table 6, Table 5, Table 8, section 5.1.
    corpus : {"sharegpt", "oasst1"}
        Rows to run it on.
    seeds : tuple of int
        Seeds of splits; baselines take the first.
    reference_dir : str or Path, optional
        Folder of the authors' files.

    Raises
    ------
    DataError
        Where the rows are not at hand.
    """
    return _study(kind, corpus, seeds, reference_folder(reference_dir))


@lru_cache(maxsize=32)
def _study(kind: str, corpus: str, seeds: tuple[int, ...], folder: Path | None) -> Study:
    rows = corpus_rows(corpus, reference_dir=folder)
    if rows is None:
        raise DataError(f"not at hand: {HOW_TO_RUN}", source=corpus)
    if kind == "baselines":
        return baselines(rows, seeds[0])
    if kind == "retraining":
        return retraining_curve(rows, seeds=seeds)
    if kind not in ("seeds", "ablation"):
        raise unknown_name("kind", kind, ("seeds", "ablation", "baselines", "retraining"))
    return seed_study(rows, seeds) if kind == "seeds" else ablation(rows, seeds)


def held_out_ranking(
    n_boot: int = 500, reference_dir: str | Path | None = None
) -> dict[str, RankingEstimate]:
    """How each committed model ranks rows it has not seen: held-out ShareGPT, then foreign traffic.

    Parameters
    ----------
    n_boot : int
        Resamples behind each interval.
    reference_dir : str or Path, optional
        Folder of the foreign files.

    Returns
    -------
    dict of str to RankingEstimate
        `corpus: model` -> estimate; what is not at hand is left out.
    """
    found: dict[str, RankingEstimate] = {}
    paper, rich = LengthPredictor.load("sharegpt"), LengthPredictor.load("sharegpt-rich")
    quick = LengthPredictor.load("sharegpt-rich", form="fast")
    own = sharegpt_held_out()
    for label, score in (
        ("prompt length", own.features[:, 0]),
        ("sharegpt", paper.predict_proba(own.features)[:, 2]),
    ):
        found[f"ShareGPT held out: {label}"] = bootstrap_ranking(score, own.tokens, n_boot=n_boot)
    texts = held_out_texts()
    sets: dict[str, tuple[list[str], np.ndarray]] = {}
    if texts is not None:
        sets["ShareGPT held out"] = (texts.prompts, texts.response_tokens)
    for name in FOREIGN:
        foreign = foreign_rows(name, reference_dir)
        if foreign is not None:
            sets[name] = (foreign.prompts, foreign.tokens)
    for name, (prompts, tokens) in sets.items():
        if name in FOREIGN:
            length = [len(prompt) // 4 for prompt in prompts]
            found[f"{name}: prompt length"] = bootstrap_ranking(length, tokens, n_boot=n_boot)
            found[f"{name}: sharegpt"] = bootstrap_ranking(
                paper.predict_proba(prompts)[:, 2], tokens, n_boot=n_boot
            )
        for label, model in (("sharegpt-rich, fast", quick), ("sharegpt-rich", rich)):
            found[f"{name}: {label}"] = bootstrap_ranking(
                model.predict_proba(prompts)[:, 2], tokens, n_boot=n_boot
            )
    return found
