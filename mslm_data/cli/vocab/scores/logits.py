"""`mslm-data vocab scores logits`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mslm_data.cli.options import folder_argument, json_option, splits_option
from mslm_data.cli.vocab.options import encoder_option, out_option
from mslm_data.cli.vocab.scores import chosen, print_report, run_column


@click.command("logits", short_help="Tokens by a token classifier.")
@folder_argument
@splits_option("to score", default="all splits")
@encoder_option
@click.option(
    "--class",
    "label",
    required=True,
    metavar="LABEL",
    help="Class of the model to score by: its label or its number.",
)
@click.option(
    "--value",
    type=click.Choice(["logit", "margin"]),
    default="logit",
    show_default=True,
    help="Score: the raw logit of the class, or its margin over the highest other class.",
)
@out_option("DIR/vocab/logits", "folder for the score column")
@json_option
def command(
    folder: Path,
    splits: tuple[str, ...],
    name: str,
    label: str,
    value: Any,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score each token by a token classifier's logit of one class.

    Writes a score column. The model must have the folder's vocabulary. The in-domain stage of
    Selective Masking ranks tokens in this way (Gu et al. 2020), and masks tokens of the predicted
    class, whose margin is above 0. Special tokens have score 0.

    \b
    Example:
        mslm-data vocab scores logits shards/bc2gm --encoder my-classifier/ \\
            --class important --value margin
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import load_folder_tokenizer
    from mslm_data.lexicon.scores.making import longest_row
    from mslm_data.lexicon.scores.token_scores import ClassLogits, class_index

    shards = load(folder)
    encoder = load_encoder(name, head="AutoModelForTokenClassification")
    score = ClassLogits(encoder, class_index(encoder, label), value)
    encoder.check_shares_ids(load_folder_tokenizer(folder, shards.manifest))
    encoder.check_row_length(longest_row(chosen(shards, splits)))

    out = out or folder / "vocab" / "logits"
    made = {"of": "logits", "encoder": encoder.about, "class": score.index, "value": value}
    report = run_column(shards, splits, out, made, score)
    print_report(as_json, out, asdict(report))
