"""`mslm-data vocab scores anchors`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import click

from mslm_data.cli.vocab.scores import chosen, common, say


@click.command("anchors", short_help="Words by their likeness to anchors.")
@common(out="DIR/vocab/difference.arrow")
@click.option(
    "--encoder",
    "name",
    required=True,
    metavar="DIR|ID",
    help="A Hugging Face model, safetensors only.",
)
@click.option("--anchors", "path", type=click.Path(path_type=Path), metavar="FILE",
              help="[default: DIR/vocab/anchors.arrow]")  # fmt: skip
@click.option(
    "--embedding",
    type=click.Choice(["pooler", "mean", "input"]),
    default="pooler",
    show_default=True,
)
@click.option(
    "--combine", type=click.Choice(["max", "mean", "min"]), default="max", show_default=True
)
def command(
    folder: Path,
    names: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    name: str,
    path: Path | None,
    embedding: Any,
    combine: Any,
) -> None:
    """Score each word type by its cosine to the nearest of anchor words, a lexicon (Wilf et al. 2023).

    A word is embedded alone: pooler is what the released code takes, from bert-base-uncased, and nearly constant;
    mean is the mean of the last layer over the word's pieces, input that of the input embeddings. Scores are raw
    cosines in [-1, 1]; a strategy may take ranks of them, as the released code does.

    Words with [UNK], and words that the encoder cannot take, have no entry. Where the encoder's tokenizer is not the
    folder's, words are decoded and encoded anew; the released code's lower-casing is then the encoder's.
    """
    from mslm_data.cli.private import warn_of_readers
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.artefacts import find_artefact
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.lexicon.scores.encoding import tokenizer_of
    from mslm_data.lexicon.scores.likeness import Likeness, by_likeness
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.store import read_lexicon, write_lexicon
    from mslm_data.lexicon.word_types import count_words
    from mslm_data.loading import load

    shards = load(folder)
    splits = chosen(shards, names)
    tokenizer = shards.manifest.tokenizer["sha256"]
    given = str(path.absolute()) if path else "anchors.arrow"
    path = find_artefact(folder, given, tokenizer=tokenizer)
    anchors = read_lexicon(path)
    out = out or folder / "vocab" / "difference.arrow"

    likeness = Likeness(
        encoder=load_encoder(name),
        tokenizer=tokenizer_of(folder, shards.manifest),
        embedding=embedding,
        combine=combine,
    )
    words = count_words(chain.from_iterable(split.chunks() for split in splits.values()))
    with counting("scores", "words") as progress:
        done = 0

        def advance(number: int) -> None:
            nonlocal done
            done += number
            progress(done, len(words))

        advance(0)
        numbers, scores = likeness.score(words.tokens, anchors.tokens, advance)
    made = {
        "of": "anchors", "splits": list(splits), "encoder": likeness.encoder.about, "embedding": embedding,
        "combine": combine, "anchors": {"entries": len(anchors), "made": anchors.about.get("made")},
    }  # fmt: skip
    if shards.manifest.protected:
        warn_of_readers([out.parent])
    write_lexicon(out, by_likeness(words.tokens, numbers, scores, about(shards.manifest, **made)))
    spread = {"lowest": float(scores.min()), "highest": float(scores.max())} if len(scores) else {}
    counts = {"anchors": len(anchors), "words": len(words), "entries": len(numbers)}
    say(as_json, out, {**counts, "left_out": len(words) - len(numbers), **spread})
