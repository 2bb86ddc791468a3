"""Where data, models and notebooks lie: a checkout's folders first, else what the wheel carries."""

from __future__ import annotations

import os
from pathlib import Path

from clairvoyant_lab.errors import ParameterError

__all__ = ["cache_dir", "checkout_root", "data_dir", "models_dir", "notebooks_dir"]

_PACKAGE = Path(__file__).resolve().parent


def checkout_root() -> Path | None:
    """Return the root of the checkout this package is imported from, or None for an installed wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "notebooks").is_dir() else None


def data_dir() -> Path:
    """Return the folder with the derived corpora (parquet)."""
    return _carried("data")


def models_dir() -> Path:
    """Return the folder with the committed models (ONNX and cards)."""
    return _carried("models")


def notebooks_dir() -> Path:
    """Return the folder with the notebooks as they are shipped (without outputs)."""
    return _carried("notebooks")


def cache_dir() -> Path:
    """Return a writable folder for things that can be made again; it is created.

    `CLAIRVOYANT_CACHE_DIR` sets it; the default is `clairvoyant-lab` under `XDG_CACHE_HOME` or `~/.cache`.
    """
    own = os.environ.get("CLAIRVOYANT_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME")
    path = Path(own) if own else (Path(base) if base else Path.home() / ".cache") / "clairvoyant-lab"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            "CLAIRVOYANT_CACHE_DIR",
            str(path),
            f"cannot be created ({error.strerror}); name a writable folder",
        ) from error
    return path


def _carried(name: str) -> Path:
    root = checkout_root()
    return (root / name) if root is not None else (_PACKAGE / "_carried" / name)
