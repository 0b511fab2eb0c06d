"""`mslm-data vocab scores logits`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mslm_data.cli.vocab.scores import chosen, common, run_column, say


@click.command("logits", short_help="Tokens by a token classifier.")
@common(out="DIR/vocab/logits")
@click.option("--encoder", "name", required=True, metavar="DIR|ID",
              help="A Hugging Face token classifier of the folder's vocabulary, safetensors only.")  # fmt: skip
@click.option(
    "--class", "label", required=True, metavar="LABEL", help="The class, by label or number."
)
@click.option("--value", type=click.Choice(["logit", "margin"]), default="logit", show_default=True)
def command(
    folder: Path,
    names: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    name: str,
    label: str,
    value: Any,
) -> None:
    """Score each token by a token classifier's logit of one class: a score column.

    So the in-domain stage of Selective Masking ranks tokens (Gu et al. 2020). margin is the logit less the highest
    of the other classes: above 0 just where the class is the one predicted, which is what that stage hides among.
    Special tokens have 0.
    """
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import tokenizer_of
    from mslm_data.lexicon.scores.making import longest_row
    from mslm_data.lexicon.scores.token_scores import ClassLogits, class_index
    from mslm_data.loading import load

    shards = load(folder)
    splits = chosen(shards, names)
    encoder = load_encoder(name, head="AutoModelForTokenClassification")
    score = ClassLogits(encoder, class_index(encoder, label), value)
    encoder.require_ids_of(tokenizer_of(folder, shards.manifest))
    encoder.require_room_for(longest_row(splits))
    out = out or folder / "vocab" / "logits"
    made = {"of": "logits", "encoder": encoder.about, "class": score.index, "value": value}
    say(as_json, out, asdict(run_column(shards, names, out, made, score)))
