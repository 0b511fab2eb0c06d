"""`mslm-data vocab scores attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mslm_data.cli.command import make_command
from mslm_data.cli.vocab.options import Encoder, FolderOptions, WrittenOutput, output, splits
from mslm_data.cli.vocab.scores import chosen, make_column


class AttentionScores(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab scores attention`."""

    split: Annotated[tuple[str, ...], splits("to score", default="all splits")] = ()
    encoder: Encoder
    out: Annotated[Path | None, output("DIR/vocab/attention", "folder for the score column")] = None


@make_command("attention", AttentionScores)
def command(options: AttentionScores) -> WrittenOutput:
    r"""Score each token by the attention from [CLS] in the last layer, averaged over heads.

    Writes a score column. The model must have the folder's vocabulary. AttnMask and MST use images,
    and the attention of a teacher that follows the model in training; text and a frozen encoder are
    an adaptation. Special tokens have score 0.

    \b
    Example:
        mslm-data vocab scores attention shards/bc2gm --encoder my-bert/
    """
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import load_folder_tokenizer
    from mslm_data.lexicon.scores.making import longest_row
    from mslm_data.lexicon.scores.token_scores import Attention

    shards = load(options.folder)
    encoder = load_encoder(options.encoder, attentions=True)
    encoder.check_shares_ids(load_folder_tokenizer(options.folder, shards.manifest))
    encoder.check_row_length(longest_row(chosen(shards, options.split)))

    out = options.out or options.folder / "vocab" / "attention"
    made = {"of": "attention", "encoder": encoder.about}
    return make_column(shards, options.split, out, made, Attention(encoder))
