"""Names that are imported from their module when first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a module-level `__getattr__` for a package.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    homes : mapping of str to str
        Public name -> the module below the package that defines it.

    Returns
    -------
    callable
        To be bound to `__getattr__` in the package; what it finds is kept there.
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
