"""Runs a rich model: the whole graph, or the `fast` form, whose linear score needs no runtime at all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, SchemaMismatchError
from clairvoyant_lab.predictor.engines import open_session
from clairvoyant_lab.predictor.linear import LinearScores
from clairvoyant_lab.predictor.model_info import ModelInfo
from clairvoyant_lab.predictor.ngrams import (
    N_BUCKETS,
    RICH_HASH,
    RICH_NAMES,
    fill_row,
    scan_many,
    score_prompt,
)
from clairvoyant_lab.prompts import extract_features
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

__all__ = ["FastEngine", "RichEngine", "open_rich", "read_linear"]

_N_LEXICAL, _N_RICH = len(FEATURE_NAMES), len(RICH_NAMES)
_PROBABILITIES = ["probabilities"]


class RichEngine:
    """Exact sums of the ids' weights by the scan itself, then the trees by the runtime.

    The file's graph makes those sums too. Cut after them it needs no table of weights and a quarter of its
    nodes, and gives the same bits.
    """

    form = "full"

    def __init__(self, linear: LinearScores, session: Any, info: ModelInfo, path: Path) -> None:
        self.info = info
        self.path = path
        self.linear = linear
        self._run = session.run
        (entry,) = session.get_inputs()
        self._entry = entry.name
        self._first = _N_RICH if entry.name == "scores" else 0
        self._weights = np.ascontiguousarray(linear.weights)

    def one(self, prompt: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features and probabilities of one prompt."""
        row = np.empty((1, _N_RICH + 2), np.float32)
        values = row[0]
        values[:_N_LEXICAL] = extract_features(prompt)
        fill_row(prompt, self._weights, self.linear.scale, self.linear.intercept, values[_N_LEXICAL:])
        return values[:_N_LEXICAL], self._run(_PROBABILITIES, {self._entry: row[:, self._first :]})[0][0]

    def probabilities(self, prompt: str) -> NDArray[np.float32]:
        """Probabilities of one prompt."""
        return self.one(prompt)[1]

    def from_texts(self, prompts: list[str]) -> NDArray[np.float32]:
        """Probabilities of many prompts."""
        features, ids = scan_many(prompts)
        rows = np.column_stack([features, self.linear.scores(ids)])
        return np.asarray(self._run(_PROBABILITIES, {self._entry: rows[:, self._first :]})[0], np.float32)

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
            first, second = self.mix = [float(weight) for weight in info.form["mix"]]
            lines = [(float(intercept), float(slope)) for intercept, slope in info.form["fast_lines"]]
            _, _, _ = self._lines = lines
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaMismatchError(
                f"model {info.name!r} carries no coefficients of a fast form ({error!r})"
            ) from error
        # Plain floats: the whole prediction takes fewer steps than one numpy call.
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


def open_rich(info: ModelInfo, path: Path, *, form: str, threads: int) -> RichEngine | FastEngine:
    """Choose the form of a rich model.

    Raises
    ------
    SchemaMismatchError
        If the model's ids or features are of another version.
    DataError
        If the graph is none of a rich model.
    """
    if info.schema_hash != RICH_HASH:
        raise SchemaMismatchError(
            f"model {info.name!r} speaks feature schema {info.schema} {info.schema_hash}; this version "
            "speaks "
            f"{info.schema} {RICH_HASH}: retrain the model, or install the version that made it"
        )
    linear = read_linear(path)
    if form == "fast":
        return FastEngine(info, path, linear)
    return RichEngine(linear, open_session(_after_scores(path, info), threads), info, path)


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
    # compiled code reads the weights by id, unchecked
    for name, dtype, shape in (
        ("weights", np.int16, (N_BUCKETS + 1, 2)),
        ("scale", np.float32, (2,)),
        ("intercept", np.float32, (2,)),
    ):
        table = constants[name]
        if table.shape != shape or table.dtype != dtype or not np.isfinite(table).all():
            raise SchemaMismatchError(
                f"{path.name} has {name} of shape {table.shape} and type {table.dtype}; a rich model has "
                f"{shape} and {np.dtype(dtype)}, all of them finite"
            )
    return linear


def _after_scores(path: Path, info: ModelInfo) -> bytes:
    """The part of a rich model's graph that follows the linear scores."""
    import onnx
    from onnx.utils import Extractor

    entry = "rows" if info.form.get("trees", True) else "scores"
    try:
        whole = Extractor(onnx.shape_inference.infer_shapes(onnx.load(str(path))))
        part: bytes = whole.extract_model([entry], _PROBABILITIES).SerializeToString()
    except Exception as error:  # onnx raises kinds of its own, and Python's
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"has no graph of a rich model ({reason})", source=path.name) from error
    return part


def _needs_texts(info: ModelInfo, features: ArrayLike) -> ParameterError:
    return ParameterError(
        "prompts",
        np.shape(features),
        f"model {info.name!r} reads the prompts' words; give texts, or load a lexical-19 model such as "
        "'sharegpt'",
    )
