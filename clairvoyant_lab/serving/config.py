"""What a proxy is started with: one frozen value, validated where it is made.

Settings come from keyword arguments, then `CLAIRVOYANT_*` environment variables, then a TOML file's
`[proxy]` table, then the defaults below.
"""

from __future__ import annotations

import ipaddress
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name

__all__ = ["CLIENT_GONE", "TAU_MODES", "ProxySettings", "is_loopback", "load_settings"]

TAU_MODES = ("fixed", "auto", "calibrated")
CLIENT_GONE = ("cancel", "drain")

_ENV_PREFIX = "CLAIRVOYANT_"


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """Settings of one proxy.

    Parameters
    ----------
    backend : str
        Base URL of the serial backend; fixed for the proxy's life, no request can choose another.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    policy : str
        A name of `serial_policy`; live, so not the preemptive `srpt`.
    starvation_timeout_s : float or None
        τ of section 3.4; None is no limit. In the modes `auto` and `calibrated` the value until enough
        requests have been seen.
    tau_mode : {"fixed", "auto", "calibrated"}
        `auto` sets τ = 3 x the running mean service time of short requests (section 3.4), `calibrated`
        the value that `advice.calibrate_tau` finds on the recent traffic; both only now and then.
    promotion : str
        Promotion rule of the policy.
    aging_rate : float
        Rate of the policy `aging`, score per second.
    slots : int
        Requests that run at the backend at once.
    max_queue : int
        Requests that may wait; one more is answered 429.
    max_body_bytes : int
        A larger body on a scheduled path is answered 413.
    model : str
        Predictor: a name or a path of an ONNX file; `:fast` at its end takes a rich model's fast form.
    connect_timeout_s : float
        To connect to the backend.
    first_byte_timeout_s, silence_timeout_s : float
        Bounds on the backend where it holds a slot: until response headers, between two pieces of a body.
        What is passed through (a model that is pulled, say) may take as long as its client waits.
    client_stall_timeout_s : float
        How long the client of a scheduled request may leave a full send buffer unread, or owe the rest of
        its body, before it counts as gone.
    send_buffer_bytes : int
        What is held for a slow client, so that it does not hold the slot.
    on_client_gone : {"cancel", "drain"}
        Mid-generation: cancel upstream, or read the answer to its end as the paper's version did.
    buffer : bool
        Collect a response before sending it (the paper's version; for comparison only).
    shadow : bool
        Stay first-come-first-served and record what the policy would have done.
    token : str or None
        Bearer token of the control routes; required on an address that is not loopback.
    journal : str, Path or None
        SQLite file of the request log; None keeps none.
    journal_ngrams : bool
        Also keep hashed n-gram ids and counts of the prompt's surface, which retraining a rich model needs;
        words can be guessed from them.
    grace_s : float
        After SIGTERM, how long running requests may take to finish.
    """

    backend: str
    host: str = "127.0.0.1"
    port: int = 8080
    policy: str = "sjf_tokens"
    starvation_timeout_s: float | None = None
    tau_mode: str = "fixed"
    promotion: str = "oldest"
    aging_rate: float = 0.01
    slots: int = 1
    max_queue: int = 2048
    max_body_bytes: int = 32 * 1024 * 1024
    model: str = "sharegpt-rich"
    connect_timeout_s: float = 5.0
    first_byte_timeout_s: float = 600.0
    silence_timeout_s: float = 120.0
    client_stall_timeout_s: float = 30.0
    send_buffer_bytes: int = 8 * 1024 * 1024
    on_client_gone: str = "cancel"
    buffer: bool = False
    shadow: bool = False
    token: str | None = None
    journal: str | Path | None = None
    journal_ngrams: bool = False
    grace_s: float = 600.0

    def __post_init__(self) -> None:
        """Refuse what cannot work before anything is opened."""
        for name in ("backend", "host", "policy", "promotion", "tau_mode", "model", "on_client_gone"):
            _check_text(name, getattr(self, name))
        if self.token is not None:
            _check_text("token", self.token)
        if self.journal is not None and not isinstance(self.journal, Path):
            _check_text("journal", self.journal)
        for name in ("buffer", "shadow", "journal_ngrams"):
            if not isinstance(getattr(self, name), bool):
                raise ParameterError(name, getattr(self, name), "give true or false")
        _check_backend(self.backend)
        _check_whole("port", self.port, least=0, most=65535)
        if _is_itself(self.backend, self.host, self.port):
            raise ParameterError(
                "backend", self.backend, "is where the proxy itself listens: give another port"
            )
        for name in ("slots", "max_queue", "max_body_bytes", "send_buffer_bytes"):
            _check_whole(name, getattr(self, name), least=1)
        for name in (
            "connect_timeout_s",
            "first_byte_timeout_s",
            "silence_timeout_s",
            "client_stall_timeout_s",
            "grace_s",
            "aging_rate",
        ):
            _check_positive(name, getattr(self, name))
        if self.starvation_timeout_s is not None:
            _check_not_negative("starvation_timeout_s", self.starvation_timeout_s)
        if self.tau_mode not in TAU_MODES:
            raise unknown_name("tau_mode", self.tau_mode, TAU_MODES)
        if self.on_client_gone not in CLIENT_GONE:
            raise unknown_name("on_client_gone", self.on_client_gone, CLIENT_GONE)
        if not is_loopback(self.host) and self.token is None:
            raise ParameterError(
                "host",
                self.host,
                "reachable from other machines, so the control routes need a token: "
                "give token=..., --token, or CLAIRVOYANT_TOKEN",
            )
        if self.journal_ngrams and self.journal is None:
            raise ParameterError("journal_ngrams", True, "needs a journal: give journal=PATH too")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(
    given: Mapping[str, Any],
    *,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ProxySettings:
    """Merge settings: given ones, then environment, then a TOML file, then defaults.

    Parameters
    ----------
    given : mapping
        Field -> value; a field that is absent is looked up further down.
    file : path, optional
        TOML with a `[proxy]` table.
    environ : mapping, optional
        Instead of `os.environ`.

    Raises
    ------
    ParameterError
        For an unknown field or a value of the wrong kind.
    DataError
        For a file that is not TOML.
    """
    kinds = {field.name: str(field.type) for field in fields(ProxySettings)}
    merged: dict[str, Any] = {}
    if file is not None:
        merged.update(_from_file(Path(file), kinds))
    env = os.environ if environ is None else environ
    for name, kind in kinds.items():
        text = env.get(_ENV_PREFIX + name.upper())
        if text is not None:
            merged[name] = _from_text(name, text, kind)
    for name, value in given.items():
        if name not in kinds:
            raise unknown_name("setting", name, kinds)
        merged[name] = value
    if "backend" not in merged:
        raise ParameterError("backend", None, "give the backend's URL, such as http://127.0.0.1:11434")
    return ProxySettings(**merged)


def _from_file(path: Path, kinds: Mapping[str, str]) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("proxy")
    except OSError as error:
        raise ParameterError("config", str(path), f"cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not TOML: {error}", source=str(path)) from error
    if not isinstance(table, dict):
        raise DataError("has no table [proxy]: write that line above the settings", source=str(path))
    for name in table:
        if name not in kinds:
            raise unknown_name(f"{path.name} [proxy]", name, kinds)
    return dict(table)


def _from_text(name: str, text: str, kind: str) -> Any:
    if "None" in kind and text.strip().lower() in ("", "none"):
        return None
    if kind == "bool":
        truth = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if text.strip().lower() not in truth:
            raise ParameterError(_ENV_PREFIX + name.upper(), text, "give true or false")
        return truth[text.strip().lower()]
    try:
        if kind.startswith("int"):
            return int(text)
        if kind.startswith("float"):
            return float(text)
    except ValueError as error:
        raise ParameterError(_ENV_PREFIX + name.upper(), text, f"give a number ({kind})") from error
    return text


def _check_backend(url: str) -> None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        fine = False
    if fine and "@" in parts.netloc:
        # it would stand in logs, and a client's own Authorization goes through
        hidden = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise ParameterError("backend", hidden, "leave the user and password out: clients send their own")
    if not fine or any(mark in url for mark in "?#") or any(letter.isspace() for letter in url):
        raise ParameterError(
            "backend", url, "give an http:// or https:// URL, a path at most behind its host"
        )


def _is_itself(url: str, host: str, port: int) -> bool:
    """Whether a backend's URL is where the proxy listens: each request would wait for itself."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    if port == 0 or (parts.port or default) != port or parts.hostname is None:
        return False
    ours, theirs = host.lower(), parts.hostname
    if ours == theirs:
        return True
    everywhere = ours in ("0.0.0.0", "::")
    named = "localhost" in (ours, theirs) and is_loopback(ours)
    return is_loopback(theirs) and (everywhere or named)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(name, value, "give a text that is not blank, or leave it out")


def _check_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    fine = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if fine and most is not None:
        fine = isinstance(value, int) and value <= most
    if not fine:
        span = f"{least} or more" if most is None else f"{least} to {most}"
        raise ParameterError(name, value, f"give a whole number, {span}")


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ParameterError(name, value, "give a positive number")


def _check_not_negative(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ParameterError(name, value, "give seconds, 0 or more, or None for no limit")
