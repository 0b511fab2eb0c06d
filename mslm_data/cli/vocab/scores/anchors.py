"""`mslm-data vocab scores anchors`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import FileOrFolder
from mslm_data.cli.vocab.options import (
    Encoder,
    FolderOptions,
    WrittenOutput,
    output,
    save_lexicon,
    splits,
)
from mslm_data.cli.vocab.scores import chosen

if TYPE_CHECKING:
    from mslm_data.lexicon.store import Lexicon


class AnchorScores(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab scores anchors`."""

    split: Annotated[tuple[str, ...], splits("with words to score", default="all splits")] = ()
    encoder: Encoder
    anchors: Annotated[
        Path | None,
        option(
            "Lexicon of the anchors.",
            metavar="FILE",
            type=FileOrFolder(),
            default="DIR/vocab/anchors.arrow",
        ),
    ] = None
    embedding: Annotated[
        Literal["pooler", "mean", "input"],
        option(
            "Embedding of a word: the model's pooler, or the mean over its pieces of the last "
            "layer (mean) or of the input embeddings (input)."
        ),
    ] = "pooler"
    combine: Annotated[
        Literal["max", "mean", "min"],
        option("How to combine a word's cosines to all anchors. The paper uses max."),
    ] = "max"
    out: Annotated[Path | None, output("DIR/vocab/difference.arrow", "file for the lexicon")] = None


@make_command("anchors", AnchorScores)
def command(options: AnchorScores) -> WrittenOutput:
    r"""Score each word type by its cosine to anchor words, as in Difference-Masking.

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
    """
    from mslm_data.api.loading import load
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.artefacts import LEXICON, find_artefact
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import load_folder_tokenizer
    from mslm_data.lexicon.scores.likeness import Likeness, make_lexicon
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.store import read_lexicon
    from mslm_data.lexicon.word_types import count_words

    shards = load(options.folder)
    manifest = shards.manifest
    used = chosen(shards, options.split)

    # An explicit path must not be searched in `vocab/`.
    given = str(options.anchors.absolute()) if options.anchors else "anchors.arrow"
    tokenizer = manifest.tokenizer.sha256
    anchors_file = find_artefact(options.folder, given, LEXICON, tokenizer=tokenizer)
    anchors = read_lexicon(anchors_file)
    _check_is_anchors(anchors_file, anchors)

    likeness = Likeness(
        encoder=load_encoder(options.encoder),
        tokenizer=load_folder_tokenizer(options.folder, manifest),
        embedding=options.embedding,
        combine=options.combine,
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
        "embedding": options.embedding,
        "combine": options.combine,
        "anchors": {"entries": len(anchors), "made": anchors.about.get("made")},
    }
    out = options.out or options.folder / "vocab" / "difference.arrow"
    lexicon = make_lexicon(words.tokens, numbers, scores, about(manifest, **made))
    save_lexicon(out, lexicon, protected=manifest.protected)

    counts: dict[str, Any] = {
        "anchors": len(anchors),
        "words": len(words),
        "entries": len(numbers),
        "left_out": len(words) - len(numbers),
    }
    if len(scores):
        counts |= {"lowest": float(scores.min()), "highest": float(scores.max())}
    return WrittenOutput(out=out, counts=counts)


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
