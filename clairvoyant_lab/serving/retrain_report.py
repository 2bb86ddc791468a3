"""What retraining brought: the new model against what was in use, on requests that neither learnt from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.journal_reader import TrainingSet
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, LengthClass, classify_lengths
from clairvoyant_lab.results import summary_html

__all__ = ["RetrainReport", "report_on_tail"]

_FEWEST = 10


@dataclass(frozen=True)
class RetrainReport:
    """What retraining brought.

    Attributes
    ----------
    model : str
        The exported file.
    kind : {"lexical", "rich"}
        What was trained.
    way : {"own", "base", "base+trees"} or None
        How a rich model was trained (`predictor.rich_ways`).
    why : str
        Why this kind, and this way.
    in_use : str
        The models that were in use on the tail.
    n_train, n_held_out : int
        Rows; the held-out ones came last. Held-out requests for which no model was asked (their client
        stated a class, or the model failed) are not counted.
    n_short, n_long : int
        Short and long answers on the tail: all that ranking sees.
    ranking_new, ranking_in_use : float or None
        Ranking accuracy (eq. 2) on the tail: of the new model, and of the probabilities in the journal,
        both after token caps; None where the tail lacks short or long answers.
    ranking_new_interval, ranking_in_use_interval : tuple of float or None
        95 % bootstrap intervals.
    ranking_gain : float or None
        New minus in use.
    ranking_gain_interval : tuple of float or None
        95 % paired bootstrap interval: the same requests in each resample for both.
    better : bool or None
        Whether the new model ranks the tail better beyond noise: the gain's interval lies above 0. None
        where the tail has fewer than 10 short or 10 long answers: no interval can be relied on then.
    ranking_in_training : dict of str to float
        How the ways of training a rich model ranked rows that they did not see, within the training part.
    dropped : dict of str to int
        Rows of the journal that could not teach, by reason.
    """

    model: str
    kind: str
    way: str | None
    why: str
    in_use: str
    n_train: int
    n_held_out: int
    n_short: int
    n_long: int
    ranking_new: float | None
    ranking_in_use: float | None
    ranking_new_interval: tuple[float, float] | None
    ranking_in_use_interval: tuple[float, float] | None
    ranking_gain: float | None
    ranking_gain_interval: tuple[float, float] | None
    better: bool | None
    ranking_in_training: dict[str, float] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `no clear difference` or `too few to compare`."""
        if self.better is None or self.ranking_gain_interval is None:
            return "too few to compare"
        low, high = self.ranking_gain_interval
        return "better" if low > 0 else "worse" if high < 0 else "no clear difference"

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        tail = f"the last requests ({self.n_short} short, {self.n_long} long)"
        return {
            "better": f"swap it in: it ranks {tail} better than {self.in_use} did",
            "worse": f"do not swap: it ranks {tail} worse than {self.in_use} did",
            "no clear difference": f"do not swap: on {tail} the difference to {self.in_use} is within noise; "
            "keep the model in use, and retrain when the journal has grown",
            "too few to compare": f"do not swap: {tail} are too few to compare with {self.in_use} (at least "
            f"{_FEWEST} of either); keep the model in use, and retrain when the journal has grown",
        }[self.verdict]

    def summary(self) -> dict[str, object]:
        """The figures by name."""
        rows: dict[str, object] = {
            "model": self.model,
            "kind": self.kind,
            "why": self.why,
            "in_use": self.in_use,
            "n_train": self.n_train,
            "n_held_out": self.n_held_out,
            "n_short": self.n_short,
            "n_long": self.n_long,
            "ranking_new": self.ranking_new,
            "ranking_in_use": self.ranking_in_use,
            "ranking_gain": self.ranking_gain,
            "better": self.better,
            "verdict": self.verdict,
        }
        if self.way is not None:
            rows["way"] = self.way
        for name in ("ranking_new_interval", "ranking_in_use_interval", "ranking_gain_interval"):
            interval = getattr(self, name)
            if interval is not None:
                rows[f"{name}_low"], rows[f"{name}_high"] = interval
        for way, value in self.ranking_in_training.items():
            rows[f"ranking_in_training: {way}"] = value
        rows.update({f"dropped: {reason}": count for reason, count in self.dropped.items()})
        return {**rows, "advice": self.advice}

    def _repr_html_(self) -> str:
        return summary_html("Retrained from a journal", self.summary())


def report_on_tail(
    tail: TrainingSet,
    probabilities: NDArray[np.float32],
    seed: int,
    *,
    model: str,
    kind: str,
    way: str | None,
    why: str,
    n_train: int,
    ranking_in_training: dict[str, float],
) -> RetrainReport:
    """Compare a new model with what was in use.

    Parameters
    ----------
    tail : TrainingSet
        Held-out rows.
    probabilities : ndarray of float32, shape (n, 3)
        Of the new model for those rows, before token caps.
    seed : int
        Of the bootstrap.
    model, kind, way, why, n_train, ranking_in_training
        For the report.
    """
    from clairvoyant_lab.predictor import bootstrap_ranking
    from clairvoyant_lab.predictor.ranking import bootstrap_difference

    asked = np.flatnonzero(tail.by_model)
    tokens, p_old = tail.response_tokens[asked], tail.p_long[asked]
    p_new = _capped(probabilities[asked], tail.token_cap[asked])
    counts = np.bincount(classify_lengths(tokens), minlength=3)
    n_short, n_long = int(counts[LengthClass.SHORT]), int(counts[LengthClass.LONG])
    new = old = gain = None
    if n_short and n_long:
        new, old = (bootstrap_ranking(score, tokens, seed=seed) for score in (p_new, p_old))
        gain = bootstrap_difference(p_new, p_old, tokens, seed=seed)
    return RetrainReport(
        model=model,
        kind=kind,
        way=way,
        why=why,
        in_use=", ".join(dict.fromkeys(tail.model[asked].tolist())) or "no model",
        n_train=n_train,
        n_held_out=int(asked.size),
        n_short=n_short,
        n_long=n_long,
        ranking_new=None if new is None else new.value,
        ranking_in_use=None if old is None else old.value,
        ranking_new_interval=None if new is None else (new.low, new.high),
        ranking_in_use_interval=None if old is None else (old.low, old.high),
        ranking_gain=None if gain is None else gain.value,
        ranking_gain_interval=None if gain is None else (gain.low, gain.high),
        better=None if gain is None or min(n_short, n_long) < _FEWEST else gain.low > 0,
        ranking_in_training=ranking_in_training,
        dropped=tail.dropped,
    )


def _capped(probabilities: NDArray[np.float32], token_cap: NDArray[np.float64]) -> NDArray[np.float32]:
    """P(Long) after the caps, as the journal has it of the model in use."""
    from clairvoyant_lab.predictor.caps import apply_token_cap

    p_long = probabilities[:, 2].copy()
    for row in np.flatnonzero(token_cap < LONG_FROM_TOKENS):
        p_long[row] = apply_token_cap(probabilities[row], int(token_cap[row]))[2]
    return p_long
