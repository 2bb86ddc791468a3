"""Colours stay apart with and without colour vision, and the template is what every figure gets."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass

# Machado, Oliveira, Fernandes (2009), deuteranopia at severity 1.0, on linear RGB
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
SRGB_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = SRGB_TO_XYZ @ rgb / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), xyz * 24389 / 27 / 116 + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def smallest_distance(colours: list[str]) -> float:
    pairs = []
    for see in (np.eye(3), DEUTERANOPIA):
        seen = [lab(np.clip(see @ linear(colour), 0, 1)) for colour in colours]
        pairs += [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)]
    return min(pairs)


def test_the_distance_is_the_known_one() -> None:
    assert lab(linear("#ffffff")) == pytest.approx([100, 0, 0], abs=0.02)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    # a classic trap: red and green of one lightness fall together under deuteranopia
    assert smallest_distance(["#b0503c", "#78702a"]) < 15


def test_classes_keep_their_distance() -> None:
    assert smallest_distance(list(theme.CLASS_COLOURS.values())) >= theme.MIN_CLASS_DISTANCE


@pytest.mark.parametrize("world", [theme.SERIAL_POLICIES, theme.BATCH_POLICIES], ids=["serial", "batch"])
def test_policies_keep_their_distance(world: tuple[str, ...]) -> None:
    assert smallest_distance([theme.POLICY_COLOURS[name] for name in world]) >= theme.MIN_POLICY_DISTANCE


def test_every_colour_stands_out_from_white() -> None:
    for name, colour in {**theme.CLASS_COLOURS, **theme.POLICY_COLOURS}.items():
        luminance = float((SRGB_TO_XYZ @ linear(colour))[1])
        assert 1.05 / (luminance + 0.05) >= 2.1, name


def test_every_policy_has_colour_label_and_dash() -> None:
    for name in theme.SERIAL_POLICIES + theme.BATCH_POLICIES:
        assert name in theme.POLICY_COLOURS
        assert name in theme.POLICY_LABELS
        assert theme.policy_line(name)["dash"]


def test_classes_by_any_of_their_names() -> None:
    assert theme.class_colour(LengthClass.LONG) == theme.class_colour(2) == theme.class_colour("long")
    with pytest.raises(ParameterError, match="length_class = 3"):
        theme.class_colour(3)
    with pytest.raises(ParameterError, match="Short, Medium, Long"):
        theme.class_colour("huge")


def test_a_policy_of_ones_own_keeps_its_colour_between_processes() -> None:
    here = (theme.policy_colour("my_policy"), theme.policy_dash("my_policy"))
    code = (
        "from clairvoyant_lab.figures import theme;"
        "import sys; assert 'plotly' not in sys.modules;"
        "print(theme.policy_colour('my_policy'), theme.policy_dash('my_policy'))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert tuple(there.split()) == here


def test_new_figure_wears_the_template() -> None:
    figure = theme.new_figure(title="t", x_title="time (s)", y_title="wait (s)", height=300)
    assert figure.layout.template.layout.plot_bgcolor == "white"
    assert figure.layout.xaxis.title.text == "time (s)"
    assert figure.layout.height == 300
    assert theme.template_name() == theme.template_name() == "clairvoyant"
