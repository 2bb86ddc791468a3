"""Importing the package is cheap, and its public face is whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = [
    "pandas",
    "numba",
    "onnxruntime",
    "xgboost",
    "plotly",
    "jupyter",
    "scipy",
    "sklearn",
    "aiohttp",
    "httpx",
]


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_import_loads_numpy_at_most() -> None:
    loaded = _run(
        "import sys, clairvoyant_lab;"
        f"print([m for m in {HEAVY!r} if any(k == m or k.startswith(m + '.') or k.startswith(m + '_')"
        " for k in sys.modules)])"
    )
    assert loaded == "[]"


def test_every_public_name_exists() -> None:
    import clairvoyant_lab as cl

    missing = [name for name in cl.__all__ if not hasattr(cl, name)]
    assert missing == []
    assert set(cl.__all__) <= set(dir(cl))


def test_unknown_name_is_an_attribute_error() -> None:
    import clairvoyant_lab as cl

    with pytest.raises(AttributeError, match="no_such_name"):
        cl.no_such_name  # noqa: B018
