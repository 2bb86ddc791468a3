"""An error about an option names the option as it was typed, whatever the library calls it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from clairvoyant_lab.cli.app import app
from clairvoyant_lab.errors import ParameterError, called

PROXY = ("proxy", "--backend", "http://127.0.0.1:9", "--port", "0")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((*PROXY, "--policy", "sj"), "policy = 'sj'"),
        ((*PROXY, "--policy", "srpt"), "policy = 'srpt'"),
        ((*PROXY, "--tau", "-1"), "tau = -1.0"),
        ((*PROXY, "--tau", "soon"), "tau = 'soon'"),
        ((*PROXY, "--promotion", "youngest"), "promotion = 'youngest'"),
        ((*PROXY, "--model", "sharegtp"), "model = 'sharegtp'"),
        ((*PROXY, "--on-client-gone", "shrug"), "on_client_gone = 'shrug'"),
        (("simulate", "serial", "sjf", "sj"), "policies = 'sj'"),
        (("simulate", "serial", "sjf", "--tau", "-7"), "tau = -7.0"),
        (("simulate", "serial", "--profile", "m11"), "profile = 'm11'"),
        (("simulate", "batch", "isj"), "policies = 'isj'"),
        (("sweep", "sj"), "policies = 'sj'"),
        (("calibrate", "tau", "--policy", "sj"), "policy = 'sj'"),
        (("calibrate", "alpha", "--policy", "isj"), "policy = 'isj'"),
        (("bench", "burst", "sj"), "policies = 'sj'"),
        (("bench", "poisson", "sj"), "policies = 'sj'"),
        (("corpora", "starvation", "sharegtp"), "names = 'sharegtp'"),
        (("corpora", "build", "sharegpt", "--tokenizer", "tekken"), "tokenizer = 'tekken'"),
        (("evaluate", "sharegtp"), "corpus = 'sharegtp'"),
        (("export", "sharegtp", "--to", "."), "name = 'sharegtp'"),
        (("predict", "x", "--model", "sharegtp"), "model = 'sharegtp'"),
        (("ledger", "--topic", "seriel"), "topic = 'seriel'"),
        (("ledger", "--keys", "nothing"), "keys = 'nothing'"),
        (("report", "99"), "names = '99'"),
        (("swap", "sharegpt", "--proxy", "nowhere"), "proxy = 'nowhere'"),
        (("sweep", "--tau", "-7"), "tau = -7.0"),
    ],
)
def test_an_unknown_value_is_refused_under_the_options_own_name(
    arguments: tuple[str, ...], named: str
) -> None:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2
    assert f"error: {named}: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "batch", "--seed"),
        ("simulate", "serial", "--seed"),
        ("calibrate", "tau", "--seed"),
        ("calibrate", "alpha", "--seed"),
        ("bench", "burst", "--seed"),
        ("bench", "poisson", "--seed"),
        ("sweep", "--seed"),
        ("sweep", "--seeds"),
        ("ledger", "--seed"),
        ("train", "sharegpt", "--to", "x.onnx", "--seed"),
        ("backend", "emulate", "--seed"),
        ("backend", "emulate", "--port"),
        ("backend", "local", "--port"),
    ],
)
def test_a_negative_count_is_bad_use_and_no_traceback(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*arguments, "-7"])
    assert result.exit_code == 2
    assert f"'{arguments[-1]}'" in result.stderr


def test_what_the_library_calls_name_is_called_as_its_caller_calls_it() -> None:
    with pytest.raises(ParameterError, match=r"^policy = 'sj'") as caught, called("policy"):
        raise ParameterError("name", "sj", "unknown")
    assert caught.value.field == "policy"
    with pytest.raises(ParameterError, match=r"^tau"), called("policy"):
        raise ParameterError("tau", -1, "give more")
