"""The 19 features: names, order, version and hash (Clairvoyant, section 3.2).

This is the one definition; its version and hash go into every exported model and journal.
"""

from __future__ import annotations

import hashlib

__all__ = ["FEATURE_NAMES", "NUMERIC_NAMES", "SCHEMA_HASH", "SCHEMA_NAME", "SCHEMA_VERSION", "VERBS"]

SCHEMA_NAME = "lexical-19"
SCHEMA_VERSION = 1

NUMERIC_NAMES = (
    "prompt_token_len",
    "has_code_keyword",
    "has_length_constraint",
    "ends_with_question",
    "has_format_keyword",
    "clause_count",
)
VERBS = (
    "what",
    "write",
    "explain",
    "summarize",
    "how",
    "list",
    "implement",
    "compare",
    "describe",
    "generate",
    "why",
    "define",
    "other",
)
FEATURE_NAMES: tuple[str, ...] = NUMERIC_NAMES + tuple(f"verb_{verb}" for verb in VERBS)

SCHEMA_HASH = hashlib.sha256(
    f"{SCHEMA_NAME}/{SCHEMA_VERSION}:{','.join(FEATURE_NAMES)}".encode()
).hexdigest()[:16]
