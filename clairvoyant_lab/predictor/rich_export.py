"""The richer predictor as one ONNX graph: features and n-gram ids in, three probabilities out.

```
ids int32 [n, k] ── Gather(weights int16) ── sum (exact) ─┐
      └── how many are no padding ── sqrt ────────────────┴─ scores [n, 2] ─┐
features float32 [n, 33] ───────────────────────────────────────────────────┴─ trees ── margin ── three lines,
                                                                                      softmax ── label,
                                                                                      probabilities
```
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.predictor.export import (
    ExportReport,
    build_model,
    margin_node,
    parity_rows,
    prove_parity,
    write_model,
)
from clairvoyant_lab.predictor.linear import LinearScores
from clairvoyant_lab.predictor.model_info import RICH, ModelInfo, library_versions
from clairvoyant_lab.predictor.ngrams import N_BUCKETS, RICH_HASH, RICH_NAMES, RICH_VERSION, pad_ids

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.rich import TrainedRich

__all__ = ["SCORES", "export_rich", "make_node", "rich_inputs", "score_nodes"]

SCORES = 2
"""Linear scores a prompt: log-odds of Long against Short, and expected log length."""

_PARITY_IDS = 2000


def export_rich(
    trained: TrainedRich, path: Path, *, name: str | None = None, metrics: Mapping[str, float] | None = None
) -> ExportReport:
    """Export a `TrainedRich`; see `TrainedRich.export_onnx`.

    Raises
    ------
    ExportParityError
        If the file's probabilities differ from the trained model's by 1e-5 or more.
    """
    from onnx import numpy_helper

    info = ModelInfo(
        name=name if name is not None else path.stem,
        schema=RICH,
        schema_version=RICH_VERSION,
        schema_hash=RICH_HASH,
        class_bounds=trained.class_bounds,
        class_mean_tokens=trained.class_mean_tokens,
        training_fingerprint=trained.fingerprint,
        metrics=trained.metrics if metrics is None else metrics,
        hyper={**trained.hyper, "seed": trained.seed},
        versions=library_versions(),
        form={
            "lines": trained.lines.tolist(),
            "mix": trained.mix.tolist(),
            "fast_lines": trained.fast_lines.tolist(),
            "typical": _typical(trained),
            **({"trees": False} if trained.trees is None else {}),
        },
    )
    width = len(RICH_NAMES)
    nodes, initializers = score_nodes(trained.linear)
    if trained.trees is None:
        mix = trained.mix.astype(np.float32).reshape(SCORES, 1)
        initializers.append(numpy_helper.from_array(mix, "mix"))
        nodes.append(make_node("MatMul", ["scores", "mix"], ["margin"]))
    else:
        nodes.append(make_node("Concat", ["features", "scores"], ["rows"], axis=1))
        nodes.append(margin_node(trained.trees, width + SCORES, "rows", "margin"))
    class_nodes, class_constants = _class_nodes(trained.lines)
    data = build_model(
        [*nodes, *class_nodes], rich_inputs(), [*initializers, *class_constants], info.to_metadata()
    )

    # Every training prompt through both; then threshold and random rows, with the ids of real prompts.
    known = trained.training_rows
    if trained.trees is None:
        features = np.concatenate([known, known[::-1]])
    else:
        features = parity_rows(trained.trees, _with_scores(trained), trained.seed)[:, :width]
    rng = np.random.default_rng(trained.seed)
    n = len(trained.training_ids)
    chosen = np.concatenate([np.arange(n), rng.integers(0, n, len(features) - n)])
    difference = 0.0
    for start in range(0, len(features), _PARITY_IDS):
        rows = features[start : start + _PARITY_IDS]
        ids = [trained.training_ids[row] for row in chosen[start : start + _PARITY_IDS]]
        inputs = {"features": np.ascontiguousarray(rows), "ids": pad_ids(ids)}
        difference = max(difference, prove_parity(data, inputs, trained.from_scan(rows, ids)))
    return write_model(path, data, difference, len(features))


def rich_inputs() -> list[Any]:
    """Graph inputs of the rich schema."""
    from onnx import TensorProto, helper

    return [
        helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, len(RICH_NAMES)]),
        helper.make_tensor_value_info("ids", TensorProto.INT32, [None, None]),
    ]


def score_nodes(linear: LinearScores) -> tuple[list[Any], list[Any]]:
    """Nodes from `ids` to `scores`, and their constants.

    The sum runs over integers, the rest in float32 in the order of `LinearScores.scores`: equal to the
    last bit.
    """
    from onnx import TensorProto, numpy_helper

    constants: dict[str, NDArray[Any]] = {
        "weights": linear.weights,
        "scale": linear.scale,
        "intercept": linear.intercept,
        "padding": np.array(N_BUCKETS, np.int32),
        "one": np.array(1, np.float32),
        "ids_axis": np.array([1], np.int64),
    }
    nodes = [
        make_node("Gather", ["weights", "ids"], ["id_weights"], axis=0),
        make_node("Cast", ["id_weights"], ["id_weights_wide"], to=TensorProto.INT32),
        make_node("ReduceSum", ["id_weights_wide", "ids_axis"], ["total_whole"], keepdims=0),
        make_node("Cast", ["total_whole"], ["total"], to=TensorProto.FLOAT),
        make_node("Less", ["ids", "padding"], ["is_id"]),
        make_node("Cast", ["is_id"], ["is_id_float"], to=TensorProto.FLOAT),
        make_node("ReduceSum", ["is_id_float", "ids_axis"], ["n_ids"], keepdims=1),
        make_node("Max", ["n_ids", "one"], ["n_ids_or_one"]),
        make_node("Sqrt", ["n_ids_or_one"], ["root"]),
        make_node("Div", ["total", "root"], ["mean_total"]),
        make_node("Mul", ["mean_total", "scale"], ["scaled"]),
        make_node("Add", ["scaled", "intercept"], ["scores"]),
    ]
    return nodes, [numpy_helper.from_array(value, name) for name, value in constants.items()]


def make_node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes)


def _class_nodes(lines: NDArray[np.float64]) -> tuple[list[Any], list[Any]]:
    from onnx import numpy_helper

    constants = {"line_intercept": lines[:, 0], "line_slope": lines[:, 1]}
    nodes = [
        make_node("Mul", ["margin", "line_slope"], ["risen"]),
        make_node("Add", ["risen", "line_intercept"], ["heights"]),
        make_node("Softmax", ["heights"], ["probabilities"], axis=1),
        make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0),
    ]
    return nodes, [
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()
    ]


def _typical(trained: TrainedRich) -> list[float]:
    """Medians of the training rows, scores included: what an explanation compares with."""
    return [float(value) for value in np.median(_with_scores(trained), axis=0).astype(np.float32)]


def _with_scores(trained: TrainedRich) -> NDArray[np.float32]:
    scores = trained.linear.scores(trained.training_ids)
    return np.column_stack([trained.training_rows, scores])
