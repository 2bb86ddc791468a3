"""The rows the committed models learn from and are judged on: ShareGPT, cut by conversation.

A fifth of the conversations with an English first turn is held out. The rule is one call with a fixed
seed over the committed table, so anyone can find the same rows; no committed model has seen a turn of a
held-out conversation, and settings were chosen on folds of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.predictor.splits import group_folds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HELD_OUT_SEED", "RichRows", "held_out", "rich_rows"]

HELD_OUT_SEED = 2024


@dataclass(frozen=True)
class RichRows:
    """Prompts with what the rich predictor's training needs.

    Attributes
    ----------
    prompts : list of str
        First turns, then later turns whose prompt is not among them.
    response_tokens : ndarray of int64, shape (n,)
        Lengths by the Llama-like tokenizer.
    groups : ndarray of int64, shape (n,)
        Conversation.
    first_turn : ndarray of bool, shape (n,)
        Whether the row opens its conversation.
    held_out : ndarray of bool, shape (n,)
        Whether the conversation is held out.
    fingerprint : str
        Of the corpus (`corpora.load_corpus`).
    """

    prompts: list[str]
    response_tokens: NDArray[np.int64]
    groups: NDArray[np.int64]
    first_turn: NDArray[np.bool_]
    held_out: NDArray[np.bool_]
    fingerprint: str

    def take(self, rows: NDArray[np.bool_]) -> RichRows:
        """Rows of a mask."""
        return RichRows(
            [self.prompts[row] for row in np.flatnonzero(rows)],
            self.response_tokens[rows],
            self.groups[rows],
            self.first_turn[rows],
            self.held_out[rows],
            self.fingerprint,
        )


def held_out(first_turns: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows of ShareGPT's first turns are held out.

    Parameters
    ----------
    first_turns : DataFrame
        `load_corpus("sharegpt")`, as it comes.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    folds = group_folds(
        first_turns["group"].to_numpy(), first_turns["length_class"].to_numpy(np.int8), 5, HELD_OUT_SEED
    )
    return folds == 0


def rich_rows(progress: bool = True) -> RichRows:
    """Read ShareGPT's texts from the source package and cut them.

    Raises
    ------
    MissingExtraError
        Without the extra `sharegpt`: the texts are not in this project.
    """
    from clairvoyant_lab.corpora import load_corpus

    first = load_corpus("sharegpt", source="package", progress=progress)
    every = load_corpus("sharegpt", source="package", turns="all", progress=progress)
    out = held_out(first)
    known = {_plain(prompt) for prompt in first["prompt"]}
    later = every[[_plain(prompt) not in known for prompt in every["prompt"]]]
    groups = np.concatenate([first["group"], later["group"]]).astype(np.int64)
    return RichRows(
        prompts=[*first["prompt"], *later["prompt"]],
        response_tokens=np.concatenate([first["response_tokens"], later["response_tokens"]]).astype(np.int64),
        groups=groups,
        first_turn=np.arange(groups.size) < len(first),
        held_out=np.isin(groups, first["group"].to_numpy()[out]),
        fingerprint=str(first.attrs["corpus"]["fingerprint"]),
    )


def _plain(prompt: str) -> str:
    return " ".join(prompt.lower().split())
