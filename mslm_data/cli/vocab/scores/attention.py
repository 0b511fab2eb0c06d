"""`mslm-data vocab scores attention`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mslm_data.cli.vocab.scores import chosen, common, run_column, say


@click.command("attention", short_help="Tokens by the attention of [CLS].")
@common(out="DIR/vocab/attention")
@click.option("--encoder", "name", required=True, metavar="DIR|ID",
              help="A Hugging Face model of the folder's vocabulary, safetensors only.")  # fmt: skip
def command(
    folder: Path, names: tuple[str, ...], out: Path | None, as_json: bool, name: str
) -> None:
    """Score each token by the attention that [CLS] pays it in the last layer, mean over heads: a score column.

    AttnMask and MST take it from a teacher that follows the model in training, and from images; a frozen encoder and
    text are an adaptation of them. Special tokens have 0.
    """
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import tokenizer_of
    from mslm_data.lexicon.scores.making import longest_row
    from mslm_data.lexicon.scores.token_scores import Attention
    from mslm_data.loading import load

    shards = load(folder)
    splits = chosen(shards, names)
    encoder = load_encoder(name, attentions=True)
    encoder.require_ids_of(tokenizer_of(folder, shards.manifest))
    encoder.require_room_for(longest_row(splits))
    out = out or folder / "vocab" / "attention"
    report = run_column(
        shards, names, out, {"of": "attention", "encoder": encoder.about}, Attention(encoder)
    )
    say(as_json, out, asdict(report))
