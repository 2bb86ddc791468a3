"""The checked-in description against the running control API."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clairvoyant_lab.serving import ProxyClient, ThreadedStack


@pytest.mark.parametrize("settings", [{}, {"shadow": True, "starvation_timeout_s": 3.0}])
def test_schemathesis_finds_no_500_and_every_answer_as_described(
    repo_root: Path, word_predictor: Any, settings: dict[str, object]
) -> None:
    schema = repo_root / "docs" / "openapi.json"
    with ThreadedStack(
        emulator={"speedup": 200.0}, predictor=word_predictor(), client_stall_timeout_s=1.0, **settings
    ) as stack:
        with ProxyClient(stack.url) as client:
            for k in range(25):
                client.chat(f"p=0.{k % 10} x", emulate={"tokens": 900 if k % 5 == 0 else 5})
            assert client.shadow("sjf")["n"] == 25
        command = [sys.executable, "-m", "schemathesis.cli", "run", str(schema), "--url", stack.url]
        command += [
            "--exclude-path",
            "/clairvoyant/events",
            "--seed",
            "7",
            "--no-color",
            "--max-examples",
            "25",
        ]
        command += ["--phases", "examples,coverage,fuzzing", "--generation-database", "none"]
        command += [
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "Tested: 10" in done.stdout, done.stdout[-1500:]


def test_the_description_and_the_routes_name_each_other(repo_root: Path) -> None:
    from clairvoyant_lab.serving.control import Control

    described = json.loads((repo_root / "docs" / "openapi.json").read_text(encoding="utf-8"))["paths"]

    class Nothing:
        pass

    routes = Control(Nothing())._routes  # type: ignore[arg-type]
    assert {p: {m.upper() for m in methods} for p, methods in described.items()} == {
        path: set(methods) for path, methods in routes.items()
    }
