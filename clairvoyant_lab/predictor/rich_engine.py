"""Runs a rich model: the whole graph, or the `fast` form, whose linear score needs no runtime at all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, SchemaMismatchError
from clairvoyant_lab.predictor.linear import LinearScores
from clairvoyant_lab.predictor.model_info import ModelInfo
from clairvoyant_lab.predictor.ngrams import (
    N_BUCKETS,
    RICH_HASH,
    RICH_NAMES,
    pad_ids,
    scan_many,
    scan_prompt,
    score_prompt,
)
from clairvoyant_lab.prompts import extract_features
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

__all__ = ["FastEngine", "RichEngine", "open_rich", "read_linear"]

_N_LEXICAL = len(FEATURE_NAMES)
_BATCH = 256


class RichEngine:
    """The whole graph: features and ids in, probabilities out."""

    form = "full"

    def __init__(self, session: Any, info: ModelInfo, path: Path) -> None:
        self.info = info
        self.path = path
        self._run = session.run

    def one(self, prompt: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features and probabilities of one prompt."""
        row = np.empty((1, len(RICH_NAMES)), np.float32)
        features = row[0]
        features[:_N_LEXICAL] = extract_features(prompt)
        ids = scan_prompt(prompt, features, _N_LEXICAL)
        probabilities = self._run(["probabilities"], {"features": row, "ids": ids[None]})[0][0]
        return features[:_N_LEXICAL], probabilities

    def probabilities(self, prompt: str) -> NDArray[np.float32]:
        """Probabilities of one prompt."""
        return self.one(prompt)[1]

    def from_texts(self, prompts: list[str]) -> NDArray[np.float32]:
        """Probabilities of many prompts; those of like length run together, so that padding stays small."""
        features, ids = scan_many(prompts)
        out = np.empty((len(prompts), 3), np.float32)
        order = np.argsort([row.size for row in ids], kind="stable")
        for start in range(0, len(prompts), _BATCH):
            rows = order[start : start + _BATCH]
            inputs = {"features": features[rows], "ids": pad_ids([ids[row] for row in rows])}
            out[rows] = self._run(["probabilities"], inputs)[0]
        return out

    def from_features(self, features: ArrayLike) -> NDArray[np.float32]:
        """Refuse: without the words a rich model cannot answer."""
        raise _needs_texts(self.info, features)


class FastEngine:
    """The linear scores alone: softmax of three lines in their weighted sum."""

    form = "fast"

    def __init__(self, info: ModelInfo, path: Path, linear: LinearScores) -> None:
        self.info = info
        self.path = path
        self.linear = linear
        try:
            self.mix = [float(weight) for weight in info.form["mix"]]
            self._lines = [(float(intercept), float(slope)) for intercept, slope in info.form["fast_lines"]]
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaMismatchError(
                f"model {info.name!r} carries no coefficients of a fast form ({error!r})"
            ) from error
        # Plain floats: the whole prediction takes fewer steps than one numpy call.
        first, second = self.mix
        self._weights = np.ascontiguousarray(linear.weights)
        self._first = first * float(linear.scale[0])
        self._second = second * float(linear.scale[1])
        self._shift = first * float(linear.intercept[0]) + second * float(linear.intercept[1])

    def one(self, prompt: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features and probabilities of one prompt."""
        return extract_features(prompt), self.probabilities(prompt)

    def probabilities(self, prompt: str) -> NDArray[np.float32]:
        """Probabilities of one prompt."""
        return np.array(self.triple(prompt), np.float32)

    def triple(self, prompt: str) -> tuple[float, float, float]:
        """Probabilities of one prompt as plain floats."""
        first, second, n = score_prompt(prompt, self._weights)
        score = (first * self._first + second * self._second) / math.sqrt(max(n, 1)) + self._shift
        (a, b), (c, d), (e, f) = self._lines
        short, medium, long = a + b * score, c + d * score, e + f * score
        top = max(short, medium, long)
        short, medium, long = math.exp(short - top), math.exp(medium - top), math.exp(long - top)
        whole = short + medium + long
        return short / whole, medium / whole, long / whole

    def from_texts(self, prompts: list[str]) -> NDArray[np.float32]:
        """Probabilities of many prompts."""
        return np.array([self.triple(prompt) for prompt in prompts], np.float32)

    def from_features(self, features: ArrayLike) -> NDArray[np.float32]:
        """Refuse: without the words a rich model cannot answer."""
        raise _needs_texts(self.info, features)


def open_rich(session: Any, info: ModelInfo, path: Path, *, form: str) -> RichEngine | FastEngine:
    """Choose the form of a rich model.

    Raises
    ------
    SchemaMismatchError
        If the model's ids or features are of another version.
    """
    if info.schema_hash != RICH_HASH:
        raise SchemaMismatchError(
            f"model {info.name!r} speaks feature schema {info.schema} {info.schema_hash}; this version "
            "speaks "
            f"{info.schema} {RICH_HASH}: retrain the model, or install the version that made it"
        )
    if form == "fast":
        return FastEngine(info, path, read_linear(path))
    return RichEngine(session, info, path)


def read_linear(path: Path) -> LinearScores:
    """Read the linear scores out of a rich model's file."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    try:
        linear = LinearScores(constants["weights"], constants["scale"], constants["intercept"])
    except KeyError as error:
        raise SchemaMismatchError(f"{path.name} has no constant {error}; it is no rich model") from error
    if linear.weights.shape[0] != N_BUCKETS + 1:
        raise SchemaMismatchError(f"{path.name} has {linear.weights.shape[0]} ids, not {N_BUCKETS + 1}")
    return linear


def _needs_texts(info: ModelInfo, features: ArrayLike) -> ParameterError:
    return ParameterError(
        "prompts",
        np.shape(features),
        f"model {info.name!r} reads the prompts' words; give texts, or load a lexical-19 model such as "
        "'sharegpt'",
    )
