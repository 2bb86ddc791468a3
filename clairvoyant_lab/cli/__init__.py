"""The command `clairvoyant-lab`: one module a group, each thin (parse, call, print)."""

from clairvoyant_lab.cli.app import app, main

__all__ = ["app", "main"]
