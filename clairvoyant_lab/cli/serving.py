"""Commands around the live proxy: proxy, backend, journal, retrain, swap."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_record, refuse

__all__ = ["register"]

_backend = typer.Typer(help="Backends for work without one.", no_args_is_help=True)
_journal = typer.Typer(help="Read a proxy's journal.", no_args_is_help=True)

UrlOption = Annotated[str, typer.Option("--proxy", help="URL of the running proxy.")]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="CLAIRVOYANT_TOKEN", help="Token of the control routes.", show_envvar=True),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("proxy")(proxy)
    app.add_typer(_backend, name="backend")
    app.add_typer(_journal, name="journal")
    app.command("retrain")(retrain)
    app.command("swap")(swap)


@command_errors
def proxy(
    backend: Annotated[
        str | None, typer.Option(help="Backend's base URL, e.g. http://127.0.0.1:11434.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (8080); 0 takes a free one.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="Policy (sjf_tokens); sjf is the paper's, fcfs is none.")
    ] = None,
    tau: Annotated[
        str | None,
        typer.Option(help="Starvation timeout: seconds, none, auto (3 x mean short), or calibrated."),
    ] = None,
    promotion: Annotated[str | None, typer.Option(help="oldest, shortest or long_only.")] = None,
    slots: Annotated[int | None, typer.Option(help="Requests that run at once (1).")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Predictor: a name or an .onnx file (sharegpt-rich); name:fast takes less CPU."),
    ] = None,
    max_queue: Annotated[int | None, typer.Option(help="Requests that may wait (2048).")] = None,
    max_body_bytes: Annotated[int | None, typer.Option(help="Largest body on a scheduled path.")] = None,
    first_byte_timeout_s: Annotated[
        float | None, typer.Option(help="Backend's silence before headers, in a slot (600).")
    ] = None,
    silence_timeout_s: Annotated[
        float | None, typer.Option(help="Backend's silence within a body, in a slot (120).")
    ] = None,
    on_client_gone: Annotated[str | None, typer.Option(help="cancel or drain, when a client leaves.")] = None,
    buffer: Annotated[
        bool | None, typer.Option("--buffer", help="Collect answers first, as the paper did.")
    ] = None,
    shadow: Annotated[
        bool | None, typer.Option("--shadow", help="Stay FCFS, record what the policy would do.")
    ] = None,
    token: TokenOption = None,
    journal: Annotated[
        str | None, typer.Option(help="SQLite file for the request log; never any text.")
    ] = None,
    journal_ngrams: Annotated[
        bool | None,
        typer.Option(
            "--journal-ngrams",
            help="Also keep hashed n-grams, to retrain a rich model (they can be guessed in part).",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with a [proxy] table.")] = None,
) -> None:
    """Schedule what goes to a serial backend.

    All else passes through, byte for byte.
    """
    from clairvoyant_lab.serving.config import load_settings
    from clairvoyant_lab.serving.policies import asked_policy

    given: dict[str, Any] = {
        "backend": backend,
        "host": host,
        "port": port,
        "policy": policy,
        "promotion": promotion,
        "slots": slots,
        "model": model,
        "max_queue": max_queue,
        "max_body_bytes": max_body_bytes,
        "first_byte_timeout_s": first_byte_timeout_s,
        "silence_timeout_s": silence_timeout_s,
        "on_client_gone": on_client_gone,
        "buffer": buffer,
        "shadow": shadow,
        "token": token,
        "journal": journal,
        "journal_ngrams": journal_ngrams,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    settings = load_settings({**fields, **_tau(tau)}, file=config)
    asked_policy(settings)  # refused before seconds of loading
    # what takes the time comes now; the ready line on stdout is for programs
    about = "some seconds; longer the first time, when its scanner is compiled"
    typer.echo(f"loading model {settings.model} ... ({about})", err=True)
    from clairvoyant_lab.serving.run import run_proxy

    run_proxy(settings)


@_backend.command("emulate")
@command_errors
def emulate(
    profile: Annotated[str, typer.Option(help="Machine whose pace it keeps.")] = "m1",
    speedup: Annotated[float, typer.Option(help="Times faster than the machine.")] = 1.0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 11434,
    slots: Annotated[int, typer.Option(help="Answers at once.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the lengths that are drawn.")] = 0,
) -> None:
    """Serve emulated answers over real HTTP.

    Speaks OpenAI's and Ollama's dialects, at the pace of a machine.
    """
    from clairvoyant_lab.serving.run import run_emulator

    run_emulator(profile=profile, speedup=speedup, host=host, port=port, slots=slots, seed=seed)


@_backend.command("local")
@command_errors
def local(
    model: Annotated[
        Path | None, typer.Option(help="A .gguf file; the bundled small model by default.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8081,
    threads: Annotated[int, typer.Option(help="Threads of the server.")] = 1,
    slots: Annotated[int, typer.Option(help="Answers at once.")] = 1,
    context_tokens: Annotated[int, typer.Option(help="Context of one slot.")] = 4096,
) -> None:
    """Serve a small model with llama.cpp.

    A real server, from the extra `local`.
    """
    from clairvoyant_lab.serving.backends.local import serve_local

    serve_local(model, host=host, port=port, threads=threads, slots=slots, context_tokens=context_tokens)


@_backend.command("install-model")
@command_errors
def install_model() -> None:
    """Install a small model for `backend local`.

    135 million parameters, 100 MB.
    """
    from clairvoyant_lab.serving.backends.local import install_model as install

    typer.echo(f"model at {install()}")


@_journal.command("show")
@command_errors
def journal_show(
    path: Annotated[Path, typer.Argument(help="The journal.")],
    rows: Annotated[int, typer.Option(min=0, help="Also print the last so many requests.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Print a journal's figures, and its last requests on request."""
    from clairvoyant_lab.journal_reader import read_journal

    journal = read_journal(path)
    if rows:
        print_frame(journal.to_frame().tail(rows), as_json)
    else:
        print_record(journal.summary(), as_json)


@_journal.command("export")
@command_errors
def journal_export(
    path: Annotated[Path, typer.Argument(help="The journal.")],
    out: Annotated[Path, typer.Argument(help="Where to: .parquet, .csv or .jsonl.")],
    kind: Annotated[
        str, typer.Option(help="trace (to replay), training (to learn from) or requests.")
    ] = "trace",
) -> None:
    """Write a journal as a trace, a training table or a plain table."""
    from clairvoyant_lab.serving.exports import export_journal

    typer.echo(export_journal(path, out, kind))


@command_errors
def retrain(
    path: Annotated[Path, typer.Argument(help="The journal.")],
    out: Annotated[Path, typer.Argument(help="ONNX file to write.")],
    kind: Annotated[
        str,
        typer.Option(help="rich (from words too: needs --journal-ngrams), lexical, or auto: rich if it can."),
    ] = "auto",
    base: Annotated[
        str, typer.Option(help="Rich model whose words may be taken over; none: own words only.")
    ] = "sharegpt-rich",
    hold_out: Annotated[float, typer.Option(help="Share of the last requests to compare on.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Of training and intervals.")] = 42,
    as_json: JsonOption = False,
) -> None:
    """Learn from a journal, and say if it is better.

    Compares with the model in use on the journal's last requests. Exit 1 if the new one is not better.
    """
    from clairvoyant_lab.serving.retrain import retrain_from_journal

    report = retrain_from_journal(
        path, out, kind=kind, base=None if base == "none" else base, hold_out=hold_out, seed=seed
    )
    print_record(report.summary(), as_json)
    if report.better is not True:
        raise refuse(report.advice)


@command_errors
def swap(
    model: Annotated[str | None, typer.Argument(help="Model name, or a file on the proxy's machine.")] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Return to the model before the last swap.")
    ] = False,
    proxy_url: UrlOption = "http://127.0.0.1:8080",
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Exchange the model of a running proxy.

    No request is dropped.
    """
    from clairvoyant_lab.errors import ParameterError
    from clairvoyant_lab.serving.client import ProxyClient

    if (model is None) == (not rollback):
        raise ParameterError("model", model, "give a model to swap in, or --rollback")
    if model is not None and (file := Path(model.removesuffix(":fast"))).is_file():
        model = str(file.resolve()) + (":fast" if model.endswith(":fast") else "")
    with ProxyClient(proxy_url, token=token) as client:
        state = client.roll_back_model() if model is None else client.swap_model(model)
    print_record(state, as_json)


def _tau(text: str | None) -> dict[str, Any]:
    """Settings that `--tau` stands for."""
    if text is None:
        return {}
    if text in ("auto", "calibrated"):
        return {"tau_mode": text}
    if text == "none":
        return {"starvation_timeout_s": None}
    try:
        return {"starvation_timeout_s": float(text)}
    except ValueError:
        from clairvoyant_lab.errors import ParameterError

        raise ParameterError("tau", text, "give seconds, none, auto or calibrated") from None
