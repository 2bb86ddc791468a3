"""Command groups that several modules add to, as `simulate serial` and `simulate batch`."""

from __future__ import annotations

import typer

__all__ = ["subcommands"]


def subcommands(app: typer.Typer, name: str, about: str) -> typer.Typer:
    """Return the group of that name, made at the first call.

    Parameters
    ----------
    app : Typer
        The application or a group of it.
    name : str
        As typed by the user.
    about : str
        Help line, used by whoever comes first.
    """
    for group in app.registered_groups:
        if group.name == name and group.typer_instance is not None:
            return group.typer_instance
    made = typer.Typer(help=about, no_args_is_help=True)
    app.add_typer(made, name=name)
    return made
