"""Speed of feature extraction against a plain regex extractor that does the same lexical features."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from clairvoyant_lab.prompts import extract_features, extract_features_batch
from clairvoyant_lab.prompts.lexicon import load_lexicon

TARGETS_US = {100: 10, 1_000: 30, 8_000: 250}
_TEXT = (
    "I have been reading about the old harbour and, although the guide was brief, it left many questions "
    "open. Which of the three towers was built first, and who paid for it? Please write a short overview "
    "that a visitor could read in ten minutes; put the dates in a table, because they are easy to mix up. "
)


def run() -> list[dict[str, Any]]:
    """Time one prompt at three lengths, and a batch of 100,000 prompts."""
    rows = []
    plain = _plain_extractor()
    for size, target in TARGETS_US.items():
        prompt = (_TEXT * (size // len(_TEXT) + 1))[:size]
        ours = _p50_us(lambda p=prompt: extract_features(p), 3_000)
        peer = _p50_us(lambda p=prompt: plain(p), 300)
        rows.append(
            {
                "bench": f"features, {size:,} characters, P50",
                "ours": ours,
                "peer": peer,
                "ratio": peer / ours,
                "unit": "us",
                "target": target,
                "note": "peer: one regular expression a feature",
            }
        )
    return [*rows, *_batches(plain)]


def _batches(plain: Any) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(5.5, 1.2, 100_000).astype(int) + 1, 20_000)
    source = _TEXT * 80
    for label, text in (("ASCII", source), ("one prompt in ten with accents", source)):
        prompts = [text[:n] for n in lengths]
        if label != "ASCII":
            prompts = [p.replace("e", "é") if i % 10 == 0 else p for i, p in enumerate(prompts)]
        megabytes = sum(len(p.encode()) for p in prompts) / 1e6
        extract_features_batch(prompts[:10])
        seconds = min(_seconds(lambda p=prompts: extract_features_batch(p)) for _ in range(3))
        few = prompts[:1_000]
        peer_seconds = _seconds(lambda p=few: [plain(one) for one in p])
        peer = sum(len(p.encode()) for p in few) / 1e6 / peer_seconds
        yield {
            "bench": f"features, batch of 100,000 prompts, {label}",
            "ours": megabytes / seconds,
            "peer": peer,
            "ratio": megabytes / seconds / peer,
            "unit": "MB/s",
            "target": 100,
            "note": f"{megabytes:.0f} MB, one core",
        }


def _plain_extractor() -> Any:
    """One compiled regular expression a feature, as one would write it first."""
    paper = load_lexicon()["paper"]

    def words(*tables: str) -> re.Pattern[str]:
        terms = [word for table in tables for word in paper[table]["words"]]
        return re.compile(rf"\b(?:{'|'.join(terms)})\b", re.IGNORECASE)

    code, length, form, clause = words("code"), words("length"), words("format"), words("clause")
    verbs = [re.compile(rf"\b(?:{'|'.join(forms)})\b", re.IGNORECASE) for forms in paper["verb"].values()]

    def extract(prompt: str) -> list[float]:
        return [
            len(prompt) // 4,
            code.search(prompt) is not None,
            length.search(prompt) is not None,
            prompt.rstrip().endswith("?"),
            form.search(prompt) is not None,
            len(clause.findall(prompt)),
            *(verb.search(prompt) is not None for verb in verbs),
        ]

    return extract


def _p50_us(call: Any, n: int) -> float:
    call()
    times = []
    for _ in range(n):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return float(np.median(times)) / 1_000


def _seconds(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['bench']:<60} {row['ours']:>9.1f} {row['unit']:<5} target {row['target']:>4}   "
            f"peer {row['peer']:>8.1f}   ratio {row['ratio']:>6.1f}   {row['note']}"
        )
