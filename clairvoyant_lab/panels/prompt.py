"""The prompt panel: type, and see features, class probabilities and the place in the queue."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.panels.controls import Text
from clairvoyant_lab.panels.panel import Panel, View

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.runtime import LengthPredictor

__all__ = ["prompt_panel"]


def prompt_panel(prompt: str, model: str = "sharegpt") -> Panel:
    """Make the panel.

    Parameters
    ----------
    prompt : str
        What stands in the box at first.
    model : str
        A `lexical-19` model: it is ranked among the held-out ShareGPT prompts, whose features are here.

    Returns
    -------
    Panel
    """

    def draw(prompt: str) -> View:
        return _draw(prompt, model)

    def code(prompt: str) -> str:
        return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.bench.day import held_out_rows
from clairvoyant_lab.figures.prompt import prompt_rank
from clairvoyant_lab.figures.show import show

predictor = cl.LengthPredictor.load({model!r})
others = predictor.predict_proba(held_out_rows()[list(cl.FEATURE_NAMES)].to_numpy("float32"))[:, 2]
figure = prompt_rank(predictor.predict({prompt!r}), others)
show(figure)
"""

    return Panel("One prompt", [Text("prompt", "prompt", prompt)], draw, code)


@functools.lru_cache(maxsize=4)
def _known(model: str) -> tuple[LengthPredictor, NDArray[np.float32]]:
    from clairvoyant_lab.bench.day import held_out_rows
    from clairvoyant_lab.predictor import LengthPredictor
    from clairvoyant_lab.prompts import FEATURE_NAMES

    predictor = LengthPredictor.load(model)
    features = held_out_rows()[list(FEATURE_NAMES)].to_numpy(np.float32)
    return predictor, np.sort(predictor.predict_proba(features)[:, 2])


def _draw(prompt: str, model: str) -> View:
    from clairvoyant_lab.figures.prompt import prompt_rank
    from clairvoyant_lab.prompts import FEATURE_NAMES

    predictor, others = _known(model)
    prediction = predictor.predict(prompt)
    ahead = float(np.searchsorted(others, prediction.p_long, side="right")) / others.size
    features = dict(zip(FEATURE_NAMES, prediction.features.tolist(), strict=True))
    numbers: list[tuple[object, ...]] = [("feature", "value")]
    verb = next(name for name, value in features.items() if name.startswith("verb_") and value)
    for name, value in features.items():
        if name.startswith("verb_"):
            continue
        numbers.append((name, ("yes" if value else "no") if name.startswith(("has", "ends")) else int(value)))
    numbers += [("verb", verb.removeprefix("verb_")), ("P(Long)", f"{prediction.p_long:.4f}")]
    numbers.append(("expected tokens", f"{prediction.predicted_tokens:.0f}"))
    likely = prediction.predicted_class.label
    sentence = (
        f"Most likely {likely} (P = {float(prediction.probabilities.max()):.2f}). "
        f"With P(Long) = {prediction.p_long:.3f} it would wait behind {ahead:.0%} of the held-out ShareGPT "
        f"prompts, were they all in the queue, and go before the rest."
    )
    return View(prompt_rank(prediction, others), sentence, numbers)
