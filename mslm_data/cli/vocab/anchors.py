"""`mslm-data vocab anchors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.output import print_json, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import tokenizers

    from mslm_data.data.examples import Examples
    from mslm_data.lexicon.anchors.general_text import Frequencies
    from mslm_data.lexicon.word_types import WordTypes
    from mslm_data.loading import Shards


@click.command("anchors", short_help="Find words that set a folder apart.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--general",
    required=True,
    metavar="DIR|FILE|wordfreq",
    help="Built shards, a table word<TAB>count, or wordfreq.",
)
@click.option(
    "--split",
    default="train",
    show_default=True,
    help="Of DIR; of other shards all splits are general.",
)
@click.option(
    "--count", type=click.IntRange(1), default=20, show_default=True, help="How many anchors."
)
@click.option(
    "--min-count",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Occurrences at least.",
)
@click.option(
    "--smoothing", type=float, default=1.0, show_default=True, help="Added to each general count."
)
@click.option("--stop-words", metavar="FILE|english|none", default="none", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="[default: DIR/vocab/anchors.arrow]",
)
@click.option(
    "--show-text",
    is_flag=True,
    help="Show words of patients' text, which are not shown without this.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    folder: Path,
    general: str,
    split: str,
    stop_words: str,
    out: Path | None,
    show_text: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the words that set a built folder apart from general text, by TF-ICF, for Difference-Masking.

    The score is how much more often a word occurs here than there. Words are compared in lower case, as `Gene` and
    `gene` are one, and only letters are words.

    \b
    mslm-data vocab anchors shards/bc2gm --general wordfreq
    mslm-data vocab anchors shards/notes --general count_1w.txt --count 50 --stop-words english
    """  # noqa: D301 - click wants the character
    from mslm_data.cli.private import warn_of_readers
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.anchors.tficf import AnchorOptions, find_anchors
    from mslm_data.lexicon.ngrams.ranking import stop_words_in
    from mslm_data.lexicon.store import write_lexicon
    from mslm_data.loading import load

    shards = load(folder)
    listed = frozenset() if stop_words == "none" else stop_words_in(stop_words)
    try:
        chosen = AnchorOptions(stop_words=listed, **options)
    except ValueError as error:
        raise VocabularyError(str(error)) from None
    manifest = shards.manifest
    words = _words(shards, [split])
    frequencies = _frequencies(general)
    made = {
        "command": "vocab anchors",
        "split": split,
        "general": dict(frequencies.about),
        **options,
        "stop_words": len(listed),  # how many: which may be private
    }
    about = {
        "tokenizer": manifest.tokenizer["sha256"],
        "size": manifest.token_ids.size,
        "protected": manifest.protected,
        "made": made,
    }
    lexicon, anchors = find_anchors(words, _core(folder), frequencies, chosen, about=about)
    out = out or folder / "vocab" / "anchors.arrow"
    if manifest.protected:
        warn_of_readers([out.parent])
    write_lexicon(out, lexicon)
    visible = show_text or not manifest.protected
    names = ("word", "count", "general", "score")[0 if visible else 1 :]
    shown = [
        {"rank": rank, **{name: getattr(anchor, name) for name in names}}
        for rank, anchor in enumerate(anchors, start=1)
    ]
    if as_json:
        print_json({"out": str(out), **made, **lexicon.about["counts"], "anchors": shown})
        return
    click.echo(table(("", *names), [tuple(row.values()) for row in shown]))
    if not visible:
        click.echo("words are patients' text; pass --show-text to see them here")
    click.echo(out)


def _frequencies(general: str) -> Frequencies:
    """Find the general text that `--general` names."""
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.anchors import general_text as frequencies
    from mslm_data.loading import load
    from mslm_data.shard.manifest import NAME

    path = Path(general)
    if path.is_dir():
        shards = load(path)
        return frequencies.of_words(
            _words(shards, shards.splits), _core(path), manifest=path / NAME
        )
    if path.is_file():
        return frequencies.of_file(path)
    if general == "wordfreq":
        return frequencies.of_wordfreq()
    raise VocabularyError(
        f"--general {general}: expected a built folder, a table of words and counts, or 'wordfreq'"
    )


def _words(shards: Shards, splits: Sequence[str]) -> WordTypes:
    """Count the words of splits."""
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.word_types import count_words

    chosen = [shards[name] for name in splits]
    total = sum(map(len, chosen))

    def told(progress: Callable[[int, int], None]) -> Iterator[Examples]:
        done = 0
        for split in chosen:
            for chunk in split.chunks():
                done += len(chunk)
                progress(done, total)
                yield chunk

    with counting("words", "rows") as progress:
        return count_words(told(progress))


def _core(folder: Path) -> tokenizers.Tokenizer:
    import tokenizers

    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
