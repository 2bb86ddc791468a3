"""Why a prompt is thought long or short: exact contributions of features and n-grams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.predictor.attribution import Leaves, read_leaves, shapley_values
from clairvoyant_lab.predictor.engines import Engine, LexicalEngine
from clairvoyant_lab.prompts.schema import FEATURE_NAMES
from clairvoyant_lab.results import counted, summary_html

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.predictor.linear import LinearScores

__all__ = ["Contribution", "Explanation", "explain_prompt"]

# A short question in the middle of what people type, for a model that carries no typical row of its own.
_PLAIN_ROW = (25.0, *([0.0] * (len(FEATURE_NAMES) - 2)), 1.0)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one feature or n-gram adds to the log-odds of Long against Short.

    Attributes
    ----------
    name : str
        Feature, or the words.
    kind : {"feature", "n-gram", "rest"}
        `rest` is the part of the linear scores that no n-gram of the prompt accounts for.
    value : float or None
        The feature's value.
    push : float
        Positive: towards Long.
    """

    name: str
    kind: str
    value: float | None
    push: float


@dataclass(frozen=True)
class Explanation:
    """All contributions for one prompt, strongest first.

    Attributes
    ----------
    log_odds : float
        log P(Long) / P(Short) of the prompt.
    typical_log_odds : float
        The same of the typical prompt that it is compared with.
    contributions : tuple of Contribution
        They add up to log_odds - typical_log_odds.
    top : int
        How many `summary` and the HTML table show.
    """

    log_odds: float
    typical_log_odds: float
    contributions: tuple[Contribution, ...]
    top: int

    def summary(self) -> dict[str, float]:
        """Return the strongest pushes by name, what all others add if there are any, the two log-odds."""
        shown = {item.name: item.push for item in self.contributions[: self.top]}
        rest = self.contributions[self.top :]
        others = {counted(len(rest), "other"): float(sum(item.push for item in rest))} if rest else {}
        return {
            **shown,
            **others,
            "typical prompt": self.typical_log_odds,
            "log-odds of Long against Short": self.log_odds,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a contribution: name, kind, value, push_log_odds."""
        import pandas as pd

        return pd.DataFrame(
            {
                "name": [item.name for item in self.contributions],
                "kind": [item.kind for item in self.contributions],
                "value": [item.value for item in self.contributions],
                "push_log_odds": [item.push for item in self.contributions],
            }
        )

    def _repr_html_(self) -> str:
        return summary_html("Why: pushes towards Long (+) and Short (-), in log-odds", self.summary())


def explain_prompt(engine: Engine, prompt: str, *, top: int = 8) -> Explanation:
    """Split a prompt's log-odds of Long against Short into what each feature and n-gram adds.

    Trees are split by Shapley values against a typical prompt (`attribution`); what they give to a linear
    score is handed on to the n-grams in proportion to their weights, which is exact for the linear `fast`
    form and adds up for the full one.
    """
    if isinstance(engine, LexicalEngine):
        pieces, log_odds, typical = _lexical(engine, prompt)
    else:
        pieces, log_odds, typical = _rich(engine, prompt)
    kept = [item for item in pieces if item.push != 0]
    kept.sort(key=lambda item: (-abs(item.push), item.name))
    return Explanation(log_odds, typical, tuple(kept), top)


def _lexical(engine: LexicalEngine, prompt: str) -> tuple[list[Contribution], float, float]:
    row, _ = engine.one(prompt)
    reference = np.array(engine.info.form.get("typical", _PLAIN_ROW), np.float32)
    leaves = _leaves(engine.path, len(FEATURE_NAMES), ((0, -1.0), (2, 1.0)))
    pushes = shapley_values(leaves, row, reference)
    pieces = [
        Contribution(name, "feature", float(value), float(push))
        for name, value, push in zip(FEATURE_NAMES, row, pushes, strict=True)
    ]
    return pieces, leaves.total(row), leaves.total(reference)


def _rich(engine: Any, prompt: str) -> tuple[list[Contribution], float, float]:
    from clairvoyant_lab.predictor.ngram_names import describe_ids
    from clairvoyant_lab.predictor.ngrams import RICH_NAMES, scan_many

    features, (ids,) = scan_many([prompt])
    width = len(RICH_NAMES)
    linear = _linear(engine.path)
    typical = np.array(engine.info.form["typical"], np.float32)
    scores = linear.scores([ids])[0]
    row = np.concatenate([features[0], scores])
    if engine.form == "fast" or engine.info.form.get("trees") is False:
        lines = np.array(engine.info.form["fast_lines"], np.float64)
        mix = np.array(engine.info.form["mix"], np.float64)
        pushes = np.zeros(row.size)
        pushes[width:] = mix * (scores - typical[width:])
        margin, usual = float(scores @ mix), float(typical[width:] @ mix)
    else:
        lines = np.array(engine.info.form["lines"], np.float64)
        leaves = _leaves(engine.path, row.size, ((0, 1.0),))
        pushes = shapley_values(leaves, row, typical)
        margin, usual = leaves.total(row), leaves.total(typical)
    # From the margin to log P(Long)/P(Short): the difference of two of the lines.
    slope = float(lines[2, 1] - lines[0, 1])
    shift = float(lines[2, 0] - lines[0, 0])
    pieces = [
        Contribution(name, "feature", float(value), slope * float(push))
        for name, value, push in zip(RICH_NAMES, row, pushes[:width], strict=False)
    ]
    pieces += _ngram_pieces(
        describe_ids(prompt), ids, linear, scores, typical[width:], slope * pushes[width:]
    )
    return pieces, slope * margin + shift, slope * usual + shift


def _ngram_pieces(
    names: dict[int, str],
    ids: NDArray[np.int32],
    linear: LinearScores,
    scores: NDArray[np.float32],
    typical: NDArray[np.float32],
    pushes: NDArray[np.float64],
) -> list[Contribution]:
    moved = scores.astype(np.float64) - typical
    rate = np.divide(pushes, moved, out=np.zeros_like(moved), where=moved != 0)
    each = linear.contributions(ids) @ rate
    pieces = [
        Contribution(names[int(place)], "n-gram", None, float(push))
        for place, push in zip(ids, each, strict=True)
    ]
    rest = float(pushes.sum() - each.sum())
    return [*pieces, Contribution("n-grams of a typical prompt, absent here", "rest", None, rest)]


@lru_cache(maxsize=8)
def _leaves(path: Path, n_features: int, class_weights: tuple[tuple[int, float], ...]) -> Leaves:
    import onnx

    graph = onnx.load(str(path)).graph
    node = next(node for node in graph.node if node.op_type.startswith("TreeEnsemble"))
    return read_leaves(node, n_features, dict(class_weights))


@lru_cache(maxsize=8)
def _linear(path: Path) -> LinearScores:
    from clairvoyant_lab.predictor.rich_engine import read_linear

    return read_linear(path)
