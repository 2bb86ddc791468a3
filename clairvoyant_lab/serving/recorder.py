"""Between proxy and journal: rows, features, and what happens when the journal fails."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np

from clairvoyant_lab.journal import JournalRow, JournalSchema, JournalWriter
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS
from clairvoyant_lab.prompts.schema import FEATURE_NAMES, SCHEMA_HASH, SCHEMA_NAME
from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.events import EventBus
from clairvoyant_lab.serving.forecast import Forecast
from clairvoyant_lab.serving.history import Finished
from clairvoyant_lab.serving.prompts_in import Ask

__all__ = ["Recorder", "journal_schema"]

log = logging.getLogger("clairvoyant_lab.proxy")


Kept = tuple[bytes, bytes | None, bytes | None]
"""Features, n-gram ids, surface counts, as the journal stores them."""


def journal_schema(*, ngrams: bool = False) -> JournalSchema:
    """The schema that this version writes; with `ngrams` also that of the n-grams and surface counts."""
    words: dict[str, Any] = {}
    if ngrams:
        from clairvoyant_lab.predictor.ngrams import RICH_HASH, SHAPE_NAMES

        words = {"words_hash": RICH_HASH, "surface_names": SHAPE_NAMES}
    return JournalSchema(
        SCHEMA_NAME, SCHEMA_HASH, FEATURE_NAMES, SHORT_BELOW_TOKENS, LONG_FROM_TOKENS, **words
    )


class Recorder:
    """Keeps finished requests in the journal, if there is one.

    Parameters
    ----------
    settings : ProxySettings
        `journal` and `journal_ngrams`.
    events : EventBus
        Told when the journal stops.
    """

    def __init__(self, settings: ProxySettings, events: EventBus) -> None:
        self._path = settings.journal
        self._ngrams = settings.journal_ngrams
        self._events = events
        self._writer: JournalWriter | None = None
        self.model_name = settings.model

    def open(self) -> None:
        """Open the journal, if one is wanted."""
        if self._path is None:
            return
        loop = asyncio.get_running_loop()

        def failed(reason: str) -> None:  # called from the writer's thread
            loop.call_soon_threadsafe(self._events.publish, "journal", {"state": "stopped", "reason": reason})

        schema = journal_schema(ngrams=self._ngrams)
        self._writer = JournalWriter(self._path, schema, on_failure=failed)
        if self._ngrams:
            _words_of("")  # compiled parts are loaded now, not with the first request

    def close(self) -> None:
        """Write what is pending; blocks for the disk."""
        if self._writer is not None:
            self._writer.close()

    def state(self) -> dict[str, Any]:
        """`state`: off, writing or stopped; rows written, pending and lost."""
        writer = self._writer
        if writer is None:
            return {"state": "off", "written": 0, "pending": 0, "lost": 0, "reason": None}
        return {
            "state": "writing" if writer.failure is None else "stopped",
            "written": writer.written,
            "pending": writer.pending,
            "lost": writer.lost,
            "reason": writer.failure,
        }

    def features(self, ask: Ask, forecast: Forecast, variant: str) -> Kept | None:
        """What is kept of a prompt: its feature vector, and on request n-gram ids and surface counts.

        None without a journal or a prompt, and where several answers were asked for: the tokens of all of
        them would teach that one answer is long. The journal's schema is the paper's; a model that looks at
        another variant saw other features.
        """
        if self._writer is None or ask.kind != "generation" or ask.answers != 1:
            return None
        try:
            vector = forecast.features if variant == "paper" else None
            if vector is None:
                from clairvoyant_lab.prompts import extract_features

                vector = extract_features(ask.prompt)
            return vector.astype("<f4").tobytes(), *(_words_of(ask.prompt) if self._ngrams else (None, None))
        except Exception as error:  # features are for later; the request is for now
            log.warning("features could not be taken (%s)", type(error).__name__)
            return None

    def keep(self, record: Finished, features: Kept | None, model: str) -> None:
        """Hand a finished request to the journal; `model` is the one that was in use when it came."""
        if self._writer is None:
            return
        short, medium, long = record.probabilities
        self._writer.put(
            JournalRow(
                request_id=record.request_id,
                arrival_unix_s=record.arrival_unix_s,
                path=record.path,
                outcome=record.outcome,
                status=record.status,
                origin=record.origin,
                stated=record.stated,
                p_short=short,
                p_medium=medium,
                p_long=long,
                predicted_tokens=record.predicted_tokens,
                expected_service_s=record.expected_service_s,
                token_cap=record.token_cap,
                prompt_tokens=record.prompt_tokens,
                response_tokens=record.response_tokens,
                wait_s=record.wait_s,
                first_token_s=record.first_token_s,
                service_s=record.service_s,
                promoted=int(record.promoted),
                position=record.position,
                policy=record.policy,
                model=model or self.model_name,
                stream=int(record.stream),
                features=None if features is None else features[0],
                ngrams=None if features is None else features[1],
                surface=None if features is None else features[2],
            )
        )


def _words_of(prompt: str) -> tuple[bytes, bytes]:
    """N-gram ids and surface counts of a prompt.

    The ids are sorted: in their order of appearance they would tell the order of the words, which no model
    asks for. Two of the counts are numbers that stand in the prompt. They are kept to two digits (482,913 as
    480,000): enough for trees to tell 50 words from 2,000, too little for a code or a sum of money.
    """
    from clairvoyant_lab.predictor.ngrams import SHAPE_NAMES, scan_prompt

    surface = np.empty(len(SHAPE_NAMES), np.float32)
    ids = scan_prompt(prompt, surface, 0)
    for name in ("largest_number", "last_number"):
        place = SHAPE_NAMES.index(name)
        surface[place] = float(f"{surface[place]:.1e}")
    return np.sort(ids).astype("<i4").tobytes(), surface.astype("<f4").tobytes()
