"""`mslm-data vocab pmi`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import folder_argument, json_option, splits_option
from mslm_data.cli.output import defused, echo, print_json, table
from mslm_data.cli.vocab.options import out_option, save_lexicon, stop_words_option
from mslm_data.cli.written import TextFile

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.lexicon.ngrams.ranking import NgramChoice


@click.command("pmi", short_help="Rank n-grams by PMI.")
@folder_argument
@click.option(
    "--recipe",
    default="paper",
    show_default=True,
    help="Recipe with default options: paper, levine or released.",
)
@splits_option("to count", default="train")
@click.option("--all-splits", is_flag=True, help="Count all splits, including test data.")
@click.option(
    "--measure",
    help="Measure for the ranking: levine, plain or squared.  [default: the recipe's]",
)
@click.option(
    "--lengths",
    metavar="N-M",
    help="Lengths of n-grams in words, within 2-5.  [default: the recipe's]",
)
@click.option(
    "--min-count",
    metavar="K[,K…]",
    help="Minimum number of occurrences, for all n-grams or per length.  [default: the recipe's]",
)
@click.option(
    "--size",
    type=int,
    help="Maximum number of n-grams, best ones first.  [default: the recipe's]",
)
@click.option(
    "--coverage",
    type=float,
    help="Share of the tokens that the n-grams must cover.  [default: the recipe's]",
)
@click.option(
    "--shares",
    metavar="P,P…",
    help="Percentage of n-grams of each length, shortest first.  [default: the recipe's]",
)
@click.option(
    "--order",
    help="Order of the lexicon, in which strategies use it: short n-grams first (length), high "
    "scores first (score) or long n-grams first (longest).  [default: the recipe's]",
)
@click.option(
    "--drop-short-words/--keep-short-words",
    default=None,
    help="Whether to leave out n-grams with a word of one character.",
)
@stop_words_option
@click.option(
    "--across-sentences/--within-sentences",
    default=None,
    help="Whether to count n-grams across the ends of rows.",
)
@out_option("DIR/vocab/pmi.arrow", "file for the lexicon")
@click.option(
    "--list",
    "list_file",
    type=TextFile(),
    metavar="FILE",
    help="Second output file, with n-grams and scores as text. In .csv and .tsv files, n-grams "
    "that a spreadsheet would read as formulas are prefixed with '.",
)
@json_option
def command(
    folder: Path,
    recipe: str,
    splits: tuple[str, ...],
    all_splits: bool,
    out: Path | None,
    list_file: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Rank the word n-grams of a built folder by pointwise mutual information.

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
        mslm-data vocab pmi shards/bc2gm --recipe levine --measure squared \\
            --coverage 0.4 --list ngrams.txt
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.errors import CallError
    from mslm_data.io.private import warn_readable
    from mslm_data.lexicon.ngrams.ranking import as_options, ngram_strings, rank_ngrams

    out = out or folder / "vocab" / "pmi.arrow"
    if list_file and list_file.resolve() == out.resolve():
        raise click.UsageError(f"--list: expected another file than the lexicon's, got {list_file}")

    shards = load(folder)
    choice = _choice(recipe, options)
    if all_splits and splits:
        raise CallError("split: expected --split or --all-splits, got both")
    names = _splits(shards, splits, everything=all_splits or recipe == "released")

    tokenizer = open_tokenizer(shards.tokenizer)
    manifest = shards.manifest
    made = {"command": "vocab pmi", "recipe": recipe, "splits": names, **as_options(choice)}
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
    if list_file:
        if manifest.protected:
            warn_readable([list_file.parent])
        _write_list(list_file, ngram_strings(lexicon, tokenizer), lexicon.scores.tolist())

    report = {"out": str(out), **made, **lexicon.about["counts"]}
    if as_json:
        print_json(report)
    else:
        _print(report, len(lexicon))

    if choice.coverage and report["covered_tokens"] < choice.coverage * report["tokens"]:
        echo(
            "warning: all n-grams together cover less than --coverage; a lower --min-count gives "
            "more",
            err=True,
        )


def _splits(shards: Shards, given: Sequence[str], *, everything: bool) -> list[str]:
    """Return the splits to count: the named ones, otherwise all or the training split."""
    if given:
        return list(dict.fromkeys(given))
    return list(shards.splits) if everything else ["train"]


def _choice(recipe: str, options: Mapping[str, Any]) -> NgramChoice:
    """Return the options of a recipe with those of the command line."""
    from msgspec.structs import asdict

    from mslm_data.errors import CallError, PipelineError
    from mslm_data.lexicon.ngrams.ranking import RECIPES, NgramChoice
    from mslm_data.lexicon.text_files import read_stop_words
    from mslm_data.registry import did_you_mean, from_options

    if recipe not in RECIPES:
        raise CallError(f"recipe: no '{recipe}'{did_you_mean(recipe, RECIPES)}")

    given = {name: value for name, value in options.items() if value is not None}
    if "lengths" in given:
        ends = _numbers("lengths", given["lengths"], "-", int)
        if len(ends) > 2:
            raise CallError(f"lengths: expected N or N-M, got '{given['lengths']}'")
        given["lengths"] = (ends[0], ends[-1])
    if "min_count" in given:
        given["min_counts"] = _numbers("min-count", given.pop("min_count"), ",", int)
    if "shares" in given:
        given["shares"] = _numbers("shares", given["shares"], ",", float)

    # A size replaces the recipe's coverage, and a coverage its size.
    if "size" in given or "coverage" in given:
        given = {"size": None, "coverage": None, **given}

    listed = given.pop("stop_words", "english" if recipe == "released" else "none")
    table = {**asdict(RECIPES[recipe]), **given, "stop_words": read_stop_words(listed)}
    try:
        return from_options(NgramChoice, table, where="vocab pmi")
    except PipelineError as error:
        raise CallError(str(error)) from None


def _numbers(
    name: str, text: str, separator: str, kind: type[int] | type[float]
) -> tuple[Any, ...]:
    from mslm_data.errors import CallError

    try:
        return tuple(kind(part) for part in text.split(separator))
    except ValueError:
        raise CallError(
            f"{name}: expected numbers with '{separator}' between them, got '{text}'"
        ) from None


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


def _print(report: Mapping[str, Any], size: int) -> None:
    """Print the counts of a lexicon as a table."""

    def share(count: int, total: int) -> str:
        return f"{count / total:.1%}"

    rows: list[tuple[str, int, str]] = []
    for length, count in report["entries"].items():
        rows.append((f"entries of {length} words", count, share(count, size)))
    rows.append(("entries", size, ""))

    tokens = report["tokens"]
    covered = report["covered_tokens"]
    rows.append(("tokens", tokens, ""))
    rows.append(("  in an entry", covered, share(covered, tokens)))

    echo(f"{', '.join(report['splits'])}: {report['recipe']}, measure {report['measure']}")
    echo(table(("", "", ""), rows).removeprefix("\n"))
    echo(report["out"])
