"""Latency of one prediction, end to end, against xgboost's own predict on the same features, in one run."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import clairvoyant_lab as cl
from clairvoyant_lab.predictor.committed import balanced_rows
from clairvoyant_lab.predictor.latency import time_calls
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

TARGETS_US = {
    "sharegpt-rich: P(Long)": (60.0, 200.0),
    "sharegpt-rich: everything (predict)": (60.0, 200.0),
    "sharegpt-rich, fast: P(Long)": (10.0, 100.0),
}
_WORDS = [
    "write",
    "a",
    "short",
    "story",
    "about",
    "the",
    "sea",
    "explain",
    "how",
    "does",
    "list",
    "ten",
    "ways",
    "to",
    "learn",
    "what",
]


def run() -> list[dict[str, Any]]:
    """P50 and P99 of each model's form on 2,000 prompts with ShareGPT's lengths."""
    prompts = _prompts()
    paper, rich = cl.LengthPredictor.load("sharegpt"), cl.LengthPredictor.load("sharegpt-rich")
    quick = cl.LengthPredictor.load("sharegpt-rich", form="fast")
    peer = _quantiles(_xgboost_peer(), prompts)
    rows = []
    for what, call in (
        ("19 features + sharegpt: P(Long)", paper.p_long),
        ("sharegpt-rich: P(Long)", rich.p_long),
        ("sharegpt-rich: everything (predict)", rich.predict),
        ("sharegpt-rich, fast: P(Long)", quick.p_long),
    ):
        targets = TARGETS_US.get(what, (None, None))
        for name, ours, theirs, target in zip(
            ("P50", "P99", "P99 of its own CPU time"),
            _quantiles(call, prompts),
            peer,
            (*targets, targets[1]),
            strict=True,
        ):
            rows.append(
                {
                    "bench": f"{what}, {name}",
                    "ours": ours,
                    "peer": theirs,
                    "ratio": theirs / ours,
                    "unit": "us",
                    "target": target,
                    "note": "peer: same 19 features, XGBClassifier.predict_proba",
                }
            )
    return rows


def _quantiles(call: Any, prompts: list[str]) -> tuple[float, float, float]:
    p50, p99 = 1e6 * np.quantile(time_calls(call, prompts), [0.5, 0.99])
    own = 1e6 * np.quantile(time_calls(call, prompts, clock=time.thread_time), 0.99)
    return float(p50), float(p99), float(own)


def _prompts(n: int = 2000, seed: int = 0) -> list[str]:
    """Prompts as long as ShareGPT's first turns; made of plain words, for the texts are not shipped."""
    rng = np.random.default_rng(seed)
    corpus = cl.load_corpus("sharegpt", progress=False)
    sizes = 4 * rng.choice(corpus["prompt_token_len"].to_numpy(int), n)
    return [" ".join(rng.choice(_WORDS, max(1, size // 5))) for size in sizes]


def _xgboost_peer() -> Any:
    corpus = cl.load_corpus("sharegpt", progress=False)
    rows = balanced_rows(corpus["length_class"].to_numpy(np.int8), 42)
    trained = cl.train_predictor(
        corpus[list(FEATURE_NAMES)].to_numpy(np.float32)[rows],
        corpus["response_tokens"].to_numpy()[rows],
        test_fraction=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        trained.export_onnx(Path(folder) / "peer.onnx")  # the peer is a model whose file is proved equal
    return lambda prompt: trained.predict_proba(cl.extract_features(prompt)[None])


if __name__ == "__main__":
    for row in run():
        target = "" if row["target"] is None else f"target {row['target']:g}"
        print(f"{row['bench']:<60} {row['ours']:8.1f} us   peer {row['peer']:8.1f} us   {target}")
