"""Token counters: how long a text is, in the tokens of a named tokenizer.

The tokenizer that labels is part of a corpus's identity: the same answers have 3 % Long with one and
nearly none with another.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import ijson
import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, MissingExtraError, ParameterError

__all__ = ["TOKENIZERS", "TokenCounter", "token_counter"]

# name -> what it is
TOKENIZERS = {
    "chars/4": "characters divided by four, rounded down: the paper's approximation (section 3.2)",
    "llama-like": "SentencePiece with 32,000 pieces, as mistral-common ships it; 98 % of the classes that "
    "the Llama-2 tokenizer gives",
    "tekken": "byte-pair encoding with 131,072 tokens, as mistral-common ships it; near the GPT-4 and "
    "Llama-3 tokenizers",
    "reported": "the count that the backend or the file itself reports",
}


@dataclass(frozen=True)
class TokenCounter:
    """Counts tokens.

    Attributes
    ----------
    name : str
        Short name; part of a corpus's identity.
    identity : str
        Name with the exact version or the file's hash.
    lengths : callable
        Token counts of a sequence of texts, without any begin or end marks.
    """

    name: str
    identity: str
    lengths: Callable[[Sequence[str]], Sequence[int]]

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text, int64 of shape (n,)."""
        return np.asarray(self.lengths(texts), dtype=np.int64)

    def __repr__(self) -> str:
        return f"TokenCounter({self.identity})"


def token_counter(name: str | Path) -> TokenCounter:
    """Get a counter by name or by the path of a tokenizer file.

    Parameters
    ----------
    name : str or Path
        `chars/4`, `llama-like`, `tekken`, or the path of a `tokenizer.json` (read with the package
        tokenizers) or of a SentencePiece `.model`. `reported` is no counter: such counts come with the
        rows.

    Raises
    ------
    ParameterError
        For an unknown name.
    DataError
        When the file is no tokenizer.
    MissingExtraError
        When the package that reads it is not installed.
    """
    text = str(name)
    if text == "chars/4":
        return TokenCounter("chars/4", "chars/4", lambda texts: [len(one) // 4 for one in texts])
    if text == "llama-like":
        return _llama_like()
    if text == "tekken":
        return _tekken()
    path = Path(text)
    if text != "reported" and path.suffix in (".json", ".model") and path.is_file():
        return _from_json(path) if path.suffix == ".json" else _from_sentencepiece(path)
    known = [known for known in TOKENIZERS if known != "reported"]
    raise ParameterError(
        "tokenizer", text, f"give one of {', '.join(known)}, or the path of a tokenizer.json or .model file"
    )


@lru_cache(maxsize=1)
def _llama_like() -> TokenCounter:
    path = _bundled("tokenizer.model.v1")
    return _sentencepiece(path, "llama-like", f"llama-like/mistral-common {_version('mistral-common')}")


@lru_cache(maxsize=1)
def _tekken() -> TokenCounter:
    """Build the encoder from the bundled file, streamed: the package's own loader takes 150 MB more."""
    path = _bundled("tekken_240911.json")
    tiktoken = _need("tiktoken", "mistral-common", "the tekken tokenizer")
    with path.open("rb") as file:
        config = next(ijson.items(file, "config"))
    size = int(config["default_vocab_size"]) - int(config["default_num_special_tokens"])
    with path.open("rb") as file:
        ranks = {
            base64.b64decode(entry["token_bytes"]): int(entry["rank"])
            for entry in islice(ijson.items(file, "vocab.item"), size)
        }
    encoding = tiktoken.Encoding(
        "tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}
    )
    return TokenCounter(
        "tekken",
        f"tekken/mistral-common {_version('mistral-common')}",
        lambda texts: [len(encoding.encode_ordinary(one)) for one in texts],
    )


def _bundled(file_name: str) -> Path:
    package = _need(
        "mistral_common", "mistral-common", "the bundled tokenizers (tokenizer='chars/4' does without)"
    )
    path = Path(str(package.__file__)).parent / "data" / file_name
    if not path.is_file():
        raise DataError(
            f"mistral-common {_version('mistral-common')} does not carry it; install another release",
            source=file_name,
        )
    return path


def _from_sentencepiece(path: Path) -> TokenCounter:
    return _sentencepiece(path, path.name, f"{path.name}/sha256 {_digest(path)}")


def _sentencepiece(path: Path, name: str, identity: str) -> TokenCounter:
    module = _need("sentencepiece", "sentencepiece", "counting with a SentencePiece model")
    try:
        processor = module.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise DataError(f"no SentencePiece model ({error})", source=path.name) from error
    return TokenCounter(name, identity, lambda texts: [len(ids) for ids in processor.encode(list(texts))])


def _from_json(path: Path) -> TokenCounter:
    module = _need("tokenizers", "tokenizers", "counting with a tokenizer.json", "hub")
    try:
        tokenizer = module.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception for a bad file
        raise DataError(f"no tokenizer.json ({error})", source=path.name) from error
    return TokenCounter(
        path.name,
        f"{path.name}/sha256 {_digest(path)}",
        lambda texts: [
            len(one.ids) for one in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ],
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _need(module: str, package: str, purpose: str, extra: str = "sharegpt") -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, extra, purpose) from error


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
