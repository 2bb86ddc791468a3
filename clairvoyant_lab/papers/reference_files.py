"""Where the files of others lie that some re-runs need and whose licences keep them out of the package.

One folder, named by the parameter `reference_dir` of whatever needs it, else by the environment variable
`CLAIRVOYANT_REFERENCE_DIR`. Without it those numbers are "not run here"; no other place is searched.
"""

from __future__ import annotations

import os
from pathlib import Path

from clairvoyant_lab.errors import ParameterError

__all__ = ["HOW_TO_RUN", "REFERENCE_FILES", "REFERENCE_VARIABLE", "reference_file", "reference_folder"]

REFERENCE_VARIABLE = "CLAIRVOYANT_REFERENCE_DIR"

REFERENCE_FILES = {
    "clairvoyant_oasst1_labeled.csv": "data/oasst1_labeled.csv of the Clairvoyant authors' repository",
    "clairvoyant_dolly_labeled.csv": "data/dolly_labeled.csv of the Clairvoyant authors' repository",
    "authors_predictor.onnx": "model/predictor.onnx of the Clairvoyant authors' repository",
    "alpaca_eval_gpt4_1106_preview_concise.json": (
        "results/gpt4_1106_preview_concise/model_outputs.json of AlpacaEval's repository"
    ),
    "alpaca_eval_gpt4_1106_preview.json": (
        "results/gpt4_1106_preview/model_outputs.json of AlpacaEval's repository"
    ),
    "alpaca_eval_gpt4_1106_preview_verbose.json": (
        "results/gpt4_1106_preview_verbose/model_outputs.json of AlpacaEval's repository"
    ),
}
"""Name in the folder -> where its publishers keep it. Any of them may be missing."""

HOW_TO_RUN = "clairvoyant-lab ledger --reference-dir DIR, with the authors' labelled files in DIR"
"""What the ledger says of a number that needs the files."""


def reference_folder(reference_dir: str | Path | None = None) -> Path | None:
    """Return the folder of the files, or None where none is named.

    Parameters
    ----------
    reference_dir : str or Path, optional
        The folder; by default what `CLAIRVOYANT_REFERENCE_DIR` names.

    Raises
    ------
    ParameterError
        If the named folder is not there.
    """
    field, named = "reference_dir", reference_dir
    if named is None:
        field, named = REFERENCE_VARIABLE, os.environ.get(REFERENCE_VARIABLE)
    if named is None:
        return None
    if not str(named) or not Path(named).is_dir():
        raise ParameterError(
            field, str(named), f"name a folder with some of: {', '.join(REFERENCE_FILES)}; or leave it out"
        )
    return Path(named)


def reference_file(name: str, reference_dir: str | Path | None = None) -> Path | None:
    """Return the path of one of `REFERENCE_FILES`, or None where it is not at hand."""
    folder = reference_folder(reference_dir)
    if folder is None:
        return None
    path = folder / name
    return path if path.is_file() else None
