"""Small public corpora whose figures (never texts) are committed: a causal test, a starved set, real traffic.

GPT-4-1106 answered the same 805 prompts three ways (told to be concise, as is, told to be verbose): the
answer's style decides the Long share, not the prompts. CodeAlpaca's 2k sample is a curated set; the Azure
traces are production traffic with counts only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.corpora.conversations import ReadReport, pairs_of
from clairvoyant_lab.corpora.labels import Labeller
from clairvoyant_lab.corpora.language import language_filter
from clairvoyant_lab.corpora.readers import read_records
from clairvoyant_lab.corpora.shapes import conversations_of
from clairvoyant_lab.errors import DataError, unknown_name
from clairvoyant_lab.paths import data_dir
from clairvoyant_lab.prompts.tokens import token_counter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CAUSAL_TEST", "REFERENCES", "Reference", "build_reference", "read_reference", "reference_path"]

_METADATA = b"clairvoyant_lab"


@dataclass(frozen=True)
class Reference:
    """One small corpus: its upstream file, what it is, and where it comes from."""

    file: str
    title: str
    origin: str


REFERENCES: dict[str, Reference] = {
    "gpt4_concise": Reference(
        "alpaca_eval_gpt4_1106_preview_concise.json",
        "GPT-4-1106, told to be concise",
        "tatsu-lab/alpaca_eval results/gpt4_1106_preview_concise (CC-BY-NC-4.0)",
    ),
    "gpt4": Reference(
        "alpaca_eval_gpt4_1106_preview.json",
        "GPT-4-1106, as is",
        "tatsu-lab/alpaca_eval results/gpt4_1106_preview (CC-BY-NC-4.0)",
    ),
    "gpt4_verbose": Reference(
        "alpaca_eval_gpt4_1106_preview_verbose.json",
        "GPT-4-1106, told to be verbose",
        "tatsu-lab/alpaca_eval results/gpt4_1106_preview_verbose (CC-BY-NC-4.0)",
    ),
    "codealpaca_2k": Reference(
        "code_alpaca_2k.json",
        "CodeAlpaca, sample of 2,017",
        "sahil280114/codealpaca data/code_alpaca_2k.json (CC-BY-NC-4.0)",
    ),
    "azure_conv": Reference(
        "azure_llm_2023_conv.csv",
        "Azure conversation trace 2023",
        "Azure/AzurePublicDataset AzureLLMInferenceTrace_conv.csv (CC-BY)",
    ),
    "azure_code": Reference(
        "azure_llm_2023_code.csv",
        "Azure code trace 2023",
        "Azure/AzurePublicDataset AzureLLMInferenceTrace_code.csv (CC-BY)",
    ),
}
CAUSAL_TEST = ("gpt4_concise", "gpt4", "gpt4_verbose")


def reference_path() -> Path:
    """Where the committed figures lie."""
    return data_dir() / "reference.parquet"


def build_reference(folder: str | Path, destination: str | Path | None = None) -> Path:
    """Make the table again from a folder that holds the upstream files.

    Raises
    ------
    DataError
        When a file is missing; the message says which and where it comes from.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(destination) if destination is not None else reference_path()
    counters = [token_counter(name) for name in ("llama-like", "tekken")]
    detector = language_filter("py3langid")
    tables: list[pa.Table] = []
    made: dict[str, dict[str, object]] = {}
    for name, reference in REFERENCES.items():
        path = Path(folder) / reference.file
        if not path.is_file():
            raise DataError(f"missing; it is {reference.origin}", source=reference.file)
        report = ReadReport()
        pairs = pairs_of(conversations_of(read_records(path), name), "first", report)
        table = pa.Table.from_batches(list(Labeller(counters, detector).batches(pairs))).unify_dictionaries()
        made[name] = {"origin": reference.origin, **report.as_dict()}
        tables.append(table.append_column("corpus", pa.array([name] * len(table)).dictionary_encode()))
    table = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
    table = table.replace_schema_metadata({_METADATA: json.dumps(made, sort_keys=True).encode()})
    pq.write_table(table, target, compression="zstd", compression_level=19, row_group_size=1 << 20)
    return target


def read_reference(name: str) -> tuple[pd.DataFrame, str, dict[str, Any]]:
    """Read one corpus' labelled rows, where they come from, and the rows read, kept and dropped.

    Raises
    ------
    ParameterError
        For an unknown name.
    DataError
        When the committed table is missing.
    """
    import pyarrow.parquet as pq

    if name not in REFERENCES:
        raise unknown_name("name", name, REFERENCES)
    path = reference_path()
    if not path.is_file():
        raise DataError("not there; make it with `clairvoyant-lab corpora build reference`", source=path.name)
    table = pq.read_table(path, filters=[("corpus", "=", name)])
    raw = (pq.read_schema(path).metadata or {}).get(_METADATA)
    if raw is None or not len(table):
        raise DataError(f"holds nothing of {name}; make it again", source=path.name)
    counts = json.loads(raw)[name]
    return table.to_pandas().reset_index(drop=True), str(counts["origin"]), counts
