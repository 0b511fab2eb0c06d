"""`mslm-data mask-stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mslm_data.cli.options import (
    folders_or_urls_argument,
    json_option,
    show_text_option,
    split_option,
    strategy_options,
)
from mslm_data.cli.output import echo, print_json
from mslm_data.cli.written import TextFile

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.data.examples import Examples
    from mslm_data.mask.strategy import Strategy
    from mslm_data.shard.row_protocol import Rows
    from mslm_data.stats import BatchStats, MaskStats, PartStats, Scheme, SweepPoint

WORDS_OF_REPORT = 20
"""How many of the words masked most a report shows."""
ROWS_OF_REPORT = 8
"""How many sentences a report shows where no option says it."""


@click.command("mask-stats", short_help="Count what a strategy masks.")
@folders_or_urls_argument
@split_option("Count in", "The weights of a training run are those of its training split.")
@strategy_options
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Count the masks of this many epochs together, from epoch 0.",
)
@click.option(
    "--weights",
    "scheme",
    default="paper",
    show_default=True,
    metavar="SCHEME",
    help="Mark this scheme's weights, and use them in --sweep: paper, released, inverse-frequency, "
    "effective-number[=BETA] or fixed=W_ELM,W_BLM.",
)
@click.option(
    "--sweep",
    "swept",
    is_flag=True,
    help="Also count at every pair of the paper's rates of ELM and BLM.",
)
@click.option(
    "--top-words",
    "top",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Show the N words that are masked most often.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    metavar="N",
    help="Count the batches of an epoch too: of N rows, or with --row-tokens of N packed rows.",
)
@click.option(
    "--batch-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Count batches of as many rows as fit N tokens, padding counted.",
)
@click.option(
    "--row-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Count batches whose rows are packed side by side into rows of N tokens.",
)
@click.option("--flat", is_flag=True, help="Count batches that are one flat row each.")
@click.option(
    "--share",
    "shares",
    type=float,
    multiple=True,
    metavar="WEIGHT",
    help="Mix several folders in these shares: once for each DIR, in their order. Without it they "
    "weigh by their sizes.",
)
@click.option(
    "--by",
    type=click.Choice(["tokens", "rows"]),
    help="Count the sizes and shares of a mix in these.  [default: tokens]",
)
@click.option(
    "--temperature",
    type=float,
    metavar="T",
    help="Weigh the folders of a mix by their sizes to the power of 1 / T.",
)
@click.option(
    "--epoch-size",
    metavar="N|WORD",
    help="Give an epoch of a mix this many tokens (rows, with --by rows), or as much as total, "
    "longest or shortest say.  [default: total]",
)
@click.option(
    "--bucketed", is_flag=True, help="Count batches in which rows of like length stand together."
)
@click.option(
    "--report",
    "report_file",
    type=TextFile(),
    metavar="FILE.html",
    help="Write a page with plots and real sentences. Of several strategies, which only a report "
    "takes, the first is counted and all are shown.",
)
@click.option(
    "--rows",
    "shown_rows",
    type=click.IntRange(1),
    metavar="N",
    help="Show this many sentences in the report.  [default: 8]",
)
@show_text_option
@json_option
def command(
    folders: tuple[Path | str, ...],
    split: str,
    names: tuple[str, ...],
    elm: float | None,
    blm: float | None,
    sets: tuple[str, ...],
    seed: int,
    epochs: int,
    scheme: str,
    swept: bool,
    top: int,
    batch_size: int | None,
    batch_tokens: int | None,
    row_tokens: int | None,
    flat: bool,
    bucketed: bool,
    shares: tuple[float, ...],
    by: str | None,
    temperature: float | None,
    epoch_size: str | None,
    report_file: Path | None,
    shown_rows: int | None,
    show_text: bool,
    as_json: bool,
) -> None:
    """Count the tokens that a strategy masks, as training with the same seed will mask them.

    N_ELM and N_BLM are the sub-word tokens masked as terms and as other words. The loss weights of
    Abaho et al. 2024 follow from them: Eq. 2 (raw), Eq. 3 (clipped) and Eq. 5. Other schemes stand
    beside these. With the options of batches, it also says how many steps an epoch has and how much
    of them is padding.

    Several folders are counted as the mix that md.mix makes of them: an epoch of the whole, and
    what each folder has of it. --seed then also says which rows these are.

    \b
    Example:
        mslm-data mask-stats shards/ncbi --elm 0.5 --blm 0.15
        mslm-data mask-stats shards/ncbi --sweep --weights inverse-frequency
        mslm-data mask-stats shards/ncbi --batch-size 8 --row-tokens 1024
        mslm-data mask-stats shards/pubmed shards/notes --share 0.7 --share 0.3
        mslm-data mask-stats shards/ncbi --strategy joint --strategy span \\
            --report masks.html
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.mask_tables import print_tables
    from mslm_data.cli.strategy import make_strategies
    from mslm_data.stats.grid import has_both_rates

    if len(names) > 1 and report_file is None:
        raise click.UsageError(f"--strategy: expected one without --report, got {len(names)}")
    if shown_rows is not None and report_file is None:
        raise click.UsageError("--rows: expected --report, which shows them, got none")
    chosen, schemes = _schemes(scheme)
    if report_file is not None:
        _check_folder_exists(report_file)

    opened = [load(folder) for folder in folders]
    if not show_text:
        _check_may_show_text(opened, {"--top-words": top, "--report": report_file})
    rows = _rows(
        opened,
        split,
        shares,
        {"by": by, "temperature": temperature, "epoch_size": epoch_size},
        epochs=epochs,
    )

    # A mix has one tokenizer, and so lexicons of it: those of the first folder.
    shards = opened[0]
    strategies = make_strategies(shards, names, elm=elm, blm=blm, sets=sets)

    first = names[0]
    can_be_swept = has_both_rates(strategies[first])
    if swept and not can_be_swept:
        raise click.UsageError(
            f"--sweep: expected a strategy with the options elm and blm, got '{first}'"
        )

    shape = {
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "row_tokens": row_tokens,
        "flat": flat,
    }
    batches = _count_batches(rows, shape, bucketed, seed=seed, epochs=epochs)
    counted = _count(
        rows,
        shards,
        strategies,
        seed=seed,
        epochs=epochs,
        sweeps=swept or (report_file is not None and can_be_swept),
        most_words=max(top, WORDS_OF_REPORT if report_file else 0),
    )
    _warn(strategies[first], counted.stats[first])

    if report_file is not None:
        _write_page(
            report_file,
            rows,
            shards,
            counted,
            shown_rows or ROWS_OF_REPORT,
            corpus=", ".join(dict.fromkeys(one.manifest.name for one in opened)),
            split=split,
            seed=seed,
            epochs=epochs,
            strategies=strategies,
            schemes=schemes,
            batches=batches,
        )

    report = {
        "split": split,
        "strategy": first,
        "elm": _rate(strategies[first], "elm"),
        "blm": _rate(strategies[first], "blm"),
        "seed": seed,
        "epochs": epochs,
        **_found(strategies[first], counted, batches, schemes, chosen, swept=swept, top=top),
    }
    if as_json:
        print_json(report)
    else:
        print_tables(report)


class _Counted(NamedTuple):
    """Counts of what strategies hide; the first strategy is looked at more closely.

    Attributes:
        stats: Name of each strategy -> its counts.
        parts: Counts of the first for each split of a mix; empty for a single split.
        points: The first at all rates; empty where that was not asked for.
        words: The words that the first masks most; see `_masked_most`.
    """

    stats: Mapping[str, MaskStats]
    parts: Sequence[PartStats]
    points: Sequence[SweepPoint]
    words: Sequence[tuple[str, int, int]]


def _count(
    rows: Rows,
    shards: Shards,
    strategies: Mapping[str, Strategy],
    *,
    seed: int,
    epochs: int,
    sweeps: bool,
    most_words: int,
) -> _Counted:
    """Count what strategies hide.

    Args:
        rows: Of which rows.
        shards: The folder whose tokenizer these have.
        strategies: Name -> strategy.
        seed: Seed of the masks.
        epochs: How many epochs are counted.
        sweeps: Whether the first strategy is counted at all rates too.
        most_words: How many of the words masked most are named.
    """
    from mslm_data.stats import count_splits, mask_stats, sweep

    labels = rows.labels
    chunks = _chunks(rows, seed)
    first = next(iter(strategies.values()))
    return _Counted(
        stats={
            name: mask_stats(chunks, strategy, labels=labels, seed=seed, epochs=epochs)
            for name, strategy in strategies.items()
        },
        parts=count_splits(rows, first, seed=seed) if len(rows.splits) > 1 else (),
        points=sweep(chunks, first, seed=seed, epochs=epochs) if sweeps else (),
        words=_masked_most(shards, chunks, first, most_words, seed=seed, epochs=epochs),
    )


def _found(
    first: Strategy,
    counted: _Counted,
    batches: BatchStats | None,
    schemes: Sequence[Scheme],
    chosen: Scheme,
    *,
    swept: bool,
    top: int,
) -> dict[str, Any]:
    """Return what `--json` prints of the counts of the first strategy.

    Args:
        first: The strategy.
        counted: What it hides.
        batches: Counts of the batches; None where they are not counted.
        schemes: Ways to weigh, all of which are shown.
        chosen: The one of them that is marked.
        swept: Whether its counts at all rates were asked for.
        top: How many of the words masked most were asked for.
    """
    from mslm_data.cli.mask_tables import as_dict, batches_as_dict, mix_as_dicts, point_as_dict
    from mslm_data.stats import effective_rates

    stats = next(iter(counted.stats.values()))
    found = {
        "rates": [rate._asdict() for rate in effective_rates(first, stats)],
        **as_dict(stats, schemes, chosen),
    }
    if batches is not None:
        found["batches"] = batches_as_dict(batches)
    if counted.parts:
        found["mix"] = mix_as_dicts(counted.parts, batches)
    if swept:
        found["sweep"] = [point_as_dict(point, chosen) for point in counted.points]
    if top:
        found["top_words"] = [
            {"word": word, "masked": masked, "occurrences": there}
            for word, masked, there in counted.words[:top]
        ]
    return found


def _rows(
    opened: Sequence[Shards],
    split: str,
    shares: Sequence[float],
    how: Mapping[str, Any],
    *,
    epochs: int,
) -> Rows:
    """Return the split of a folder, or the mix of those of several.

    Args:
        opened: The folders.
        split: Name of the split.
        shares: Weight of each folder; none weighs them by their sizes.
        how: More options of `md.mix` -> their values; None takes its default.
        epochs: How many epochs are to be counted.

    Raises:
        UsageError: Options of a mix that do not go together, or are given for one folder.
        ShardError: Folders that cannot be mixed.
    """
    from mslm_data.api.mixing import mix
    from mslm_data.errors import ShardError

    given = {name: value for name, value in how.items() if value is not None}
    if len(opened) == 1:
        options = [*(["--share"] if shares else []), *map(_option, given)]
        if options:
            raise click.UsageError(f"{', '.join(options)}: expected several folders, got one")
        return opened[0][split]

    if epochs > 1:
        raise click.UsageError(
            "--epochs: expected 1 for a mix, whose epochs have rows of their own each, got "
            f"{epochs}; count one epoch"
        )
    if shares and len(shares) != len(opened):
        raise click.UsageError(
            f"--share: expected one for each of {len(opened)} folders, got {len(shares)}"
        )
    if str(given.get("epoch_size", "")).isdecimal():
        given["epoch_size"] = int(given["epoch_size"])
    try:
        return mix(
            dict(zip(opened, shares, strict=True)) if shares else opened, split=split, **given
        )
    except ValueError as error:
        name, _, message = str(error).partition(":")
        if name == "mix":
            raise ShardError(str(error)) from None
        raise click.UsageError(f"{_option(name)}:{message}") from None


def _option(name: str) -> str:
    """Return the option that stands for an argument of a function."""
    return "--share" if name == "folders" else f"--{name.replace('_', '-')}"


def _write_page(
    file: Path,
    rows: Rows,
    shards: Shards,
    counted: _Counted,
    shown: int,
    *,
    seed: int,
    strategies: Mapping[str, Strategy],
    **others: Any,
) -> None:
    """Write the report.

    Args:
        file: Where.
        rows: Whose rows it shows.
        shards: The folder whose tokenizer these have.
        counted: What is hidden of them.
        shown: How many rows it shows.
        seed: Seed of the masks.
        strategies: Name or file -> strategy.
        **others: What else a `Report` has.
    """
    from mslm_data.cli.tokenizer import open_tokenizer
    from mslm_data.draw.sentences import Sentences, choose_rows
    from mslm_data.io.files import write_whole
    from mslm_data.io.private import warn_readable
    from mslm_data.stats.report import Report

    chosen = choose_rows(rows, shown, seed=seed)
    examples = rows.take(rows.epoch_rows(chosen, seed=seed, epoch=0))
    sentences = Sentences(chosen.tolist(), examples, open_tokenizer(shards), rows.labels)
    names = _names_on_page(strategies)
    page = Report(
        seed=seed,
        sentences=sentences,
        strategies={names[name]: strategy for name, strategy in strategies.items()},
        stats={names[name]: stats for name, stats in counted.stats.items()},
        points=counted.points,
        words=counted.words[:WORDS_OF_REPORT],
        parts=counted.parts,
        **others,
    )
    if rows.protected:
        warn_readable([file.parent])
    write_whole(file, [page.html().encode()])
    echo(f"{file}: written, {len(chosen)} sentences in it; open it in a browser", err=True)


def _names_on_page(names: Iterable[str]) -> dict[str, str]:
    """Return each strategy's name -> that on a page, without folders; a number tells equal ones."""
    shown: dict[str, str] = {}
    for name in names:
        plain = Path(name).name if name.endswith(".toml") else name
        unique = plain
        number = 1
        while unique in shown.values():
            number += 1
            unique = f"{plain} ({number})"
        shown[name] = unique
    return shown


def _warn(strategy: Strategy, counted: MaskStats) -> None:
    """Print on stderr what makes training with these masks pointless, or other than it seems."""
    from mslm_data.stats.counts import ALL_MASKED
    from mslm_data.stats.weights import SATURATED

    if counted.weights.saturated:
        echo(f"warning: {SATURATED}; lower --elm or raise --blm", err=True)
    if counted.all_masked:
        echo(f"warning: {ALL_MASKED}; lower the rates", err=True)
    if "mentions" in strategy.needs and not counted.mentions:
        echo(
            "warning: the strategy hides mentions, and no row has any; build the corpus with an "
            "annotator ([annotate] use), or choose a strategy that needs none, such as token",
            err=True,
        )
    _warn_limited(strategy, counted)


def _warn_limited(strategy: Strategy, counted: MaskStats) -> None:
    """Print on stderr that a limit for each row, and not the rate, says how much is masked."""
    options = {} if strategy.origin is None else strategy.origin.options
    max_masked = options.get("max_masked")
    rate = options.get("rate")
    if not max_masked or not isinstance(rate, float | int):
        return

    rows = sum(counted.masked_per_row)
    at_limit = sum(counted.masked_per_row[max_masked:])
    if at_limit > rows / 10 and counted.realised_rate < 0.9 * rate:
        echo(
            f"warning: {at_limit:,} of {rows:,} rows reach the limit of {max_masked} masked "
            f"tokens, so {counted.realised_rate:.2%} of the tokens are masked where the rate is "
            f"{rate:.2%}; pass --set max_masked=0 to lift the limit",
            err=True,
        )


def _schemes(text: str) -> tuple[Scheme, list[Scheme]]:
    """Return the scheme that is asked for, and all that are shown.

    Raises:
        UsageError: An unknown scheme, or numbers that it does not take.
    """
    from mslm_data.stats import Scheme, schemes

    try:
        return Scheme.of(text), schemes(text)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None


def _check_folder_exists(file: Path) -> None:
    """Refuse a file in a folder that does not exist, before anything is counted."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise click.UsageError(
            f"--report: expected a file in a folder that exists, got {file}; make {folder} first"
        )


def _check_may_show_text(opened: Sequence[Shards], asked_for: dict[str, Any]) -> None:
    """Refuse options that show patients' text.

    Args:
        opened: The folders.
        asked_for: Option -> its value, false if it is not given.
    """
    from mslm_data.errors import ShardError

    options = [option for option, value in asked_for.items() if value]
    for shards in opened:
        if options and shards.manifest.protected:
            raise ShardError(
                f"{shards.folder}: holds patients' text, which {options[0]} shows; pass "
                "--show-text to see it"
            )


def _count_batches(
    split: Rows, shape: Mapping[str, Any], bucketed: bool, *, seed: int, epochs: int
) -> BatchStats | None:
    """Count the batches of a split; None if no option of batches is given.

    Args:
        split: Whose rows, or a mix's.
        shape: What a batch is made of, as `BatchOptions` takes it.
        bucketed: Whether rows of like length share a batch.
        seed: Seeds the order of the rows.
        epochs: How many epochs are counted.

    Raises:
        UsageError: Options that do not go together, or a row that has more tokens than there is
            room.
    """
    from mslm_data.batches.batch_options import BatchOptions
    from mslm_data.stats import batch_stats

    if not bucketed and not any(shape.values()):
        return None

    try:
        batch_options = BatchOptions(**shape, bucketed=bucketed, seed=seed)
        return batch_stats(split, batch_options, epochs=epochs)
    except ValueError as error:
        # "row_tokens: expected ..." is said of the option --row-tokens.
        names, _, message = str(error).partition(":")
        options = ", ".join(map(_option, names.split(", ")))
        raise click.UsageError(f"{options}:{message}") from None


def _rate(strategy: Strategy, option: str) -> float:
    """Return an option that is a number; 0.0 for one that varies or does not exist."""
    value = None if strategy.origin is None else strategy.origin.options.get(option)
    return float(value) if isinstance(value, float | int) else 0.0


def _chunks(rows: Rows, seed: int) -> Callable[[], Iterator[Examples]]:
    """Return a function that reads a split, or a mix's first epoch, and shows how far it is."""
    from mslm_data.cli.progress import counting

    def chunks() -> Iterator[Examples]:
        done = 0
        with counting("mask-stats", "tokens") as show:
            show(0, rows.tokens)
            for examples in rows.chunks(seed=seed):
                yield examples
                done += len(examples.input_ids.values)
                show(done, rows.tokens)

    return chunks


def _masked_most(
    shards: Shards,
    chunks: Callable[[], Iterator[Examples]],
    strategy: Strategy,
    count: int,
    *,
    seed: int,
    epochs: int,
) -> list[tuple[str, int, int]]:
    """Return the words masked most: text, how often it is masked, and how often it occurs."""
    from mslm_data.cli.tokenizer import open_tokenizer
    from mslm_data.stats import most_masked_words, word_texts

    if not count:
        return []

    words = most_masked_words(chunks, strategy, seed=seed, epochs=epochs, count=count)
    texts = word_texts(words, open_tokenizer(shards)) if words else []
    return [(text, word.masked, word.occurrences) for text, word in zip(texts, words, strict=True)]
