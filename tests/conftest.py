"""Shared fixtures: where the real data lies, and what to do when a peer is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]


def missing_peer(what: str) -> None:
    """Skip for a missing peer, or fail where every peer is required (REQUIRE_PEERS=1)."""
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(f"{what}, and REQUIRE_PEERS=1 asks for it")
    pytest.skip(what)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with goldens and real public data that lies beside a development checkout."""
    path = Path(os.environ.get("CLAIRVOYANT_SHARED", REPO.parent / "shared"))
    if not (path / "golden").is_dir():
        pytest.skip(f"no shared folder at {path.name}/ beside the checkout (set CLAIRVOYANT_SHARED)")
    return path


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Root of the checkout."""
    return REPO
