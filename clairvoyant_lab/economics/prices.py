"""Price lists as providers publish them ($ per million tokens), made into the one token price p_0."""

from __future__ import annotations

import csv
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelPrice", "PriceList"]

MILLION = 1_000_000
_COLUMNS = ("model", "input_per_million", "output_per_million", "cached_input_per_million")


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What one model's tokens cost, per million, in the list's currency.

    Parameters
    ----------
    model : str
    input_per_million, output_per_million : float
    cached_input_per_million : float, optional
        Price of input tokens served from a cache; None: as other input.
    """

    model: str
    input_per_million: float
    output_per_million: float
    cached_input_per_million: float | None = None

    def __post_init__(self) -> None:
        for name in _COLUMNS[1:]:
            value = getattr(self, name)
            if value is None and name == "cached_input_per_million":
                continue
            if not (value >= 0 and math.isfinite(value)):
                raise ParameterError(name, value, f"{self.model}: give a finite price >= 0")

    def token_price(self, input_tokens: float, output_tokens: float, cached_tokens: float = 0.0) -> float:
        """Effective price of one token of a request that has both kinds: p_0 of eq. (2).

        Parameters
        ----------
        input_tokens, output_tokens : float
            Totals or means of a workload; only their proportion matters.
        cached_tokens : float
            How many of the input tokens come from a cache.
        """
        for name, value in (
            ("input_tokens", input_tokens),
            ("output_tokens", output_tokens),
            ("cached_tokens", cached_tokens),
        ):
            if not (value >= 0 and math.isfinite(value)):
                raise ParameterError(name, value, "give a finite number of tokens >= 0")
        if cached_tokens > input_tokens:
            raise ParameterError(
                "cached_tokens", cached_tokens, f"give at most input_tokens = {input_tokens}"
            )
        total = input_tokens + output_tokens
        if total == 0:
            raise ParameterError("input_tokens, output_tokens", (0, 0), "give at least one token")
        cached_price = (
            self.input_per_million if self.cached_input_per_million is None else self.cached_input_per_million
        )
        paid = (
            (input_tokens - cached_tokens) * self.input_per_million
            + cached_tokens * cached_price
            + output_tokens * self.output_per_million
        )
        return paid / total / MILLION


class PriceList(Mapping[str, ModelPrice]):
    """Models and their prices; read your provider's list from a file, none is shipped.

    Parameters
    ----------
    prices : iterable of ModelPrice
    """

    def __init__(self, prices: Iterable[ModelPrice]) -> None:
        self._prices = {price.model: price for price in prices}

    @classmethod
    def read(cls, path: str | Path) -> PriceList:
        """Read a CSV, JSON or TOML file.

        CSV has a header with `model, input_per_million, output_per_million` and optionally
        `cached_input_per_million`; JSON and TOML have a list `models` of such records.

        Raises
        ------
        DataError
            For a file that can't be read so; names the row and column.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"can't be read ({error})", source=str(path)) from error
        try:
            if file.suffix == ".json":
                data = json.loads(text)
                records = data["models"] if isinstance(data, dict) else data
            elif file.suffix == ".toml":
                records = tomllib.loads(text)["models"]
            elif file.suffix == ".csv":
                records = list(csv.DictReader(text.splitlines()))
            else:
                raise DataError("not a price list; give a .csv, .json or .toml file", source=str(path))
        except (json.JSONDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise DataError(f"no list of models in it ({error!r})", source=str(path)) from error
        if not records:
            raise DataError("no models in it", source=str(path))
        return cls(_record(record, str(path), row) for row, record in enumerate(records))

    def __getitem__(self, model: str) -> ModelPrice:
        if model not in self._prices:
            raise unknown_name("model", model, self._prices)
        return self._prices[model]

    def __iter__(self) -> Iterator[str]:
        return iter(self._prices)

    def __len__(self) -> int:
        return len(self._prices)

    def __contains__(self, model: object) -> bool:
        return model in self._prices

    def to_frame(self) -> pd.DataFrame:
        """One row a model, prices per million tokens."""
        import pandas as pd

        rows = [[getattr(price, name) for name in _COLUMNS] for price in self._prices.values()]
        return pd.DataFrame(rows, columns=list(_COLUMNS))


def _record(record: object, source: str, row: int) -> ModelPrice:
    if not isinstance(record, Mapping):
        raise DataError("not a record with a model and its prices", source=source, row=row)
    model = str(record.get("model") or "").strip()
    if not model:
        raise DataError("no model name", source=source, row=row, column="model")
    numbers: list[float | None] = []
    for name in _COLUMNS[1:]:
        given = record.get(name)
        if given in (None, "") and name == "cached_input_per_million":
            numbers.append(None)
            continue
        try:
            value = float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = math.nan
        if not (value >= 0 and math.isfinite(value)):
            raise DataError(
                f"{given!r} is no price >= 0 per million tokens", source=source, row=row, column=name
            )
        numbers.append(value)
    first, second, cached = numbers
    assert first is not None
    assert second is not None
    return ModelPrice(model, first, second, cached)
