"""The paper's studies of the 19-feature model, re-run: seeds, ablation, cross matrix, baselines, retraining.

Every study gives a tidy table. Ranking accuracies are equation 2, between 0 and 1; a study never trains
on a row it judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.lengths import classify_lengths
from clairvoyant_lab.predictor.metrics import class_metrics
from clairvoyant_lab.predictor.ranking import bootstrap_ranking, ranking_accuracy
from clairvoyant_lab.predictor.splits import stratified_split
from clairvoyant_lab.predictor.training import PAPER_HYPER, checked_rows, checked_tokens, fit_trees
from clairvoyant_lab.prompts.schema import FEATURE_NAMES
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FEATURE_GROUPS",
    "Rows",
    "Study",
    "ablation",
    "baselines",
    "cross_matrix",
    "retraining_curve",
    "seed_study",
]

FEATURE_GROUPS: Mapping[str, tuple[int, ...]] = {
    "prompt_token_len": (0,),
    "instruction_verb": tuple(range(6, 19)),
    "has_code_keyword": (1,),
    "ends_with_question": (3,),
    "has_length_constraint": (2,),
    "has_format_keyword": (4,),
    "clause_count": (5,),
}
"""What Table 5 removes, in its order, as columns of `FEATURE_NAMES`."""

MINIMAL_DROPS = ("has_format_keyword", "clause_count", "has_length_constraint")
"""Section 4.4's minimal model drops three features and names two; Table 5's next least useful joins them."""


@dataclass(frozen=True)
class Rows:
    """A corpus as the studies need it.

    Attributes
    ----------
    name : str
        Shown in tables.
    features : ndarray of float32, shape (n, 19)
        `FEATURE_NAMES`.
    tokens : ndarray of float64, shape (n,)
        Response tokens.
    """

    name: str
    features: NDArray[np.float32]
    tokens: NDArray[np.float64]

    @classmethod
    def checked(cls, name: str, features: ArrayLike, response_tokens: ArrayLike) -> Rows:
        """Check shapes and values."""
        rows = checked_rows(features, len(FEATURE_NAMES))
        return cls(name, rows, checked_tokens(response_tokens, len(rows)))

    @property
    def classes(self) -> NDArray[np.int8]:
        """Length classes by the default bounds."""
        return classify_lengths(self.tokens)


@dataclass(frozen=True)
class Study:
    """A study's tidy table.

    Attributes
    ----------
    title : str
        What was studied.
    frame : DataFrame
        The table; shares between 0 and 1 unless a column's name ends in `_pp`.
    figures : dict of str to float
        The few figures that sum it up.
    """

    title: str
    frame: pd.DataFrame
    figures: Mapping[str, float]

    def summary(self) -> dict[str, float]:
        """Return the few figures that sum it up."""
        return dict(self.figures)

    def to_frame(self) -> pd.DataFrame:
        """Return the tidy table."""
        return self.frame

    def _repr_html_(self) -> str:
        return summary_html(self.title, self.summary())


def seed_study(rows: Rows, seeds: Sequence[int] = (42, 1, 2, 3, 4), **hyper: Any) -> Study:
    """Section 4.3's 80/20 split with several seeds (Table 6), with a bootstrap interval within each.

    Columns: seed, every figure of `class_metrics`, low and high (95 %, over both axes).
    """
    import pandas as pd

    records = []
    for seed in seeds:
        train, test = stratified_split(rows.classes, 0.2, seed)
        model = _full_model(rows, train, seed, hyper)
        probabilities = model.predict_proba(rows.features[test])
        interval = bootstrap_ranking(probabilities[:, 2], rows.tokens[test], n_boot=500, seed=seed)
        records.append(
            {
                "seed": seed,
                **class_metrics(probabilities, rows.tokens[test]),
                "low": interval.low,
                "high": interval.high,
            }
        )
    frame = pd.DataFrame(records)
    figures = {"first_seed_ranking_accuracy": float(frame["ranking_accuracy"].iloc[0])}
    for name in ("ranking_accuracy", "class_accuracy", "auc_long", "expected_calibration_error"):
        figures[f"mean_{name}"] = float(frame[name].mean())
    figures["min_ranking_accuracy"] = float(frame["ranking_accuracy"].min())
    figures["max_ranking_accuracy"] = float(frame["ranking_accuracy"].max())
    return Study(f"{rows.name}: several seeds", frame, figures)


def ablation(rows: Rows, seeds: Sequence[int] = (42, 1, 2, 3, 4), **hyper: Any) -> Study:
    """Remove one group of features at a time (Table 5), and the minimal model of section 4.4.

    Columns: removed, seed, ranking_accuracy, delta_pp (against the full model with the same split;
    negative: the feature helps).
    """
    import pandas as pd

    removals: dict[str, tuple[int, ...]] = {"nothing": (), **FEATURE_GROUPS}
    removals["minimal model"] = tuple(column for name in MINIMAL_DROPS for column in FEATURE_GROUPS[name])
    records = []
    for seed in seeds:
        train, test = stratified_split(rows.classes, 0.2, seed)
        full = float("nan")
        for removed, columns in removals.items():
            kept = np.setdiff1d(np.arange(len(FEATURE_NAMES)), columns)
            part = np.ascontiguousarray(rows.features[:, kept])
            model = (
                fit_trees(part[train], rows.classes[train], seed, {**PAPER_HYPER, **hyper})
                if columns
                else _full_model(rows, train, seed, hyper)
            )
            accuracy = ranking_accuracy(model.predict_proba(part[test])[:, 2], rows.tokens[test])
            full = accuracy if removed == "nothing" else full
            records.append(
                {
                    "removed": removed,
                    "seed": seed,
                    "ranking_accuracy": accuracy,
                    "delta_pp": 100 * (accuracy - full),
                }
            )
    frame = pd.DataFrame(records)
    mean = frame.groupby("removed", sort=False)["delta_pp"].mean()
    figures = {f"{name} (pp)": float(value) for name, value in mean.items() if name != "nothing"}
    return Study(f"{rows.name}: ablation", frame, figures)


def cross_matrix(corpora: Sequence[Rows], seed: int = 42, **hyper: Any) -> Study:
    """Train on each corpus, rank every other (Table 7).

    Columns: trained_on, tested_on, ranking_accuracy, low, high, in_sample (the diagonal ranks rows it was
    trained on, as the paper's does).
    """
    import pandas as pd

    records: list[dict[str, Any]] = []
    for source in corpora:
        model = fit_trees(source.features, source.classes, seed, {**PAPER_HYPER, **hyper})
        for target in corpora:
            p_long = model.predict_proba(target.features)[:, 2]
            interval = bootstrap_ranking(p_long, target.tokens, n_boot=500, seed=seed)
            records.append(
                {
                    "trained_on": source.name,
                    "tested_on": target.name,
                    "ranking_accuracy": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                    "in_sample": source.name == target.name,
                }
            )
    frame = pd.DataFrame(records)
    figures = {
        f"{record['trained_on']} -> {record['tested_on']}": float(record["ranking_accuracy"])
        for record in records
        if not record["in_sample"]
    }
    return Study("Cross-distribution ranking accuracy", frame, figures)


def baselines(rows: Rows, seed: int = 42, draws: int = 20, **hyper: Any) -> Study:
    """Signals that need no training, and the model, on the held-out fifth (Table 8).

    The length rule calls a prompt long above a threshold chosen on the training rows; equation 2 counts
    its ties as wrong, so its ranking accuracy with ties half stands beside it. Prompt length as a score
    has no such ties.

    Columns: method, ranking_accuracy, low, high, ranking_accuracy_ties_half, threshold.
    """
    import pandas as pd

    train, test = stratified_split(rows.classes, 0.2, seed)
    length, tokens = rows.features[:, 0], rows.tokens
    candidates = np.unique(length[train])
    half = [
        ranking_accuracy(length[train] > threshold, tokens[train], ties="half") for threshold in candidates
    ]
    threshold = float(candidates[int(np.argmax(half))])
    model = _full_model(rows, train, seed, hyper)
    rng = np.random.default_rng(seed)
    scores = {
        "prompt-length rule": length[test] > threshold,
        "prompt length as a score": length[test],
        "keyword rule (code keyword)": rows.features[test, 1],
        "19 features, XGBoost": model.predict_proba(rows.features[test])[:, 2],
    }
    records: list[dict[str, Any]] = []
    for method, score in scores.items():
        interval = bootstrap_ranking(score, tokens[test], n_boot=500, seed=seed)
        records.append(
            {
                "method": method,
                "ranking_accuracy": interval.value,
                "low": interval.low,
                "high": interval.high,
                "ranking_accuracy_ties_half": ranking_accuracy(score, tokens[test], ties="half"),
                "threshold": threshold if method == "prompt-length rule" else None,
            }
        )
    chance = [ranking_accuracy(rng.random(test.size), tokens[test]) for _ in range(draws)]
    low, high = np.quantile(chance, [0.025, 0.975])
    records.insert(
        0,
        {
            "method": "random order (FCFS)",
            "ranking_accuracy": float(np.mean(chance)),
            "low": float(low),
            "high": float(high),
            "ranking_accuracy_ties_half": float(np.mean(chance)),
            "threshold": None,
        },
    )
    frame = pd.DataFrame(records)
    return Study(
        f"{rows.name}: baselines", frame, dict(zip(frame["method"], frame["ranking_accuracy"], strict=True))
    )


def _full_model(rows: Rows, train: NDArray[np.int64], seed: int, hyper: Mapping[str, Any]) -> Any:
    """Fit on some rows with all features; three of the studies fit the same model on the same split."""
    settings = tuple(sorted({**PAPER_HYPER, **hyper}.items()))
    return _fit_once(rows.features[train].tobytes(), rows.classes[train].tobytes(), seed, settings)


@lru_cache(maxsize=16)
def _fit_once(features: bytes, classes: bytes, seed: int, settings: tuple[tuple[str, Any], ...]) -> Any:
    labels = np.frombuffer(classes, np.int8)
    table = np.frombuffer(features, np.float32).reshape(labels.size, -1)
    return fit_trees(table, labels, seed, dict(settings))


def retraining_curve(
    rows: Rows, sizes: Sequence[int] = (90, 180, 240), seeds: Sequence[int] = (0, 1, 2, 3, 4), **hyper: Any
) -> Study:
    """Train on few rows of the target domain, equally many of each class; judge on all the others
    (section 5.1).

    Columns: n_train, seed, ranking_accuracy.
    """
    import pandas as pd

    counts = np.bincount(rows.classes, minlength=3)
    records = []
    for size in sizes:
        if size % 3 or size < 3:
            raise ParameterError("sizes", size, "give multiples of 3: equally many rows of each class")
        if counts.min() <= size // 3:
            raise DataError(
                f"{size} rows need more than {size // 3} of each class; there are {counts.tolist()}"
            )
        for seed in seeds:
            rng = np.random.default_rng([seed, size])
            train = np.concatenate(
                [rng.choice(np.flatnonzero(rows.classes == k), size // 3, replace=False) for k in range(3)]
            )
            rest = np.setdiff1d(np.arange(rows.tokens.size), train)
            model = fit_trees(rows.features[train], rows.classes[train], seed, {**PAPER_HYPER, **hyper})
            accuracy = ranking_accuracy(model.predict_proba(rows.features[rest])[:, 2], rows.tokens[rest])
            records.append({"n_train": size, "seed": seed, "ranking_accuracy": accuracy})
    frame = pd.DataFrame(records)
    mean = frame.groupby("n_train")["ranking_accuracy"].mean()
    return Study(
        f"{rows.name}: retraining curve",
        frame,
        {f"{size} rows": float(value) for size, value in mean.items()},
    )
