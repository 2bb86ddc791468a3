"""How well characters/4 stands in for a tokenizer (Clairvoyant, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.results import summary_html, summary_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Fidelity", "approximation_fidelity"]

_MOST_PAIRS = 4_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Fidelity:
    """Counts of an approximation beside a tokenizer's.

    Attributes
    ----------
    exact, approximate : ndarray of int64, shape (n,)
        Tokens.
    pearson : float
        Linear correlation, -1 to 1.
    rank_consistency : float
        Share of pairs with different exact counts that the approximation puts in the same order; a tie
        counts as wrong.
    pairs : int
        Pairs compared.
    tokenizer : str
        Who gave `exact`.
    """

    exact: NDArray[np.int64]
    approximate: NDArray[np.int64]
    pearson: float
    rank_consistency: float
    pairs: int
    tokenizer: str

    def summary(self) -> dict[str, object]:
        """The figures, in words that say what was compared."""
        return {
            "tokenizer": self.tokenizer,
            "prompts": int(self.exact.size),
            "pearson r": self.pearson,
            "pairs in the same order": self.rank_consistency,
            "pairs compared": self.pairs,
            "characters a token": float(4 * self.approximate.sum() / max(int(self.exact.sum()), 1)),
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a prompt: `exact_tokens`, `approximate_tokens`."""
        import pandas as pd

        return pd.DataFrame({"exact_tokens": self.exact, "approximate_tokens": self.approximate})

    def __repr__(self) -> str:
        return summary_text("Fidelity of characters/4", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Fidelity of characters/4", self.summary())


def approximation_fidelity(
    exact: ArrayLike, approximate: ArrayLike, tokenizer: str = "llama-like", seed: int = 0
) -> Fidelity:
    """Compare an approximation of token counts with a tokenizer's.

    Parameters
    ----------
    exact, approximate : array_like of int, shape (n,)
        Counts of the same texts.
    tokenizer : str
        Who gave `exact`.
    seed : int
        Seed of the pairs that are drawn when there are more than four million.

    Raises
    ------
    ParameterError
        When the shapes differ.
    DataError
        With fewer than two different counts there is nothing to order.
    """
    true = np.asarray(exact, dtype=np.int64)
    near = np.asarray(approximate, dtype=np.int64)
    if true.shape != near.shape or true.ndim != 1:
        raise ParameterError(
            "approximate", near.shape, f"give one count for each of the {true.size} exact ones"
        )
    if true.size < 2 or np.ptp(true) == 0 or np.ptp(near) == 0:
        raise DataError("needs at least two texts of different length", column="exact")
    n = true.size
    if n * (n - 1) // 2 <= _MOST_PAIRS:
        left, right = np.triu_indices(n, 1)
    else:
        rng = np.random.default_rng(seed)
        left, right = rng.integers(0, n, _MOST_PAIRS), rng.integers(0, n, _MOST_PAIRS)
    order = np.sign(true[left] - true[right])
    asked = order != 0
    same = np.sign(near[left] - near[right])[asked] == order[asked]
    return Fidelity(
        true, near, float(np.corrcoef(true, near)[0, 1]), float(same.mean()), int(asked.sum()), tokenizer
    )
