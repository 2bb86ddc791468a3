"""Write trained trees as ONNX, after proving that the file gives the same probabilities.

The bytes depend on the training rows, the seed and the library versions only: no timestamps, no random names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab import __version__
from clairvoyant_lab.errors import ExportParityError, ParameterError, SchemaMismatchError
from clairvoyant_lab.predictor.model_info import ModelInfo, library_versions
from clairvoyant_lab.predictor.training import TrainedPredictor
from clairvoyant_lab.prompts.schema import FEATURE_NAMES
from clairvoyant_lab.results import summary_html

__all__ = [
    "PARITY_BELOW",
    "ExportReport",
    "build_model",
    "export_lexical",
    "margin_node",
    "parity_rows",
    "prove_parity",
    "tree_node",
    "write_model",
]

PARITY_BELOW = 1e-5
"""Largest difference of a probability that still counts as equal."""

# The converter's own highest opset for trees; everything we add is older than 17.
_CONVERTER_OPSET = 15
_OPSET = 17
_IR_VERSION = 8


@dataclass(frozen=True)
class ExportReport:
    """What was written and how it was proved.

    Attributes
    ----------
    path : Path
        The file.
    max_abs_difference : float
        Largest |Δp| against the trained model.
    rows_checked : int
        Random rows, rows on split thresholds, and all training rows.
    n_bytes : int
        Size of the file.
    sha256 : str
        Hash of the file.
    """

    path: Path
    max_abs_difference: float
    rows_checked: int
    n_bytes: int
    sha256: str

    def summary(self) -> dict[str, object]:
        """Return the figures by name."""
        return {
            "file": self.path.name,
            "max_abs_difference": self.max_abs_difference,
            "rows_checked": self.rows_checked,
            "bytes": self.n_bytes,
            "sha256": self.sha256,
        }

    def _repr_html_(self) -> str:
        return summary_html("Exported model", self.summary())


def export_lexical(
    trained: TrainedPredictor,
    path: Path,
    *,
    name: str | None = None,
    variant: str = "paper",
    metrics: Mapping[str, float] | None = None,
) -> ExportReport:
    """Export a model on the 19 features: input `features` float32 [n, 19]; outputs label and probabilities.

    Raises
    ------
    SchemaMismatchError
        If the model was trained on other columns than `FEATURE_NAMES`.
    ExportParityError
        If the file's probabilities differ from the trained model's by 1e-5 or more.
    """
    if variant not in ("paper", "authors"):
        raise ParameterError("variant", variant, "give 'paper' or 'authors'")
    if trained.feature_names != FEATURE_NAMES:
        raise SchemaMismatchError(
            f"the model was trained on {len(trained.feature_names)} columns "
            f"({', '.join(trained.feature_names[:3])}, …); the schema lexical-19 has {len(FEATURE_NAMES)} "
            f"({', '.join(FEATURE_NAMES[:3])}, …)"
        )
    from onnx import TensorProto, helper

    info = ModelInfo(
        name=name if name is not None else path.stem,
        variant=variant,
        class_bounds=trained.class_bounds,
        class_mean_tokens=trained.class_mean_tokens,
        training_fingerprint=trained.fingerprint,
        metrics=trained.metrics if metrics is None else metrics,
        hyper={**trained.hyper, "seed": trained.seed},
        versions=library_versions(),
        form={"typical": [float(value) for value in np.median(trained.training_rows, axis=0)]},
    )
    node = tree_node(trained.model, len(FEATURE_NAMES), "features")
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, len(FEATURE_NAMES)])
    data = build_model([node], [features], [], info.to_metadata())
    rows = parity_rows(trained.model, trained.training_rows, trained.seed)
    difference = prove_parity(data, {"features": rows}, trained.predict_proba(rows))
    return write_model(path, data, difference, len(rows))


def tree_node(model: Any, n_features: int, input_name: str) -> Any:
    """The one ONNX node that holds an XGBoost classifier, reading `input_name`.

    With early stopping only the rounds up to the best one are kept, as XGBoost predicts with.
    """
    nodes = list(_convert(model, n_features).graph.node)
    if [node.op_type for node in nodes] != ["TreeEnsembleClassifier"]:
        raise ExportParityError(
            f"the converter made {[node.op_type for node in nodes]} instead of one tree ensemble; "
            "use the library versions in the model card"
        )
    node = nodes[0]
    node.input[0] = input_name
    node.output[0], node.output[1] = "label", "probabilities"
    node.name = "trees"
    return node


def margin_node(model: Any, n_features: int, input_name: str, output_name: str) -> Any:
    """The one ONNX node that gives the raw sum of an XGBoost model's leaves, shape [n, 1].

    The model must have been trained from `base_score` 0.5 (logistic) or 0 (regression), so it starts at 0.
    """
    from onnx import helper
    from xgboost import XGBRegressor

    # The converter reads the trees of any booster; told it is a regressor, it leaves their sum alone.
    plain = XGBRegressor(n_estimators=model.get_booster().num_boosted_rounds(), base_score=0.5)
    plain._Booster = model.get_booster()
    nodes = list(_convert(plain, n_features).graph.node)
    if [node.op_type for node in nodes] != ["TreeEnsembleRegressor"]:
        raise ExportParityError(
            f"the converter made {[node.op_type for node in nodes]} instead of one tree ensemble; "
            "use the library versions in the model card"
        )
    node = nodes[0]
    kept = [item for item in node.attribute if item.name != "base_values"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("base_values", [0.0])])
    node.input[0], node.output[0], node.name = input_name, output_name, output_name
    return node


def build_model(
    nodes: list[Any],
    inputs: list[Any],
    initializers: list[Any],
    metadata: Mapping[str, str],
    outputs: list[Any] | None = None,
) -> bytes:
    """Assemble nodes into a model's bytes; the outputs are `label` and `probabilities` unless given."""
    from onnx import TensorProto, checker, helper

    if outputs is None:
        outputs = [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 3]),
        ]
    graph = helper.make_graph(nodes, "clairvoyant", inputs, outputs, initializer=initializers)
    model = helper.make_model(
        graph,
        producer_name="clairvoyant-lab",
        producer_version=__version__,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", 1)],
    )
    for key in sorted(metadata):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, metadata[key]
    checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def parity_rows(model: Any, training_rows: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Rows to prove equality on: all training rows, random rows, and rows exactly on split thresholds.

    A threshold row takes a real row and sets the split's feature to the threshold, to the float just below
    and to the one just above: where a comparison turned the wrong way shows.
    """
    rng = np.random.default_rng(seed)
    n_features = training_rows.shape[1]
    low, high = training_rows.min(axis=0), training_rows.max(axis=0)
    uniform = rng.uniform(low, high + 1, size=(1000, n_features)).astype(np.float32)
    shuffled = np.column_stack([rng.choice(training_rows[:, j], 1000) for j in range(n_features)])
    features, thresholds = _splits(model)
    if features.size > 5000:
        chosen = rng.choice(features.size, 5000, replace=False)
        features, thresholds = features[chosen], thresholds[chosen]
    blocks = [training_rows, uniform, shuffled.astype(np.float32)]
    for values in (
        thresholds,
        np.nextafter(thresholds, np.float32(-np.inf)),
        np.nextafter(thresholds, np.float32(np.inf)),
    ):
        rows = training_rows[rng.integers(0, len(training_rows), features.size)].copy()
        rows[np.arange(features.size), features] = values
        blocks.append(rows)
    return np.ascontiguousarray(np.concatenate(blocks), dtype=np.float32)


def prove_parity(data: bytes, inputs: Mapping[str, NDArray[Any]], expected: NDArray[np.float32]) -> float:
    """Run the file's bytes and compare with the trained model's probabilities.

    Returns
    -------
    float
        The largest |Δp|.

    Raises
    ------
    ExportParityError
        If it is 1e-5 or more, or the shapes differ.
    """
    import onnxruntime as ort

    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    label, probabilities = session.run(["label", "probabilities"], dict(inputs))
    if probabilities.shape != expected.shape:
        raise ExportParityError(f"the file gives {probabilities.shape}, the model {expected.shape}")
    gap = np.abs(probabilities.astype(np.float64) - expected)
    worst = int(gap.max(axis=1).argmax())
    difference = float(gap[worst].max())
    if not difference < PARITY_BELOW:
        raise ExportParityError(
            f"row {worst}: the file gives {probabilities[worst].tolist()}, "
            f"the model {expected[worst].tolist()} "
            f"(largest difference {difference:.3g}; must be below {PARITY_BELOW:g})"
        )
    clear = np.diff(np.sort(probabilities, axis=1)[:, 1:], axis=1)[:, 0] > PARITY_BELOW
    if not (label[clear] == probabilities[clear].argmax(axis=1)).all():
        raise ExportParityError("the file's labels are not the classes with the highest probability")
    return difference


def write_model(path: Path, data: bytes, difference: float, rows_checked: int) -> ExportReport:
    """Write the bytes; an existing file is replaced in one step."""
    path = Path(path)
    if path.suffix != ".onnx":
        raise ParameterError("path", str(path), "give a name that ends in .onnx")
    if not path.parent.is_dir():
        raise ParameterError("path", str(path), "the folder does not exist; make it first")
    partial = path.with_suffix(".onnx.partial")
    partial.write_bytes(data)
    partial.replace(path)
    return ExportReport(path, difference, rows_checked, len(data), hashlib.sha256(data).hexdigest())


def _convert(model: Any, n_features: int) -> Any:
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    return convert_xgboost(
        model,
        initial_types=[("features", FloatTensorType([None, n_features]))],
        target_opset=_CONVERTER_OPSET,
    )


def _splits(model: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    frame = model.get_booster().trees_to_dataframe()
    inner = frame[frame["Feature"] != "Leaf"]
    features = inner["Feature"].str.slice(1).to_numpy(dtype=np.int64)
    return features, inner["Split"].to_numpy(dtype=np.float32)
