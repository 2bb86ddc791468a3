"""Prompts: the feature schema, the lexicon, extraction, token counters."""

from __future__ import annotations

from clairvoyant_lab.lazy import lazy_names
from clairvoyant_lab.prompts.schema import FEATURE_NAMES, SCHEMA_HASH, SCHEMA_NAME, SCHEMA_VERSION, VERBS

__all__ = [
    "FEATURE_NAMES",
    "SCHEMA_HASH",
    "SCHEMA_NAME",
    "SCHEMA_VERSION",
    "TOKENIZERS",
    "VERBS",
    "extract_features",
    "extract_features_batch",
    "lexicon_identity",
    "token_counter",
]

__getattr__ = lazy_names(
    __name__,
    {
        "TOKENIZERS": "tokens",
        "extract_features": "extract",
        "extract_features_batch": "extract",
        "lexicon_identity": "lexicon",
        "token_counter": "tokens",
    },
)
