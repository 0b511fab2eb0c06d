"""`mslm-data vocab anchors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import folder_argument, json_option, split_option
from mslm_data.cli.output import echo, print_json, table
from mslm_data.cli.vocab.options import given, out_option, save_lexicon, stop_words_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mslm_data.api.loading import Shards
    from mslm_data.data.examples import Examples
    from mslm_data.lexicon.anchors.general_text import Frequencies
    from mslm_data.lexicon.word_types import WordTypes


@click.command("anchors", short_help="Find words typical of a folder.")
@folder_argument
@click.option(
    "--general",
    required=True,
    callback=given,
    metavar="DIR|FILE|wordfreq",
    help="General text to compare with: a built folder with all of its splits, a table "
    "word<TAB>count, or the package wordfreq.",
)
@split_option("to count")
@click.option(
    "--count",
    type=int,
    default=20,
    show_default=True,
    help="Maximum number of anchors.",
)
@click.option(
    "--min-count",
    type=int,
    default=20,
    show_default=True,
    help="Minimum number of occurrences of an anchor. With 1, words that occur once come first.",
)
@click.option(
    "--smoothing",
    type=float,
    default=1.0,
    show_default=True,
    help="Number added to each count of the general text, which may lack a word.",
)
@stop_words_option
@out_option("DIR/vocab/anchors.arrow", "file for the lexicon")
@click.option(
    "--show-text",
    is_flag=True,
    help="Print the words even if they are from patients' notes.",
)
@json_option
def command(
    folder: Path,
    general: str,
    split: str,
    stop_words: str | None,
    out: Path | None,
    show_text: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the words that distinguish a built folder from general text, by TF-ICF.

    Writes a lexicon of anchors for Difference-Masking; `vocab scores anchors` compares all other
    words with these. A word's score is the ratio of its frequencies here and in general text. Words
    are compared in lower case, and consist of letters only.

    \b
    Example:
        mslm-data vocab anchors shards/bc2gm --general wordfreq
        mslm-data vocab anchors shards/notes --general count_1w.txt \\
            --count 50 --stop-words english
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.errors import CallError, PipelineError, VocabularyError
    from mslm_data.lexicon.anchors.tficf import AnchorOptions, find_anchors
    from mslm_data.lexicon.text_files import read_stop_words
    from mslm_data.registry import from_options

    shards = load(folder)
    manifest = shards.manifest
    listed = read_stop_words(stop_words or "none")
    try:
        chosen = from_options(
            AnchorOptions, {"stop_words": listed, **options}, where="vocab anchors"
        )
    except PipelineError as error:
        raise CallError(str(error)) from None

    if Path(general).is_dir() and Path(general).samefile(folder):
        raise VocabularyError(
            f"--general {general}: expected text to compare the folder with, got the folder "
            "itself; pass other text, or 'wordfreq'"
        )
    words = _words(shards, [split])
    frequencies = _frequencies(general)
    made = {
        "command": "vocab anchors",
        "split": split,
        "general": dict(frequencies.about),
        **options,
        "stop_words": len(listed),  # their number, as the words may be private
    }
    about = {
        "tokenizer": manifest.tokenizer.sha256,
        "size": manifest.token_ids.size,
        "protected": manifest.protected,
        "made": made,
    }
    lexicon, anchors = find_anchors(
        words, open_tokenizer(shards.tokenizer), frequencies, chosen, about=about
    )

    out = out or folder / "vocab" / "anchors.arrow"
    save_lexicon(out, lexicon, protected=manifest.protected)

    visible = show_text or not manifest.protected
    names = ("word", "count", "general", "score")[0 if visible else 1 :]
    shown = [
        {"rank": rank, **{name: getattr(anchor, name) for name in names}}
        for rank, anchor in enumerate(anchors, start=1)
    ]
    if as_json:
        print_json({"out": str(out), **made, **lexicon.about["counts"], "anchors": shown})
        return

    echo(table(("", *names), [tuple(row.values()) for row in shown]))
    if not visible:
        echo("words are patients' text; pass --show-text to see them here")
    echo(out)


def _frequencies(general: str) -> Frequencies:
    """Return the word frequencies of the general text."""
    from mslm_data.api.loading import load
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.anchors import general_text
    from mslm_data.shard.manifest import NAME

    path = Path(general)
    if path.is_dir():
        shards = load(path)
        words = _words(shards, shards.splits)
        return general_text.from_words(
            words, open_tokenizer(shards.tokenizer), manifest=path / NAME
        )

    if path.is_file():
        return general_text.from_file(path)

    if general == "wordfreq":
        return general_text.from_wordfreq()

    raise VocabularyError(
        f"--general {general}: expected a built folder, a table of words and counts, or "
        "'wordfreq', "
        "found nothing of this name"
    )


def _words(shards: Shards, splits: Sequence[str]) -> WordTypes:
    """Count the words of splits, with progress on stderr."""
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.word_types import count_words

    chosen = [shards[name] for name in splits]
    total = sum(map(len, chosen))

    def counted(progress: Callable[[int, int], None]) -> Iterator[Examples]:
        done = 0
        for split in chosen:
            for chunk in split.chunks():
                done += len(chunk)
                progress(done, total)
                yield chunk

    with counting("words", "rows") as progress:
        return count_words(counted(progress))
