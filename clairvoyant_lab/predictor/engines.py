"""The two kinds of model behind `LengthPredictor`: lexical (19 features in) and rich (n-grams too)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, SchemaMismatchError
from clairvoyant_lab.predictor.model_info import RICH, ModelInfo
from clairvoyant_lab.predictor.training import checked_rows
from clairvoyant_lab.prompts.schema import FEATURE_NAMES, SCHEMA_HASH, SCHEMA_NAME

__all__ = ["Engine", "LexicalEngine", "open_engine", "open_session"]


class Engine(Protocol):
    """What `LengthPredictor` asks of a model."""

    info: ModelInfo
    form: str
    path: Path

    def one(self, prompt: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features (19,) and probabilities (3,) of one prompt."""

    def probabilities(self, prompt: str) -> NDArray[np.float32]:
        """Probabilities (3,) of one prompt."""

    def from_texts(self, prompts: list[str]) -> NDArray[np.float32]:
        """Probabilities (n, 3) of many prompts."""

    def from_features(self, features: ArrayLike) -> NDArray[np.float32]:
        """Probabilities (n, 3) of bare lexical features, where the model can do with them."""


class LexicalEngine:
    """A model on the 19 features."""

    form = "full"

    def __init__(self, session: Any, info: ModelInfo, path: Path) -> None:
        self.info = info
        self.path = path
        self._run = session.run
        self._input = session.get_inputs()[0].name
        self._outputs = [session.get_outputs()[1].name]
        self._variant = info.variant

    def one(self, prompt: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features and probabilities of one prompt."""
        from clairvoyant_lab.prompts import extract_features

        features = extract_features(prompt, variant=self._variant)
        return features, self._run(self._outputs, {self._input: features.reshape(1, -1)})[0][0]

    def probabilities(self, prompt: str) -> NDArray[np.float32]:
        """Probabilities of one prompt."""
        return self.one(prompt)[1]

    def from_texts(self, prompts: list[str]) -> NDArray[np.float32]:
        """Probabilities of many prompts."""
        from clairvoyant_lab.prompts import extract_features_batch

        return self.from_features(extract_features_batch(prompts, variant=self._variant))

    def from_features(self, features: ArrayLike) -> NDArray[np.float32]:
        """Probabilities of rows of features."""
        rows = checked_rows(features, len(FEATURE_NAMES))
        if not len(rows):
            raise ParameterError("prompts", rows.shape, "give at least one row")
        return np.asarray(self._run(self._outputs, {self._input: rows})[0], dtype=np.float32)


def open_session(source: Path | bytes, threads: int) -> Any:
    """Open an ONNX file, or say that it is none.

    Raises
    ------
    DataError
        If the runtime cannot read it.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Buffers of one row are too small for a plan of memory to pay.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    # A server thread that spins between requests would take the core its backend computes on.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(
            str(source) if isinstance(source, Path) else source, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        where = source.name if isinstance(source, Path) else "model"
        reason = str(error).splitlines()[0]
        raise DataError(f"cannot be read as an ONNX model ({reason})", source=where) from error


def open_engine(path: Path, *, form: str, threads: int) -> Engine:
    """Open a model file and choose the engine by its metadata.

    Raises
    ------
    SchemaMismatchError
        If the model's schema is not one of ours; the message names both.
    """
    session = open_session(path, threads)
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    if "schema" not in metadata:
        return LexicalEngine(session, _published_info(session, path, form), path)
    info = ModelInfo.from_metadata(metadata, name=path.stem)
    if info.schema == RICH:
        from clairvoyant_lab.predictor.rich_engine import open_rich

        return open_rich(info, path, form=form, threads=threads)
    if info.schema != SCHEMA_NAME or info.schema_hash != SCHEMA_HASH:
        raise SchemaMismatchError(
            f"model {info.name!r} speaks feature schema {info.schema} {info.schema_hash}; this version "
            "speaks "
            f"{SCHEMA_NAME} {SCHEMA_HASH}: retrain the model, or install the version that made it"
        )
    _refuse_fast(form, info.name)
    return LexicalEngine(session, info, path)


def _published_info(session: Any, path: Path, form: str) -> ModelInfo:
    # The Clairvoyant authors' file carries no metadata: it is known by its shape, and speaks their features.
    inputs, outputs = session.get_inputs(), session.get_outputs()
    shape = inputs[0].shape if inputs else []
    if (
        len(inputs) != 1
        or inputs[0].type != "tensor(float)"
        or len(shape) != 2
        or shape[1] != len(FEATURE_NAMES)
        or len(outputs) != 2
        or outputs[1].type != "tensor(float)"
        or outputs[1].shape[-1] != 3
    ):
        raise SchemaMismatchError(
            f"{path.name} has no clairvoyant metadata and inputs "
            f"{[(i.name, i.shape, i.type) for i in inputs]}; "
            f"this version speaks {SCHEMA_NAME} {SCHEMA_HASH} (float32 [n, {len(FEATURE_NAMES)}] in, "
            "probabilities "
            "float32 [n, 3] out)"
        )
    _refuse_fast(form, path.stem)
    return ModelInfo(name=path.stem, variant="authors")


def _refuse_fast(form: str, name: str) -> None:
    if form == "fast":
        raise ParameterError("form", form, f"model {name!r} has no fast form; only rich models have one")
