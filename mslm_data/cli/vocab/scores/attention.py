"""`mslm-data vocab scores attention`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mslm_data.cli.options import folder_argument, json_option, splits_option
from mslm_data.cli.vocab.options import encoder_option, out_option
from mslm_data.cli.vocab.scores import chosen, print_report, run_column


@click.command("attention", short_help="Tokens by the attention of [CLS].")
@folder_argument
@splits_option("to score", default="all splits")
@encoder_option
@out_option("DIR/vocab/attention", "folder for the score column")
@json_option
def command(
    folder: Path, splits: tuple[str, ...], name: str, out: Path | None, as_json: bool
) -> None:
    """Score each token by the attention from [CLS] in the last layer, averaged over heads.

    Writes a score column. The model must have the folder's vocabulary. AttnMask and MST use images,
    and the attention of a teacher that follows the model in training; text and a frozen encoder are
    an adaptation. Special tokens have score 0.

    \b
    Example:
        mslm-data vocab scores attention shards/bc2gm --encoder my-bert/
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import load_folder_tokenizer
    from mslm_data.lexicon.scores.making import longest_row
    from mslm_data.lexicon.scores.token_scores import Attention

    shards = load(folder)
    encoder = load_encoder(name, attentions=True)
    encoder.check_shares_ids(load_folder_tokenizer(folder, shards.manifest))
    encoder.check_row_length(longest_row(chosen(shards, splits)))

    out = out or folder / "vocab" / "attention"
    made = {"of": "attention", "encoder": encoder.about}
    report = run_column(shards, splits, out, made, Attention(encoder))
    print_report(as_json, out, asdict(report))
