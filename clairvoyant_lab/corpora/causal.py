"""Why curated sets starve: a causal test on three files with the same prompts under three instructions.

The files are the user's own. AlpacaEval publishes such a triple (GPT-4-1106 on 805 prompts), under a licence
that keeps even its figures out of this package: `PUBLIC_FILES` names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clairvoyant_lab.corpora.compare import require_files
from clairvoyant_lab.corpora.starvation import Starvation, starvation_report
from clairvoyant_lab.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HOW_TO_RUN", "INSTRUCTIONS", "PUBLIC_FILES", "causal_files_by_name", "causal_test"]

INSTRUCTIONS = {"concise": "told to be concise", "as_is": "as is", "verbose": "told to be verbose"}
"""Argument of `causal_test` -> what the model was told."""

PUBLIC_FILES = tuple(
    f"results/{name}/model_outputs.json"
    for name in ("gpt4_1106_preview_concise", "gpt4_1106_preview", "gpt4_1106_preview_verbose")
)
"""A public triple, in the order of `INSTRUCTIONS`: paths in AlpacaEval's repository (CC-BY-NC-4.0)."""

HOW_TO_RUN = "\n".join(
    (
        "not run here: it needs three files of answers to the same prompts, as this notebook's parameter",
        '  causal_files = ["concise.json", "as_is.json", "verbose.json"]',
        "A public triple is GPT-4-1106 on 805 prompts in AlpacaEval's repository. Its licence (CC-BY-NC-4.0)",
        "keeps it out of this package; save its three files under those names:",
        *(f"  {file}" for file in PUBLIC_FILES),
    )
)
"""What a report says where no files were given."""


def causal_files_by_name(causal_files: Sequence[str | Path]) -> dict[str, str | Path]:
    """Name the arguments of `causal_test`; nothing of nothing.

    Parameters
    ----------
    causal_files : sequence of path
        None, or the three files in the order of `INSTRUCTIONS`.

    Raises
    ------
    ParameterError
        For another number of files, or one that does not exist.
    """
    if len(causal_files) not in (0, len(INSTRUCTIONS)):
        raise ParameterError(
            "causal_files",
            [str(file) for file in causal_files],
            f"give three paths: {', '.join(INSTRUCTIONS.values())}",
        )
    require_files({f"causal_files[{index}]": file for index, file in enumerate(causal_files)})
    return dict(zip(INSTRUCTIONS, causal_files, strict=False))


def causal_test(
    concise: str | Path, as_is: str | Path, verbose: str | Path, *, tokenizer: str = "chars/4"
) -> dict[str, Starvation]:
    """Compare answers to the same prompts, given under three instructions.

    The prompts are the same, so the instruction alone makes the shares of the classes differ.

    Parameters
    ----------
    concise, as_is, verbose : str or Path
        Files that `load_corpus` reads, one an instruction.
    tokenizer : str
        Who counts the answers: `chars/4`, `llama-like`, `tekken`, or a file.

    Returns
    -------
    dict of str to Starvation
        Keyed by the instruction; no row is dropped for its language or as a copy.

    Raises
    ------
    ParameterError
        For a path that is no file.
    DataError
        When a file can't be used, or its prompts are not those of the first: then shares can differ for the
        prompts, and nothing causal is shown.
    """
    from clairvoyant_lab.corpora.load import load_corpus

    files: dict[str, str | Path] = {"concise": concise, "as_is": as_is, "verbose": verbose}
    require_files(files)
    corpora = {
        name: load_corpus(Path(file), tokenizer=tokenizer, language=None, deduplicate=False, progress=False)
        for name, file in files.items()
    }
    for name in ("as_is", "verbose"):
        _require_same_prompts(corpora["concise"], corpora[name], Path(files[name]).name)
    return {INSTRUCTIONS[name]: starvation_report(corpus) for name, corpus in corpora.items()}


def _require_same_prompts(first: pd.DataFrame, other: pd.DataFrame, source: str) -> None:
    if not all("prompt" in corpus and corpus["prompt"].str.len().any() for corpus in (first, other)):
        raise DataError("no texts; the test compares prompts", source=source, column="prompt")
    # order does not matter to a share
    asked, here = sorted(first["prompt"]), sorted(other["prompt"])
    if asked != here:
        common = len(set(asked) & set(here))
        raise DataError(
            f"{len(here):,} prompts, of which {common:,} are among the first file's {len(asked):,}; "
            "give three files that answer the same prompts",
            source=source,
        )
