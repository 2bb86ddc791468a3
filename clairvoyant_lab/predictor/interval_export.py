"""The interval bounds as one ONNX graph, and the runtime that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ExportParityError, ParameterError, SchemaMismatchError
from clairvoyant_lab.predictor.engines import open_session
from clairvoyant_lab.predictor.export import ExportReport, build_model, margin_node, parity_rows, write_model
from clairvoyant_lab.predictor.intervals import Intervals, TrainedIntervals, round_outwards
from clairvoyant_lab.predictor.model_info import ModelInfo, library_versions
from clairvoyant_lab.predictor.ngrams import RICH_HASH, RICH_NAMES, RICH_VERSION, pad_ids, scan_many
from clairvoyant_lab.predictor.rich_export import SCORES, make_node, rich_inputs, score_nodes
from clairvoyant_lab.predictor.runtime import model_path

__all__ = ["INTERVAL_SCHEMA", "LengthIntervals", "export_intervals"]

INTERVAL_SCHEMA = "rich-interval"
_BELOW = 1e-4
_BATCH = 256


def export_intervals(
    trained: TrainedIntervals, path: Path, *, name: str | None, metrics: Mapping[str, float]
) -> ExportReport:
    """Export; see `TrainedIntervals.export_onnx`.

    Raises
    ------
    ExportParityError
        If a bound differs by more than one part in 10,000 from the trained model's.
    """
    from onnx import TensorProto, helper, numpy_helper

    info = ModelInfo(
        name=name if name is not None else path.stem,
        schema=INTERVAL_SCHEMA,
        schema_version=RICH_VERSION,
        schema_hash=RICH_HASH,
        training_fingerprint=trained.fingerprint,
        metrics=metrics,
        hyper={"level": trained.level, "seed": trained.seed, "n_calibration": trained.n_calibration},
        versions=library_versions(),
        form={"level": trained.level},
    )
    width = len(RICH_NAMES) + SCORES
    nodes, constants = score_nodes(trained.linear)
    nodes += [
        make_node("Concat", ["features", "scores"], ["rows"], axis=1),
        margin_node(trained.lower, width, "rows", "low_trees"),
        margin_node(trained.upper, width, "rows", "high_trees"),
        make_node("Add", ["low_trees", "low_shift"], ["low_column"]),
        make_node("Add", ["high_trees", "high_shift"], ["high_column"]),
        make_node("Min", ["low_column", "high_column"], ["low_under"]),
    ]
    for side, source in (("lower", "low_under"), ("upper", "high_column")):
        nodes += [
            make_node("Squeeze", [source, "ids_axis"], [f"{side}_log"]),
            make_node("Exp", [f"{side}_log"], [f"{side}_plus"]),
            make_node("Sub", [f"{side}_plus", "five"], [side]),
        ]
    for key, value in (
        ("low_shift", trained.centre - trained.lower_shift),
        ("high_shift", trained.centre + trained.upper_shift),
        ("five", 5.0),
    ):
        constants.append(numpy_helper.from_array(np.array(value, np.float32), key))
    outputs = [helper.make_tensor_value_info(side, TensorProto.FLOAT, [None]) for side in ("lower", "upper")]
    data = build_model(nodes, rich_inputs(), constants, info.to_metadata(), outputs)
    difference, checked = _prove(trained, data)
    return write_model(path, data, difference, checked)


class LengthIntervals:
    """Predicts intervals of response lengths; make one with `LengthIntervals.load`."""

    def __init__(self, session: Any, info: ModelInfo) -> None:
        self._run = session.run
        self.info = info
        self.level = float(info.form["level"])

    @classmethod
    def load(cls, model: str | Path = "sharegpt-intervals", *, threads: int = 1) -> LengthIntervals:
        """Load a committed interval model by name, or an .onnx file by path.

        Raises
        ------
        ParameterError
            If there is no such model.
        SchemaMismatchError
            If the file holds something else.
        """
        path = model_path(model)
        session = open_session(path, threads)
        metadata = dict(session.get_modelmeta().custom_metadata_map)
        schema, known = metadata.get("schema", "none"), metadata.get("schema_hash", "none")
        if schema != INTERVAL_SCHEMA or known != RICH_HASH:
            raise SchemaMismatchError(
                f"{path.name} speaks schema {schema} {known}; intervals need {INTERVAL_SCHEMA} {RICH_HASH}"
            )
        return cls(session, ModelInfo.from_metadata(metadata, name=path.stem))

    def predict(self, prompts: Sequence[str]) -> Intervals:
        """Intervals of prompts.

        Raises
        ------
        ParameterError
            For no prompts or a lone string.
        """
        if isinstance(prompts, str) or not len(prompts):
            raise ParameterError("prompts", prompts, "give a list of at least one prompt")
        features, ids = scan_many(list(prompts))
        lower = np.empty(len(ids), np.float32)
        upper = np.empty(len(ids), np.float32)
        order = np.argsort([row.size for row in ids], kind="stable")
        for start in range(0, len(ids), _BATCH):
            rows = order[start : start + _BATCH]
            inputs = {"features": features[rows], "ids": pad_ids([ids[row] for row in rows])}
            lower[rows], upper[rows] = self._run(["lower", "upper"], inputs)
        return round_outwards(lower, upper, self.level)


def _prove(trained: TrainedIntervals, data: bytes) -> tuple[float, int]:
    session = open_session(data, 1)
    known: NDArray[np.float32] = np.column_stack(
        [trained.training_rows, trained.linear.scores(trained.training_ids)]
    )
    rng = np.random.default_rng(trained.seed)
    features = np.concatenate(
        [
            parity_rows(model, known, trained.seed)[:, : len(RICH_NAMES)]
            for model in (trained.lower, trained.upper)
        ]
    )
    chosen = rng.integers(0, len(known), len(features))
    chosen[: len(known)] = np.arange(len(known))
    worst = 0.0
    for start in range(0, len(features), 2000):
        rows = np.ascontiguousarray(features[start : start + 2000])
        ids = [trained.training_ids[row] for row in chosen[start : start + 2000]]
        found = session.run(["lower", "upper"], {"features": rows, "ids": pad_ids(ids)})
        for ours, theirs in zip(found, trained.raw(rows, ids), strict=True):
            worst = max(worst, float((np.abs(ours - theirs) / (np.abs(theirs) + 1)).max()))
    if not worst < _BELOW:
        raise ExportParityError(f"a bound differs by a share of {worst:.3g}; must be below {_BELOW:g}")
    return worst, len(features)
