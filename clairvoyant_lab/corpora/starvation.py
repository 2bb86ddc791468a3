"""Is there enough to learn from? The Long-class starvation analysis (Clairvoyant, section 4.2, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.lengths import (
    LONG_FROM_TOKENS,
    SHORT_BELOW_TOKENS,
    LengthClass,
    check_bounds,
    classify_lengths,
)
from clairvoyant_lab.results import summary_html, summary_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "VERDICTS",
    "Starvation",
    "VerdictName",
    "starvation_of",
    "starvation_report",
    "verdict_of",
    "wilson_interval",
]

VerdictName = Literal["usable, balanced", "usable, limited", "test only", "starved"]

# The rarest class decides: fewest rows that each verdict needs, and why so many.
VERDICTS: dict[VerdictName, tuple[int, str]] = {
    "usable, balanced": (2_000, "2,000 rows a class, the balanced sample of section 4.2"),
    "usable, limited": (200, "200 rows a class: a fifth held out leaves 40 Long rows to rank"),
    "test only": (30, "30 rows a class: enough to rank within about ten points, too few to train"),
    "starved": (0, "fewer than 30 rows of a class"),
}
_Z = 1.959963984540054


def wilson_interval(successes: int, n: int, z: float = _Z) -> tuple[float, float]:
    """Wilson's score interval of a share; 95 % by default.

    Raises
    ------
    ParameterError
        Unless 0 <= successes <= n and n > 0.
    """
    if n < 1:
        raise ParameterError("n", n, "give at least one row")
    if not 0 <= successes <= n:
        raise ParameterError("successes", successes, f"give 0 to {n}")
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # the ends are exact where every row, or none, is a success
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == n else float(centre + half)
    return low, high


@dataclass(frozen=True, eq=False, repr=False)
class Starvation:
    """What a corpus holds of each length class, and what it is good for.

    Attributes
    ----------
    name : str
        Corpus.
    response_tokens : ndarray of int64, shape (n,)
        Lengths of the answers.
    counts : ndarray of int64, shape (3,)
        Rows of each `LengthClass`.
    shares, low, high : ndarray of float64, shape (3,)
        Shares and their Wilson intervals (95 %).
    verdict : str
        One of `VERDICTS`.
    tokenizer : str
        Who counted.
    bounds : tuple of int
        Class bounds in tokens.
    by_tokenizer : tuple of dict
        The same for other tokenizers, when the corpus knows them.
    provenance : dict
        `attrs["corpus"]` of the table.
    """

    name: str
    response_tokens: NDArray[np.int64]
    counts: NDArray[np.int64]
    shares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    verdict: VerdictName
    tokenizer: str
    bounds: tuple[int, int]
    by_tokenizer: tuple[dict[str, Any], ...]
    provenance: dict[str, Any]

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.response_tokens.size)

    @property
    def rarest(self) -> LengthClass:
        """The class with the fewest rows."""
        return LengthClass(int(self.counts.argmin()))

    @property
    def balanced_rows(self) -> int:
        """Rows of the largest sample with equal classes."""
        return 3 * int(self.counts.min())

    @property
    def rule(self) -> str:
        """Why the verdict is what it is."""
        return VERDICTS[self.verdict][1]

    def what_would_change(self) -> list[str]:
        """What would lift the verdict: rows to collect, another bound, another tokenizer."""
        lines: list[str] = []
        rarest, count = self.rarest, int(self.counts.min())
        better = [name for name, (least, _) in VERDICTS.items() if least > count]
        for name in reversed(better):
            needed = VERDICTS[name][0]
            lines.append(
                f"“{name}” needs {needed:,} {rarest.label} rows, {needed - count:,} more" + self._more(needed)
            )
            break
        if rarest is LengthClass.LONG and better:
            needed = VERDICTS[better[-1]][0]
            if self.n >= needed:
                bound = int(np.sort(self.response_tokens)[-needed])
                if bound > self.bounds[0]:
                    lines.append(
                        f"with Long from {bound:,} tokens instead of {self.bounds[1]:,}, "
                        f"{needed:,} rows would be Long"
                    )
        for row in self.by_tokenizer:
            if row["verdict"] != self.verdict:
                lines.append(
                    f"counted by {row['tokenizer']} it would be “{row['verdict']}” ({row['long']:,} Long)"
                )
        if not better:
            lines.append(
                f"nothing lifts it further; it falls below {VERDICTS[self.verdict][0]:,} rows of a class"
            )
        return lines

    def _more(self, needed: int) -> str:
        high = float(self.high[self.rarest])
        share = float(self.shares[self.rarest])
        if share == 0:
            return f": more than {needed / high:,.0f} rows of this kind (none of {self.n:,} is one)"
        return f": about {needed / share:,.0f} rows of this kind"

    def summary(self) -> dict[str, object]:
        """Counts, shares, verdict."""
        rows: dict[str, object] = {"corpus": self.name, "rows": self.n, "tokenizer": self.tokenizer}
        for one in LengthClass:
            rows[one.label] = (
                f"{self.counts[one]:,} ({100 * self.shares[one]:.2f} % "
                f"[{100 * self.low[one]:.2f}, {100 * self.high[one]:.2f}])"
            )
        rows |= {"verdict": self.verdict, "rule": self.rule, "balanced rows": self.balanced_rows}
        for number, line in enumerate(self.what_would_change(), start=1):
            rows[f"what would change it ({number})"] = line
        return rows

    def to_frame(self) -> pd.DataFrame:
        """One row a class and tokenizer: `rows`, `share` with its ends `low` and `high`, `verdict`."""
        import pandas as pd

        own = _row(self.tokenizer, self.counts, self.verdict)
        records = []
        for row in (own, *self.by_tokenizer):
            counts = [row["short"], row["medium"], row["long"]]
            for one in LengthClass:
                low, high = wilson_interval(counts[one], sum(counts))
                records.append(
                    {
                        "corpus": self.name,
                        "tokenizer": row["tokenizer"],
                        "length_class": one.label,
                        "rows": counts[one],
                        "share": counts[one] / sum(counts),
                        "low": low,
                        "high": high,
                        "verdict": row["verdict"],
                    }
                )
        return pd.DataFrame(records)

    def __repr__(self) -> str:
        return summary_text(f"Starvation of {self.name}", self.summary())

    def _repr_html_(self) -> str:
        return summary_html(f"Starvation of {self.name}", self.summary())


def starvation_report(
    corpus: pd.DataFrame | str | Path | bytes | Mapping[str, Any],
    *,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    **options: Any,
) -> Starvation:
    """Say what a corpus holds of each length class and whether a scheduler can learn from it.

    Parameters
    ----------
    corpus : DataFrame, str, Path, bytes or mapping
        A table from `load_corpus`, any table with `response_tokens`, or what `load_corpus` takes: a name, a
        path, an upload.
    short_below, long_from : int
        Class bounds in tokens.
    **options
        For `load_corpus`, when `corpus` is a name or path.

    Returns
    -------
    Starvation

    Raises
    ------
    DataError
        When there is no column `response_tokens`, or no row.
    """
    others: dict[str, NDArray[np.int64]] = {}
    if isinstance(corpus, str | Path | bytes | Mapping):
        from clairvoyant_lab.corpora.compare import tokenizers_beside
        from clairvoyant_lab.corpora.load import load_corpus

        source = corpus
        corpus = load_corpus(source, **{"keep_prompt": False, **options})
        if isinstance(source, str):
            others = tokenizers_beside(source, corpus, options)
    elif options:
        raise ParameterError("options", sorted(options), "only a name or a path is loaded with options")
    if "response_tokens" not in corpus:
        raise DataError(
            f"no such column; there are {', '.join(map(str, corpus.columns))}", column="response_tokens"
        )
    provenance = dict(corpus.attrs.get("corpus", {}))
    return starvation_of(
        corpus["response_tokens"].to_numpy(),
        name=str(provenance.get("name", "corpus")),
        tokenizer=str(provenance.get("recipe", {}).get("tokenizer", "reported")),
        short_below=short_below,
        long_from=long_from,
        others=others,
        provenance=provenance,
    )


def starvation_of(
    response_tokens: ArrayLike,
    *,
    name: str = "corpus",
    tokenizer: str = "reported",
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    others: Mapping[str, ArrayLike] | None = None,
    provenance: dict[str, Any] | None = None,
) -> Starvation:
    """Analyse bare lengths; see `starvation_report`.

    Parameters
    ----------
    response_tokens : array_like of int, shape (n,)
        Lengths of the answers in tokens.
    others : mapping of str to array_like, optional
        Lengths of the same answers by other tokenizers.
    """
    check_bounds(short_below, long_from)
    tokens = np.asarray(response_tokens)
    if tokens.size == 0:
        raise DataError("no row to analyse", source=name)
    counts = _counts(tokens, short_below, long_from)
    intervals = np.array([wilson_interval(int(count), tokens.size) for count in counts])
    return Starvation(
        name,
        tokens.astype(np.int64),
        counts,
        counts / tokens.size,
        intervals[:, 0],
        intervals[:, 1],
        verdict_of(counts),
        tokenizer,
        (short_below, long_from),
        tuple(
            _row(other, found := _counts(np.asarray(lengths), short_below, long_from), verdict_of(found))
            for other, lengths in (others or {}).items()
        ),
        provenance or {},
    )


def _counts(tokens: NDArray[Any], short_below: int, long_from: int) -> NDArray[np.int64]:
    return np.bincount(classify_lengths(tokens, short_below, long_from), minlength=3).astype(np.int64)


def verdict_of(counts: ArrayLike) -> VerdictName:
    """Verdict by the stated rules: the rarest of the classes decides."""
    return next(name for name, (least, _) in VERDICTS.items() if np.min(counts) >= least)


def _row(tokenizer: str, counts: NDArray[np.int64], verdict: VerdictName) -> dict[str, Any]:
    short, medium, long = (int(count) for count in counts)
    return {"tokenizer": tokenizer, "short": short, "medium": medium, "long": long, "verdict": verdict}
