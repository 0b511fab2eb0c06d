"""`mslm-data vocab pmi`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
import msgspec

from mslm_data.cli.command import make_command, option
from mslm_data.cli.output import defused, echo
from mslm_data.cli.output_files import OutputFile
from mslm_data.cli.vocab.options import (
    FolderOptions,
    StopWords,
    WrittenOutput,
    convert,
    output,
    save_lexicon,
    splits,
    values_of,
    with_fields,
)
from mslm_data.errors import CallError
from mslm_data.lexicon.ngrams.choice import RECIPES, NgramChoice, as_options
from mslm_data.results import Table

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards


class Pmi(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab pmi` besides those of `NgramChoice`."""

    recipe: Annotated[
        Literal["paper", "levine", "released"], option("Recipe with default options.")
    ] = "paper"
    split: Annotated[tuple[str, ...], splits("to count", default="train")] = ()
    all_splits: Annotated[bool, option("Count all splits, including test data.")] = False
    stop_words: StopWords = None
    out: Annotated[Path | None, output("DIR/vocab/pmi.arrow", "file for the lexicon")] = None
    list_file: Annotated[
        Path | None,
        option(
            "Second output file, with n-grams and scores as text. In .csv and .tsv files, n-grams "
            "that a spreadsheet would read as formulas are prefixed with '.",
            metavar="FILE",
            type=OutputFile(),
            flags="--list",
        ),
    ] = None

    def choice(self) -> NgramChoice:
        """Return the options of the recipe with those of the command line.

        Raises:
            CallError: They contradict each other.
            VocabularyError: The file of stop words cannot be read.
        """
        from mslm_data.lexicon.text_files import read_stop_words

        given = values_of(self, NgramChoice)
        # A size replaces the recipe's coverage, and a coverage its size.
        if "size" in given or "coverage" in given:
            given = {"size": None, "coverage": None, **given}

        listed = self.stop_words or ("english" if self.recipe == "released" else "none")
        made = msgspec.structs.asdict(RECIPES[self.recipe]) | given
        made["stop_words"] = read_stop_words(listed)
        return convert(NgramChoice, made, where="vocab pmi")

    def splits(self, shards: Shards) -> list[str]:
        """Return the splits to count: the named ones, otherwise all or the training split.

        Raises:
            CallError: Both some and all are asked for.
        """
        if self.all_splits and self.split:
            raise CallError("split: expected --split or --all-splits, got both")
        if self.split:
            return list(dict.fromkeys(self.split))
        is_whole = self.all_splits or self.recipe == "released"
        return list(shards.splits) if is_whole else ["train"]


@dataclass(frozen=True, kw_only=True)
class Ranked(WrittenOutput):
    """A lexicon of n-grams, with the options that made it."""

    def tables(self) -> Iterator[str | Table]:
        """Yield the options, a row for each count with its share, and the path."""
        counts = self.counts
        size = sum(counts["entries"].values())
        rows = [
            (f"entries of {length} words", count, f"{count / size:.1%}")
            for length, count in counts["entries"].items()
        ]
        covered = f"{counts['covered_tokens'] / counts['tokens']:.1%}"
        rows += [
            ("entries", size, ""),
            ("tokens", counts["tokens"], ""),
            ("  in an entry", counts["covered_tokens"], covered),
        ]

        splits = ", ".join(counts["splits"])
        yield f"{splits}: {counts['recipe']}, measure {counts['measure']}"
        yield Table(rows)
        yield str(self.out)


@make_command("pmi", with_fields(Pmi, NgramChoice, default="the recipe's"))
def command(options: Pmi) -> Ranked:
    r"""Rank the word n-grams of a built folder by pointwise mutual information.

    Writes a lexicon, whose n-grams are the units of PMI masking.

    \b
    Recipes, with options that the command line overrides:
      paper     2 to 4 words, at least 5 times within sentences of the training
                split, the measure of Levine et al. 2021 (Abaho et al. 2024)
      levine    2 to 5 words, more than 10 times, to cover half of the tokens,
                half of them bigrams (Levine et al. 2021)
      released  as in the code of Abaho et al. 2024: at least 2 times, all
                splits, across sentences, NLTK's measure, no words of one
                character, no English stop words

    `released` reproduces the lists released with that paper if the folder's vocabulary is cased. An
    uncased one merges words that differ in case, so the list differs.

    N-grams with [UNK] are left out, as are n-grams across the cut of a sentence that was too long
    for one row.

    \b
    Example:
        mslm-data vocab pmi shards/bc2gm
        mslm-data vocab pmi shards/bc2gm --recipe levine --measure squared \
            --coverage 0.4 --list ngrams.txt
    """
    from mslm_data.api.loading import load
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.io.private import warn_readable
    from mslm_data.lexicon.ngrams.ranking import ngram_strings, rank_ngrams

    out = options.out or options.folder / "vocab" / "pmi.arrow"
    listed = options.list_file
    if listed and listed.resolve() == out.resolve():
        raise click.UsageError(f"--list: expected another file than the lexicon's, got {listed}")

    shards = load(options.folder)
    choice = options.choice()
    names = options.splits(shards)

    tokenizer = open_tokenizer(shards.tokenizer)
    manifest = shards.manifest
    made = {
        "command": "vocab pmi",
        "recipe": options.recipe,
        "splits": names,
        **as_options(choice),
    }
    lexicon = rank_ngrams(
        (chunk for name in names for chunk in shards[name].chunks()),
        tokenizer,
        manifest.token_ids,
        choice,
        about={
            "tokenizer": manifest.tokenizer.sha256,
            "protected": manifest.protected,
            "made": made,
        },
    )

    save_lexicon(out, lexicon, protected=manifest.protected)
    if listed:
        if manifest.protected:
            warn_readable([listed.parent])
        _write_list(listed, ngram_strings(lexicon, tokenizer), lexicon.scores.tolist())

    counts = lexicon.about["counts"]
    if choice.coverage and counts["covered_tokens"] < choice.coverage * counts["tokens"]:
        echo(
            "warning: all n-grams together cover less than --coverage; a lower --min-count gives "
            "more",
            err=True,
        )
    return Ranked(out=out, counts=made | counts)


def _write_list(path: Path, ngrams: Iterable[str], scores: Iterable[float]) -> None:
    """Write n-grams as text: an n-gram, a tab and a score per line."""
    from mslm_data.io.files import make_folder, write_whole

    safe = defused if path.suffix in (".csv", ".tsv") else str
    lines = (
        f"{safe(ngram)}\t{score:.9g}\n".encode()
        for ngram, score in zip(ngrams, scores, strict=True)
    )

    make_folder(path.parent)
    write_whole(path, lines)
