"""From a prompt to what the queue needs to know: class probabilities and predicted tokens.

The predictor may fail; a request must not: it is then scheduled neutrally and counted.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.predictor.caps import apply_token_cap, expected_tokens
from clairvoyant_lab.serving.prompts_in import Ask, class_number

__all__ = ["EMBEDDING", "Forecast", "Forecaster", "Predicting"]

log = logging.getLogger("clairvoyant_lab.proxy")


class Predicting(Protocol):
    """What the proxy needs of a predictor; `LengthPredictor` has it."""

    info: Any

    def predict(self, prompt: str, token_cap: int | None = None) -> Any:
        """A `Prediction`: probabilities and predicted_tokens after the cap, features."""


class Forecast(NamedTuple):
    """What is expected of one request.

    Attributes
    ----------
    probabilities : tuple of float
        P(Short), P(Medium), P(Long) after the token cap.
    predicted_tokens : float
        Σ p_k · min(m_k, cap), times the number of answers asked for.
    origin : str
        `model`, `stated` (the client's header), `embedding`, or `neutral` (unreadable body, failed model).
    features : ndarray of float32, shape (19,), or None
        The features the model saw.
    """

    probabilities: tuple[float, float, float]
    predicted_tokens: float
    origin: str
    features: NDArray[np.float32] | None = None

    @property
    def p_long(self) -> float:
        """P(Long)."""
        return self.probabilities[2]

    @property
    def length_class(self) -> LengthClass:
        """The likeliest class; ties go to the shorter one."""
        return LengthClass(max(range(3), key=lambda k: (self.probabilities[k], -k)))


EMBEDDING = Forecast((1.0, 0.0, 0.0), 0.0, "embedding")


class Forecaster:
    """Asks the model and falls back to a neutral forecast.

    Parameters
    ----------
    predictor : Predicting
        The model in use; `swap` exchanges it between two requests.
    """

    def __init__(self, predictor: Predicting) -> None:
        self.failures = 0
        self.predictor = predictor
        self._previous: list[Predicting] = []

    @property
    def can_roll_back(self) -> bool:
        """Whether an earlier model is kept."""
        return bool(self._previous)

    def warm(self) -> None:
        """Ask the model once, so that compiled parts are loaded; a failure shows with the first request."""
        with suppress(Exception):
            self.predictor.predict("What is a queue?", None)

    def works(self) -> bool:
        """Ask the model once, as a request would; tell whether it could answer."""
        self.forecast(Ask("generation", "openai", "What is a queue?"))
        return self.failures == 0

    def swap(self, predictor: Predicting) -> None:
        """Use another model from the next request on; the one in use is kept for `roll_back`."""
        self._previous.append(self.predictor)
        self.predictor = predictor

    def roll_back(self) -> None:
        """Return to the model before the last swap."""
        self.predictor = self._previous.pop()

    def forecast(self, ask: Ask, stated: str | None = None) -> Forecast:
        """Forecast one request; never raises."""
        if ask.kind == "embedding":
            return EMBEDDING
        number = class_number(stated)
        if number is not None:
            return self._fixed(np.eye(3, dtype=np.float32)[number], ask, "stated")
        if ask.kind != "generation":
            return self._fixed(np.full(3, 1 / 3, dtype=np.float32), ask, "neutral")
        try:
            prediction = self.predictor.predict(ask.prompt, ask.token_cap)
            short, medium, long = prediction.probabilities.tolist()
            tokens = float(prediction.predicted_tokens)
            if not (0.0 <= short <= 1.0 and 0.0 <= medium <= 1.0 and 0.0 <= long <= 1.0 and tokens >= 0.0):
                raise ValueError("probabilities outside 0 to 1")
            return Forecast((short, medium, long), tokens * ask.answers, "model", prediction.features)
        except Exception as error:  # whatever a model does, the request goes on
            self.failures += 1
            if self.failures in (1, 10, 100) or self.failures % 1000 == 0:
                # the kind only: a message could quote the prompt
                kind = type(error).__name__
                log.warning("predictor failed (%s), %d so far; scheduled neutrally", kind, self.failures)
            return self._fixed(np.full(3, 1 / 3, dtype=np.float32), ask, "neutral")

    def _fixed(self, proba: NDArray[np.float32], ask: Ask, origin: str) -> Forecast:
        """A forecast that no model made; the cap holds all the same."""
        info = self.predictor.info
        capped = apply_token_cap(proba, ask.token_cap, *info.class_bounds)
        short, medium, long = capped.tolist()
        tokens = float(expected_tokens(capped, info.class_mean_tokens, ask.token_cap))
        return Forecast((short, medium, long), tokens * ask.answers, origin)
