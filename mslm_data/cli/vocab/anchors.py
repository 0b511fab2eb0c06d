"""`mslm-data vocab anchors`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mslm_data.cli.command import make_command, option
from mslm_data.cli.vocab.options import (
    FolderOptions,
    NameOrPath,
    StopWords,
    WrittenOutput,
    convert,
    output,
    save_lexicon,
    values_of,
    with_fields,
)
from mslm_data.lexicon.anchors.choice import AnchorOptions
from mslm_data.results import Table

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.data.examples import Examples
    from mslm_data.lexicon.anchors.general_text import Frequencies
    from mslm_data.lexicon.word_types import WordTypes


class Anchors(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab anchors` besides those of `AnchorOptions`."""

    general: Annotated[
        str,
        option(
            "General text to compare with: a built folder with all of its splits, a table "
            "word<TAB>count, or the package wordfreq.",
            metavar="DIR|FILE|wordfreq",
            type=NameOrPath(),
        ),
    ]
    split: Annotated[str, option("Name of the split to count.", metavar="NAME")] = "train"
    stop_words: StopWords = None
    out: Annotated[Path | None, output("DIR/vocab/anchors.arrow", "file for the lexicon")] = None
    show_text: Annotated[bool, option("Print the words even if they are from patients' notes.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class AnchorLexicon(WrittenOutput):
    """A lexicon of anchors. Its words are left out if they are patients' and not asked for."""

    def tables(self) -> Iterator[str | Table]:
        """Yield a row for each anchor, and the path."""
        anchors = self.counts["anchors"]
        head = ["", *list(anchors[0])[1:]]
        yield Table([tuple(anchor.values()) for anchor in anchors], head=head)
        if "word" not in head:
            yield "words are patients' text; pass --show-text to see them here"
        yield str(self.out)


@make_command("anchors", with_fields(Anchors, AnchorOptions))
def command(options: Anchors) -> AnchorLexicon:
    r"""Find the words that distinguish a built folder from general text, by TF-ICF.

    Writes a lexicon of anchors for Difference-Masking; `vocab scores anchors` compares all other
    words with these. A word's score is the ratio of its frequencies here and in general text. Words
    are compared in lower case, and consist of letters only.

    \b
    Example:
        mslm-data vocab anchors shards/bc2gm --general wordfreq
        mslm-data vocab anchors shards/notes --general count_1w.txt \
            --count 50 --stop-words english
    """
    from mslm_data.api.loading import load
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.anchors.tficf import find_anchors
    from mslm_data.lexicon.text_files import read_stop_words

    shards = load(options.folder)
    manifest = shards.manifest
    listed = read_stop_words(options.stop_words or "none")
    limits = values_of(options, AnchorOptions) | {"stop_words": listed}

    general = options.general
    if Path(general).is_dir() and Path(general).samefile(options.folder):
        raise VocabularyError(
            f"--general {general}: expected text to compare the folder with, got the folder "
            "itself; pass other text, or 'wordfreq'"
        )
    words = _words(shards, [options.split])
    frequencies = _frequencies(general)
    made = {
        "command": "vocab anchors",
        "split": options.split,
        "general": dict(frequencies.about),
        **limits,
        "stop_words": len(listed),  # their number, as the words may be private
    }
    lexicon, anchors = find_anchors(
        words,
        open_tokenizer(shards.tokenizer),
        frequencies,
        convert(AnchorOptions, limits, where="vocab anchors"),
        about={
            "tokenizer": manifest.tokenizer.sha256,
            "size": manifest.token_ids.size,
            "protected": manifest.protected,
            "made": made,
        },
    )

    out = options.out or options.folder / "vocab" / "anchors.arrow"
    save_lexicon(out, lexicon, protected=manifest.protected)

    visible = options.show_text or not manifest.protected
    names = ("word", "count", "general", "score")[0 if visible else 1 :]
    shown = [
        {"rank": rank, **{name: getattr(anchor, name) for name in names}}
        for rank, anchor in enumerate(anchors, start=1)
    ]
    return AnchorLexicon(out=out, counts={**made, **lexicon.about["counts"], "anchors": shown})


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
