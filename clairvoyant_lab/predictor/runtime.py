"""Run a length predictor: load a model once, then microseconds a prompt.

For a scheduler, one call gives all it needs:

>>> predictor = LengthPredictor.load("sharegpt-rich")           # doctest: +SKIP
>>> predictor.predict("Write a long essay", token_cap=300)      # doctest: +SKIP
Prediction(p_long=0.0, predicted_class=<LengthClass.MEDIUM: 1>, predicted_tokens=297.4, ...)

A loaded predictor is safe to use from many threads, and uses one thread itself by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.paths import models_dir
from clairvoyant_lab.predictor.caps import apply_token_cap, checked_cap
from clairvoyant_lab.predictor.engines import Engine, open_engine
from clairvoyant_lab.predictor.model_info import ModelInfo
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.explain import Explanation

__all__ = ["DEFAULT_MODEL", "LengthPredictor", "Prediction", "model_names", "model_path"]

DEFAULT_MODEL = "sharegpt-rich"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is known about one prompt's answer before it starts.

    Attributes
    ----------
    p_long : float
        P(Long) after the cap: the paper's priority key.
    predicted_class : LengthClass
        The class with the highest probability after the cap.
    predicted_tokens : float
        Expected response tokens: the sum over classes of p_k · min(m_k, cap).
    probabilities : ndarray of float32, shape (3,)
        P(Short), P(Medium), P(Long) after the cap.
    features : ndarray of float32, shape (19,)
        The lexical features, by the model's own extractor.
    token_cap : int or None
        The cap that was applied.
    """

    p_long: float
    predicted_class: LengthClass
    predicted_tokens: float
    probabilities: NDArray[np.float32]
    features: NDArray[np.float32]
    token_cap: int | None

    def summary(self) -> dict[str, object]:
        """Return the figures by name."""
        return {
            "p_short": float(self.probabilities[0]),
            "p_medium": float(self.probabilities[1]),
            "p_long": self.p_long,
            "predicted_class": self.predicted_class.label,
            "predicted_tokens": self.predicted_tokens,
            "token_cap": self.token_cap,
        }

    def _repr_html_(self) -> str:
        # for people: predicted_tokens, the name in code, is an expected value, not the likeliest one
        shown = {"predicted_tokens": "expected tokens"}
        return summary_html(
            "Prediction", {shown.get(name, name): value for name, value in self.summary().items()}
        )


class LengthPredictor:
    """Predicts the length class of answers from prompts; make one with `LengthPredictor.load`.

    Attributes
    ----------
    info : ModelInfo
        What the model says about itself.
    form : {"full", "fast"}
        Which form runs.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.info: ModelInfo = engine.info
        self.form: str = engine.form
        self._short_below, self._long_from = engine.info.class_bounds
        # Four plain floats and a few branches: numpy costs more than the sum itself.
        self._means = engine.info.class_mean_tokens

    @classmethod
    def load(
        cls,
        model: str | Path = DEFAULT_MODEL,
        *,
        form: str = "full",
        threads: int = 1,
        class_mean_tokens: tuple[float, float, float] | None = None,
    ) -> LengthPredictor:
        """Load a model by name or path.

        Parameters
        ----------
        model : str or Path
            A committed model (`sharegpt-rich`, the default; `sharegpt`, the paper's), or the path of any
            compatible .onnx file, the Clairvoyant authors' published one included. `:fast` at its end stands
            for `form="fast"`, where only a name can be given.
        form : {"full", "fast"}
            `fast` uses the linear score of a rich model alone: a few microseconds, slightly less accurate.
        threads : int
            Threads of one prediction.
        class_mean_tokens : tuple of float, optional
            Mean response tokens by class, instead of the model's own.

        Raises
        ------
        ParameterError
            If there is no such model or file.
        SchemaMismatchError
            If the model speaks another feature schema.
        """
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise ParameterError("threads", threads, "give 1 or more")
        if isinstance(model, str) and model.endswith(":fast"):
            model, form = model.removesuffix(":fast"), "fast"
        if form not in ("full", "fast"):
            raise ParameterError("form", form, "give 'full' or 'fast'")
        engine = open_engine(model_path(model), form=form, threads=threads)
        if class_mean_tokens is not None:
            engine.info = _with_means(engine.info, class_mean_tokens)
        return cls(engine)

    def predict_proba(self, prompts: Sequence[str] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Class probabilities of many prompts.

        Parameters
        ----------
        prompts : sequence of str, or array_like of shape (n, 19)
            Prompts; a lexical-19 model also takes their features.

        Returns
        -------
        ndarray of float32, shape (n, 3)
            P(Short), P(Medium), P(Long).

        Raises
        ------
        ParameterError
            For no prompts, a lone string, or bare features for a rich model.
        DataError
            For features of another shape or with a value that is not finite.
        """
        if isinstance(prompts, str):
            raise ParameterError("prompts", prompts, "give a list of prompts, or use predict(prompt) for one")
        if isinstance(prompts, np.ndarray) and prompts.dtype.kind not in "OUT":
            return self._engine.from_features(prompts)
        texts = [_checked_prompt(prompt, index) for index, prompt in enumerate(prompts)]
        if not texts:
            raise ParameterError("prompts", prompts, "give at least one prompt")
        return self._engine.from_texts(texts)

    def predict(self, prompt: str, token_cap: int | None = None) -> Prediction:
        """Everything about one prompt in one call: features, probabilities, class, expected tokens.

        Parameters
        ----------
        prompt : str
            The prompt.
        token_cap : int or None
            Most tokens the answer may have (max_tokens, num_predict).

        Returns
        -------
        Prediction
        """
        cap = checked_cap(token_cap)
        features, probabilities = self._engine.one(_checked_prompt(prompt, None))
        if cap is not None and cap < self._long_from:
            probabilities = apply_token_cap(probabilities, cap, self._short_below, self._long_from)
        p_short, p_medium, p_long = probabilities.tolist()
        m_short, m_medium, m_long = self._means
        if cap is not None:
            m_short, m_medium, m_long = min(m_short, cap), min(m_medium, cap), min(m_long, cap)
        if p_short >= p_medium:
            top = LengthClass.SHORT if p_short >= p_long else LengthClass.LONG
        else:
            top = LengthClass.MEDIUM if p_medium >= p_long else LengthClass.LONG
        return Prediction(
            p_long=p_long,
            predicted_class=top,
            predicted_tokens=p_short * m_short + p_medium * m_medium + p_long * m_long,
            probabilities=probabilities,
            features=features,
            token_cap=cap,
        )

    def p_long(self, prompt: str, token_cap: int | None = None) -> float:
        """P(Long) of one prompt, after the cap: the paper's priority key, lower goes first."""
        cap = checked_cap(token_cap)
        probabilities = self._engine.probabilities(_checked_prompt(prompt, None))
        if cap is not None and cap < self._long_from:
            probabilities = apply_token_cap(probabilities, cap, self._short_below, self._long_from)
        return float(probabilities[2])

    def predicted_tokens(self, prompt: str, token_cap: int | None = None) -> float:
        """Return the expected response tokens of one prompt, after the cap."""
        return self.predict(prompt, token_cap).predicted_tokens

    def explain(self, prompt: str, top: int = 8) -> Explanation:
        """Which features and n-grams push P(Long) up or down (`predictor.explain.explain_prompt`)."""
        from clairvoyant_lab.predictor.explain import explain_prompt

        return explain_prompt(self._engine, _checked_prompt(prompt, None), top=top)

    def summary(self) -> dict[str, object]:
        """Return the model's description and held-out figures by name."""
        return {
            "name": self.info.name,
            "schema": self.info.schema,
            "form": self.form,
            "variant": self.info.variant,
            "trained_on": self.info.training_fingerprint or "unknown",
            **{name: value for name, value in self.info.metrics.items() if isinstance(value, int | float)},
        }

    def __repr__(self) -> str:
        return f"LengthPredictor({self.info.name!r}, schema={self.info.schema!r}, form={self.form!r})"

    def _repr_html_(self) -> str:
        return summary_html("Length predictor", self.summary())


def model_names() -> list[str]:
    """Names of the committed models that `LengthPredictor.load` takes."""
    return sorted(path.stem for path in models_dir().glob("*.onnx") if not path.stem.endswith("-intervals"))


def model_path(model: str | Path) -> Path:
    """Find a committed model by name, or check that a file is there.

    Raises
    ------
    ParameterError
        If there is none; the known names are listed.
    """
    if isinstance(model, str) and not model.endswith(".onnx") and "/" not in model and "\\" not in model:
        path = models_dir() / f"{model}.onnx"
        if not path.is_file():
            known = ", ".join(model_names()) or "none"
            raise ParameterError(
                "model",
                model,
                f"no committed model of that name; known: {known}; or give the path of an .onnx file",
            )
        return path
    path = Path(model)
    if not path.is_file():
        raise ParameterError(
            "model", str(path), "no such file; give the path of an .onnx file, or a model's name"
        )
    return path


def _checked_prompt(prompt: object, index: int | None) -> str:
    if not isinstance(prompt, str):
        field = "prompt" if index is None else f"prompts[{index}]"
        raise ParameterError(field, prompt, f"give text, not {type(prompt).__name__}")
    return prompt


def _with_means(info: ModelInfo, means: ArrayLike) -> ModelInfo:
    from dataclasses import replace

    values = np.asarray(means, dtype=np.float64)
    if values.shape != (3,) or not np.isfinite(values).all() or (values < 0).any():
        raise ParameterError("class_mean_tokens", means, "give three token counts: Short, Medium, Long")
    return replace(info, class_mean_tokens=(float(values[0]), float(values[1]), float(values[2])))
