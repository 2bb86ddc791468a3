"""Commands predict, train, evaluate, export: length predictors from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_record, refuse
from clairvoyant_lab.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["register"]

ModelOption = Annotated[str, typer.Option("--model", help="A committed model's name, or an .onnx file.")]
FormOption = Annotated[
    str, typer.Option("--form", help="full, or fast (rich models: the linear score alone).")
]
CorpusArgument = Annotated[
    str, typer.Argument(help="A published corpus' name, or a file of prompts and responses.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("predict")(predict)
    app.command("train")(train)
    app.command("evaluate")(evaluate)
    app.command("export")(export)


@command_errors
def predict(
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    model: ModelOption = "sharegpt-rich",
    form: FormOption = "full",
    token_cap: Annotated[
        int | None, typer.Option("--token-cap", help="Most tokens the answer may have (max_tokens).")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show what pushes P(Long) up or down.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict how long the answer to a prompt will be."""
    from clairvoyant_lab.predictor import LengthPredictor

    text = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    predictor = LengthPredictor.load(model, form=form)
    if why:
        print_frame(predictor.explain(text).to_frame(), as_json)
        return
    print_record(predictor.predict(text, token_cap).summary(), as_json)


@command_errors
def train(
    corpus: CorpusArgument,
    to: Annotated[Path, typer.Option("--to", help="The .onnx file to write.")],
    kind: Annotated[
        str, typer.Option("--kind", help="rich (words too), or lexical (the 19 features).")
    ] = "rich",
    turns: Annotated[str, typer.Option("--turns", help="first, or all turns of a conversation.")] = "first",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of splits and trees.")] = 42,
    as_json: JsonOption = False,
) -> None:
    """Train a predictor on a corpus.

    Proves its export equal, and prints its held-out figures.
    """
    from clairvoyant_lab.predictor.rich import train_rich
    from clairvoyant_lab.predictor.training import train_predictor
    from clairvoyant_lab.prompts.schema import FEATURE_NAMES

    if kind not in ("rich", "lexical"):
        raise ParameterError("kind", kind, "give 'rich' or 'lexical'")
    frame = _corpus(corpus, texts=kind == "rich", turns=turns)
    tokens, groups = frame["response_tokens"].to_numpy(), frame["group"].to_numpy()
    trained: Any
    if kind == "rich":
        trained = train_rich(
            frame["prompt"].tolist(),
            tokens,
            groups=groups,
            first_turn=(frame["turn"] == 0).to_numpy() if turns == "all" else None,
            seed=seed,
        )
    else:
        features = frame[list(FEATURE_NAMES)].to_numpy("float32")
        trained = train_predictor(features, tokens, seed=seed, groups=groups)
    report = trained.export_onnx(to)
    print_record({**trained.metrics, **report.summary()}, as_json)


@command_errors
def evaluate(
    corpus: CorpusArgument,
    model: ModelOption = "sharegpt-rich",
    form: FormOption = "full",
    held_out: Annotated[
        bool, typer.Option("--held-out", help="sharegpt only: the conversations no committed model has seen.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Instead of a model: length (of the prompt), or distilbert."),
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option("--at-least", help="Exit with 1 if the ranking accuracy (0 to 1) is below this."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a model on a corpus.

    Equation 2 with its interval, class accuracy, AUC, calibration.
    """
    from clairvoyant_lab.predictor import LengthPredictor
    from clairvoyant_lab.predictor.committed import held_out_metrics
    from clairvoyant_lab.predictor.model_info import RICH
    from clairvoyant_lab.predictor.sharegpt_rows import held_out as held_out_rows
    from clairvoyant_lab.prompts.schema import FEATURE_NAMES

    if baseline is not None:
        metrics = _baseline(corpus, baseline)
        print_record(metrics, as_json)
        _require(metrics, at_least)
        return
    if held_out and corpus != "sharegpt":
        raise ParameterError("held_out", corpus, "only the corpus sharegpt has held-out conversations")
    predictor = LengthPredictor.load(model, form=form)
    rich = predictor.info.schema == RICH
    frame = _corpus(corpus, texts=rich, variant=predictor.info.variant)
    if held_out:
        frame = frame[held_out_rows(frame)]
    probabilities = (
        predictor.predict_proba(frame["prompt"].tolist())
        if rich
        else predictor.predict_proba(frame[list(FEATURE_NAMES)].to_numpy("float32"))
    )
    metrics = held_out_metrics(probabilities, frame["response_tokens"].to_numpy())
    print_record(metrics, as_json)
    _require(metrics, at_least)


@command_errors
def export(
    name: Annotated[str, typer.Argument(help="A committed model's name.")],
    to: Annotated[Path, typer.Option("--to", help="Folder for NAME.onnx and NAME.md.")],
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 unless the bytes equal the committed file's.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a committed model again from its data.

    Trains, proves the export equal, writes file and card.
    """
    from clairvoyant_lab.predictor.committed import remake
    from clairvoyant_lab.predictor.runtime import model_path

    committed = model_path(name).read_bytes() if check else b""
    remade = remake(name, to)
    print_record(remade.report.summary(), as_json)
    if check and remade.report.path.read_bytes() != committed:
        raise refuse(
            f"{name}: the bytes differ from the committed file's; compare the library versions in its card"
        )


def _baseline(corpus: str, name: str) -> dict[str, Any]:
    from clairvoyant_lab.predictor.ranking import bootstrap_ranking
    from clairvoyant_lab.predictor.transformer import evaluate_transformer
    from clairvoyant_lab.prompts.schema import FEATURE_NAMES

    if name not in ("length", "distilbert"):
        raise unknown_name("baseline", name, ("length", "distilbert"))
    if name == "length":
        frame = _corpus(corpus, texts=False)
        return bootstrap_ranking(frame[FEATURE_NAMES[0]], frame["response_tokens"], seed=42).summary()
    frame = _corpus(corpus, texts=True)
    result = evaluate_transformer(
        frame["prompt"].tolist(), frame["response_tokens"].to_numpy(), groups=frame["group"].to_numpy()
    )
    return result.summary()


def _require(metrics: dict[str, Any], at_least: float | None) -> None:
    if at_least is not None and metrics["ranking_accuracy"] < at_least:
        raise refuse(f"ranking accuracy {metrics['ranking_accuracy']:.4f} is below {at_least}")


def _corpus(name: str, *, texts: bool, turns: str = "first", variant: str = "paper") -> pd.DataFrame:
    from clairvoyant_lab.corpora import load_corpus

    options: dict[str, Any] = {"turns": turns, "variant": variant}
    if name == "sharegpt":
        options["source"] = "package" if texts else "derived"
    frame = load_corpus(name, **options)
    if texts and "prompt" not in frame:
        raise ParameterError("corpus", name, "holds no texts, which a rich model reads; use a lexical model")
    return frame
