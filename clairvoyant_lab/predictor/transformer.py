"""The fine-tuned transformer that section 5.2 compares with: DistilBERT, three classes, on the same split.

Needs the extra `transformer` and a machine that can download the weights (about 260 MB). The command:
`clairvoyant-lab evaluate CORPUS --baseline distilbert`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import MissingExtraError, ParameterError
from clairvoyant_lab.lengths import classify_lengths
from clairvoyant_lab.predictor.metrics import class_metrics
from clairvoyant_lab.predictor.splits import group_split, stratified_split
from clairvoyant_lab.predictor.training import checked_tokens, refuse_starved
from clairvoyant_lab.results import summary_html

__all__ = ["TransformerResult", "evaluate_transformer"]


@dataclass(frozen=True)
class TransformerResult:
    """What a fine-tuned transformer reaches, and what a prediction of it costs.

    Attributes
    ----------
    model : str
        Name on the hub.
    metrics : dict of str to float
        `class_metrics` on the held-out rows.
    p50_ms, p99_ms : float
        One prompt at a time on the CPU, tokenizer included.
    epochs, seed : int
        Training.
    """

    model: str
    metrics: dict[str, float]
    p50_ms: float
    p99_ms: float
    epochs: int
    seed: int

    def summary(self) -> dict[str, object]:
        """Return the figures by name."""
        return {
            "model": self.model,
            **self.metrics,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "epochs": self.epochs,
            "seed": self.seed,
        }

    def _repr_html_(self) -> str:
        return summary_html("Fine-tuned transformer (held-out figures)", self.summary())


def evaluate_transformer(
    prompts: Sequence[str],
    response_tokens: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    model: str = "distilbert-base-uncased",
    epochs: int = 3,
    batch_size: int = 16,
    learning_rate: float = 5e-5,
    max_tokens: int = 256,
    seed: int = 42,
    timed_prompts: int = 200,
) -> TransformerResult:
    """Fine-tune a transformer on 80 % of the rows, rank the other 20 % (Table 8).

    Parameters
    ----------
    prompts : sequence of str
        The prompts.
    response_tokens : array_like of shape (n,)
        Response lengths in tokens.
    groups : array_like of shape (n,), optional
        Conversations, which the split keeps whole.
    model : str
        Name on the hub, or a local folder with weights.
    epochs, batch_size, learning_rate, max_tokens
        Fine-tuning; prompts are cut after `max_tokens` tokens.
    seed : int
        Seed of the split, the weights of the new head, and the order of rows.
    timed_prompts : int
        How many held-out prompts to time one by one.

    Raises
    ------
    MissingExtraError
        Without the extra `transformer`.
    StarvedDatasetError
        If a class has too few rows.
    """
    if epochs < 1:
        raise ParameterError("epochs", epochs, "give at least 1")
    tokens = checked_tokens(response_tokens, len(prompts))
    classes = classify_lengths(tokens)
    refuse_starved(classes, 200, 800)
    torch, transformers = _libraries()
    torch.manual_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=3)
    optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate)
    train, test = (
        stratified_split(classes, 0.2, seed) if groups is None else group_split(groups, classes, 0.2, seed)
    )

    def encode(rows: NDArray[np.int64]) -> Any:
        texts = [prompts[row] for row in rows]
        return tokenizer(texts, truncation=True, max_length=max_tokens, padding=True, return_tensors="pt")

    rng = np.random.default_rng(seed)
    network.train()
    for _ in range(epochs):
        order = rng.permutation(train)
        for start in range(0, order.size, batch_size):
            rows = order[start : start + batch_size]
            labels = torch.tensor(classes[rows].astype(np.int64))
            loss = network(**encode(rows), labels=labels).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()

    network.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, test.size, batch_size):
            logits = network(**encode(test[start : start + batch_size])).logits
            parts.append(torch.softmax(logits, dim=1).numpy())
        taken = []
        for row in test[:timed_prompts]:
            begun = time.perf_counter()
            network(**encode(np.array([row])))
            taken.append(1e3 * (time.perf_counter() - begun))
    p50, p99 = np.quantile(taken, [0.5, 0.99])
    metrics = class_metrics(np.concatenate(parts), tokens[test])
    return TransformerResult(model, metrics, float(p50), float(p99), epochs, seed)


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            "transformers", "transformer", "the DistilBERT baseline (it downloads 260 MB of weights)"
        ) from error
    return torch, transformers
