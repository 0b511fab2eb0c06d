"""`mslm-data vocab scores anchors`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import FileOrFolder, folder_argument, json_option, splits_option
from mslm_data.cli.vocab.options import encoder_option, out_option, save_lexicon
from mslm_data.cli.vocab.scores import chosen, print_report

if TYPE_CHECKING:
    from mslm_data.lexicon.store import Lexicon


@click.command("anchors", short_help="Words by their similarity to anchors.")
@folder_argument
@splits_option("with words to score", default="all splits")
@encoder_option
@click.option(
    "--anchors",
    "path",
    type=FileOrFolder(),
    metavar="FILE",
    help="Lexicon of the anchors.  [default: DIR/vocab/anchors.arrow]",
)
@click.option(
    "--embedding",
    type=click.Choice(["pooler", "mean", "input"]),
    default="pooler",
    show_default=True,
    help="Embedding of a word: the model's pooler, or the mean over its pieces of the last layer "
    "(mean) or of the input embeddings (input).",
)
@click.option(
    "--combine",
    type=click.Choice(["max", "mean", "min"]),
    default="max",
    show_default=True,
    help="How to combine a word's cosines to all anchors. The paper uses max.",
)
@out_option("DIR/vocab/difference.arrow", "file for the lexicon")
@json_option
def command(
    folder: Path,
    splits: tuple[str, ...],
    name: str,
    path: Path | None,
    embedding: Any,
    combine: Any,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score each word type by its cosine to anchor words, as in Difference-Masking.

    Writes a lexicon. Each word is embedded without context. The released code uses the pooler of
    bert-base-uncased, whose outputs are nearly constant. Scores are cosines in [-1, 1]; strategies
    use their ranks, as the released code does.

    Words with [UNK] and words too long for the encoder have no entry. If the encoder has another
    tokenizer than the folder, words are decoded and encoded again, and its tokenizer decides
    whether case matters.

    \b
    Example:
        mslm-data vocab anchors shards/bc2gm --general wordfreq
        mslm-data vocab scores anchors shards/bc2gm --encoder my-bert/
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.artefacts import LEXICON, find_artefact
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import load_folder_tokenizer
    from mslm_data.lexicon.scores.likeness import Likeness, make_lexicon
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.store import read_lexicon
    from mslm_data.lexicon.word_types import count_words

    shards = load(folder)
    manifest = shards.manifest
    used = chosen(shards, splits)

    # An explicit path must not be searched in `vocab/`.
    given = str(path.absolute()) if path else "anchors.arrow"
    tokenizer = manifest.tokenizer.sha256
    anchors_file = find_artefact(folder, given, LEXICON, tokenizer=tokenizer)
    anchors = read_lexicon(anchors_file)
    _check_is_anchors(anchors_file, anchors)

    likeness = Likeness(
        encoder=load_encoder(name),
        tokenizer=load_folder_tokenizer(folder, manifest),
        embedding=embedding,
        combine=combine,
    )
    words = count_words(chain.from_iterable(split.chunks() for split in used.values()))
    with counting("scores", "words") as progress:
        done = 0

        def advance(number: int) -> None:
            nonlocal done
            done += number
            progress(done, len(words))

        advance(0)
        numbers, scores = likeness.score(words.tokens, anchors.tokens, advance)

    made = {
        "of": "anchors",
        "splits": list(used),
        "encoder": likeness.encoder.about,
        "embedding": embedding,
        "combine": combine,
        "anchors": {"entries": len(anchors), "made": anchors.about.get("made")},
    }
    out = out or folder / "vocab" / "difference.arrow"
    lexicon = make_lexicon(words.tokens, numbers, scores, about(manifest, **made))
    save_lexicon(out, lexicon, protected=manifest.protected)

    report: dict[str, Any] = {
        "anchors": len(anchors),
        "words": len(words),
        "entries": len(numbers),
        "left_out": len(words) - len(numbers),
    }
    if len(scores):
        report |= {"lowest": float(scores.min()), "highest": float(scores.max())}
    print_report(as_json, out, report)


def _check_is_anchors(path: Path, lexicon: Lexicon) -> None:
    """Check that a lexicon was not made by another command, with n-grams, scores or id counts.

    Raises:
        VocabularyError: Another command made the lexicon.
    """
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.artefacts import MAKERS, made_by

    made = made_by(lexicon.about)
    command = f"{made.get('command')} {made.get('of', '')}".rstrip()
    if command in ("vocab pmi", "vocab scores anchors", "vocab scores frequency"):
        raise VocabularyError(
            f"{path}: expected anchors, got a lexicon of `mslm-data {command}`; make them with "
            f"`{MAKERS['anchors.arrow']}`"
        )
