"""What a model file says about itself: its schema, classes, origin and figures, kept as ONNX metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from clairvoyant_lab.errors import ParameterError, SchemaMismatchError
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, check_bounds
from clairvoyant_lab.prompts.schema import SCHEMA_HASH, SCHEMA_NAME, SCHEMA_VERSION

__all__ = ["DEFAULT_CLASS_MEAN_TOKENS", "RICH", "ModelInfo", "library_versions"]

RICH = "rich"

DEFAULT_CLASS_MEAN_TOKENS = (89.0, 428.0, 985.0)
"""Mean response tokens by class for a model that carries none of its own.

ShareGPT's English first turns, counted with a Llama-like tokenizer.
"""

_LIBRARIES = ("numpy", "xgboost", "scikit-learn", "onnx", "onnxmltools", "onnxruntime")


@dataclass(frozen=True)
class ModelInfo:
    """A model's description.

    Attributes
    ----------
    name : str
        The model's name.
    schema, schema_version, schema_hash
        The feature schema it speaks: `lexical-19` or `rich`.
    variant : {"paper", "authors"}
        The extractor its features come from.
    class_bounds : tuple of int
        (short_below, long_from) in tokens.
    class_mean_tokens : tuple of float
        Mean response tokens of Short, Medium and Long rows in the training set.
    training_fingerprint : str
        Hash of the training rows; empty if unknown.
    metrics : dict
        Held-out figures.
    hyper : dict
        Training settings, with the seed.
    versions : dict of str to str
        Library versions at training.
    form : dict
        For `rich`: constants the runtime needs beside the graph (the `fast` form's coefficients and the
        like).
    """

    name: str
    schema: str = SCHEMA_NAME
    schema_version: int = SCHEMA_VERSION
    schema_hash: str = SCHEMA_HASH
    variant: str = "paper"
    class_bounds: tuple[int, int] = (SHORT_BELOW_TOKENS, LONG_FROM_TOKENS)
    class_mean_tokens: tuple[float, float, float] = DEFAULT_CLASS_MEAN_TOKENS
    training_fingerprint: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    hyper: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Any] = field(default_factory=dict)

    def to_metadata(self) -> dict[str, str]:
        """Return the description as ONNX metadata: text by name, structures as JSON with sorted keys."""
        return {
            "name": self.name,
            "schema": self.schema,
            "schema_version": str(self.schema_version),
            "schema_hash": self.schema_hash,
            "variant": self.variant,
            "class_bounds": json.dumps(list(self.class_bounds)),
            "class_mean_tokens": json.dumps([round(mean, 4) for mean in self.class_mean_tokens]),
            "training_fingerprint": self.training_fingerprint,
            "metrics": json.dumps(dict(self.metrics), sort_keys=True),
            "hyper": json.dumps(dict(self.hyper), sort_keys=True),
            "versions": json.dumps(dict(self.versions), sort_keys=True),
            "form": json.dumps(dict(self.form), sort_keys=True),
        }

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], *, name: str) -> ModelInfo:
        """Read the description of a model we exported.

        Raises
        ------
        SchemaMismatchError
            If the metadata is not ours or cannot be read.
        """
        try:
            bounds = json.loads(metadata["class_bounds"])
            means = json.loads(metadata["class_mean_tokens"])
            info = cls(
                name=metadata.get("name", name),
                schema=metadata["schema"],
                schema_version=int(metadata["schema_version"]),
                schema_hash=metadata["schema_hash"],
                variant=metadata["variant"],
                class_bounds=(int(bounds[0]), int(bounds[1])),
                class_mean_tokens=(float(means[0]), float(means[1]), float(means[2])),
                training_fingerprint=metadata["training_fingerprint"],
                metrics=json.loads(metadata["metrics"]),
                hyper=json.loads(metadata["hyper"]),
                versions=json.loads(metadata["versions"]),
                form=json.loads(metadata.get("form", "{}")),
            )
            _refuse_unusable(info)
            return info
        except (KeyError, IndexError, TypeError, ValueError, ParameterError) as error:
            raise SchemaMismatchError(
                f"model {name!r} has metadata that clairvoyant-lab cannot read ({error!r}); export it again"
            ) from error


def _refuse_unusable(info: ModelInfo) -> None:
    """Refuse what every prediction would stumble over."""
    check_bounds(*info.class_bounds)
    if not all(0.0 <= mean < math.inf for mean in info.class_mean_tokens):
        raise ValueError(f"class_mean_tokens {info.class_mean_tokens}")
    for name in ("metrics", "hyper", "versions", "form"):
        if not isinstance(getattr(info, name), dict):
            raise TypeError(f"{name} is no JSON object")


def library_versions() -> dict[str, str]:
    """Versions of the libraries that shape a trained model's bytes."""
    found = {}
    for name in _LIBRARIES:
        for distribution in (name, f"{name}-cpu"):
            try:
                found[name] = version(distribution)
            except PackageNotFoundError:
                continue
            break
    return found
