"""`mslm-data vocab scores logits`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from mslm_data.cli.command import make_command, option
from mslm_data.cli.vocab.options import Encoder, FolderOptions, WrittenOutput, output, splits
from mslm_data.cli.vocab.scores import chosen, make_column


class LogitScores(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab scores logits`."""

    split: Annotated[tuple[str, ...], splits("to score", default="all splits")] = ()
    encoder: Encoder
    label: Annotated[
        str,
        option(
            "Class of the model to score by: its label or its number.",
            metavar="LABEL",
            flags="--class",
        ),
    ]
    value: Annotated[
        Literal["logit", "margin"],
        option("Score: the raw logit of the class, or its margin over the highest other class."),
    ] = "logit"
    out: Annotated[Path | None, output("DIR/vocab/logits", "folder for the score column")] = None


@make_command("logits", LogitScores)
def command(options: LogitScores) -> WrittenOutput:
    r"""Score each token by a token classifier's logit of one class.

    Writes a score column. The model must have the folder's vocabulary. The in-domain stage of
    Selective Masking ranks tokens in this way (Gu et al. 2020), and masks tokens of the predicted
    class, whose margin is above 0. Special tokens have score 0.

    \b
    Example:
        mslm-data vocab scores logits shards/bc2gm --encoder my-classifier/ \
            --class important --value margin
    """
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import load_folder_tokenizer
    from mslm_data.lexicon.scores.making import longest_row
    from mslm_data.lexicon.scores.token_scores import ClassLogits, class_index

    shards = load(options.folder)
    encoder = load_encoder(options.encoder, head="AutoModelForTokenClassification")
    score = ClassLogits(encoder, class_index(encoder, options.label), options.value)
    encoder.check_shares_ids(load_folder_tokenizer(options.folder, shards.manifest))
    encoder.check_row_length(longest_row(chosen(shards, options.split)))

    out = options.out or options.folder / "vocab" / "logits"
    made = {
        "of": "logits",
        "encoder": encoder.about,
        "class": score.index,
        "value": options.value,
    }
    return make_column(shards, options.split, out, made, score)
