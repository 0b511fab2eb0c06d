"""`mslm-data vocab pmi`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.output import defused, print_json, table

if TYPE_CHECKING:
    from mslm_data.lexicon.ngrams.ranking import NgramChoice


@click.command("pmi", short_help="Rank n-grams by PMI.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--recipe",
    default="paper",
    show_default=True,
    help="paper, levine or released: defaults of the others.",
)
@click.option(
    "--split", "splits", multiple=True, help="Where to count; may repeat.  [default: train]"
)
@click.option("--all-splits", is_flag=True, help="Count in all splits, test data too.")
@click.option("--measure", help="levine, plain or squared.")
@click.option("--lengths", metavar="N-M", help="Words of n-grams, within 2-5.")
@click.option(
    "--min-count", metavar="K[,K…]", help="Occurrences at least, of all lengths or of each."
)
@click.option("--size", type=int, help="Entries at most.")
@click.option(
    "--coverage",
    type=float,
    help="In place of a size: the share of tokens that are to lie in an entry.",
)
@click.option("--shares", metavar="P,P…", help="Percent of the size for each length.")
@click.option("--order", help="length, score or longest: which entries are used first.")
@click.option(
    "--drop-short-words/--keep-short-words",
    default=None,
    help="N-grams with a word of one character.",
)
@click.option(
    "--stop-words", metavar="FILE|english|none", help="Drop n-grams with one of these words."
)
@click.option(
    "--across-sentences/--within-sentences",
    default=None,
    help="Whether n-grams cross the ends of rows.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="[default: DIR/vocab/pmi.arrow]"
)
@click.option("--list", "list_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write n-grams as text too; in .csv or .tsv those like a formula get a ' before them.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
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
    """Rank the word n-grams of a built folder by pointwise mutual information, for PMI masking.

    \b
    paper     2 to 4 words, 5 times within sentences of the training split, the
              measure of Levine et al. 2021 (Abaho et al. 2024)
    levine    2 to 5 words, more than 10 times, as many as cover half of the
              tokens, half of them bigrams (Levine et al. 2021)
    released  as the code of Abaho et al. does: 2 times, all splits, across
              sentences, NLTK's measure, no short words, no stop words

    N-grams with a word that holds [UNK] are left out, as are those across the cut of a sentence too long for one row.

    \b
    mslm-data vocab pmi shards/bc2gm
    mslm-data vocab pmi shards/bc2gm --recipe levine --measure squared --coverage 0.4 --list ngrams.txt
    """  # noqa: D301 - click wants the character
    import tokenizers

    from mslm_data.cli.private import warn_of_readers
    from mslm_data.errors import VocabularyError
    from mslm_data.io.files import make_folder, write_whole
    from mslm_data.lexicon.ngrams.ranking import ngram_strings, options_of, rank_ngrams
    from mslm_data.lexicon.store import write_lexicon
    from mslm_data.loading import load

    shards = load(folder)
    try:
        choice = _choice(recipe, options)
    except ValueError as error:
        raise VocabularyError(str(error)) from None
    if all_splits and splits:
        raise VocabularyError("split: expected --split or --all-splits, got both")
    everything = all_splits or (recipe == "released" and not splits)
    names = list(shards.splits) if everything else list(dict.fromkeys(splits)) or ["train"]
    core = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    manifest = shards.manifest
    lexicon = rank_ngrams(
        (chunk for split in [shards[name] for name in names] for chunk in split.chunks()),
        core,
        manifest.token_ids,
        choice,
        about={
            "tokenizer": manifest.tokenizer["sha256"],
            "protected": manifest.protected,
            "made": {
                "command": "vocab pmi",
                "recipe": recipe,
                "splits": names,
                **options_of(choice),
            },
        },
    )
    out = out or folder / "vocab" / "pmi.arrow"
    if manifest.protected:
        warn_of_readers([out.parent])
    write_lexicon(out, lexicon)
    if list_file:
        make_folder(list_file.parent)
        safe = defused if list_file.suffix in (".csv", ".tsv") else str
        texts = zip(map(safe, ngram_strings(lexicon, core)), lexicon.scores.tolist(), strict=True)
        write_whole(list_file, (f"{text}\t{score:.9g}\n".encode() for text, score in texts))
    report = {"out": str(out), **lexicon.about["made"], **lexicon.about["counts"]}
    if as_json:
        print_json(report)
    else:
        _print(report, len(lexicon))
    if choice.coverage and report["covered_tokens"] < choice.coverage * report["tokens"]:
        click.echo(
            "warning: all n-grams together cover less than --coverage; a lower --min-count gives more",
            err=True,
        )


def _choice(recipe: str, options: Mapping[str, Any]) -> NgramChoice:
    """Return a recipe with the options that were given."""
    from dataclasses import replace

    from mslm_data.lexicon.ngrams.ranking import RECIPES, stop_words_in
    from mslm_data.registry import did_you_mean

    if recipe not in RECIPES:
        raise ValueError(f"recipe: no '{recipe}'{did_you_mean(recipe, RECIPES)}")
    given = {name: value for name, value in options.items() if value is not None}
    if "lengths" in given:
        ends = _numbers("lengths", given["lengths"], "-", int)
        given["lengths"] = (ends[0], ends[-1])
    if "min_count" in given:
        given["min_counts"] = _numbers("min-count", given.pop("min_count"), ",", int)
    if "shares" in given:
        given["shares"] = _numbers("shares", given["shares"], ",", float)
    if "size" in given or "coverage" in given:
        given = {"size": None, "coverage": None, **given}
    stop_words = given.pop("stop_words", "english" if recipe == "released" else "none")
    return replace(
        RECIPES[recipe],
        stop_words=frozenset() if stop_words == "none" else stop_words_in(stop_words),
        **given,
    )


def _numbers(
    name: str, text: str, separator: str, kind: type[int] | type[float]
) -> tuple[Any, ...]:
    try:
        return tuple(kind(part) for part in text.split(separator))
    except ValueError:
        raise ValueError(
            f"{name}: expected numbers with '{separator}' between them, got '{text}'"
        ) from None


def _print(report: Mapping[str, Any], size: int) -> None:
    entries = [
        (f"entries of {n} words", count, f"{count / size:.1%}")
        for n, count in report["entries"].items()
    ]
    counts = [
        ("that are a mention", "mentions"),
        ("that lie in a mention", "within_mentions"),
        ("of words of mentions only", "of_mention_words"),
    ]
    rows = [*entries, ("entries", size, "")]
    rows += [(f"  {name}", report[key], f"{report[key] / size:.1%}") for name, key in counts]
    rows += [("tokens", report["tokens"], "")]
    rows += [
        (
            "  in an entry",
            report["covered_tokens"],
            f"{report['covered_tokens'] / report['tokens']:.1%}",
        )
    ]
    click.echo(f"{', '.join(report['splits'])}: {report['recipe']}, measure {report['measure']}")
    click.echo(table(("", "", ""), rows).removeprefix("\n"))
    click.echo(report["out"])
