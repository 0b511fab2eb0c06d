"""`mslm-data mask-stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.data.examples import Examples
    from mslm_data.mask.strategy import Strategy
    from mslm_data.shard.row_protocol import Rows
    from mslm_data.stats import BatchStats, MaskStats, PartStats, Scheme, SweepPoint


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
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.mask_tables import print_tables
    from mslm_data.cli.strategy import make_strategies
    from mslm_data.stats.grid import has_both_rates
    from mslm_data.stats.warnings import find_warnings

    if len(names) > 1:
        raise click.UsageError(
            f"--strategy: expected one, got {len(names)}; `mslm-data look` shows several side by "
            "side"
        )
    chosen, schemes = _schemes(scheme)

    opened = [load(folder) for folder in folders]
    if top and not show_text:
        _check_text_may_be_shown(opened)
    rows = _rows(
        opened,
        split,
        shares,
        {"by": by, "temperature": temperature, "epoch_size": epoch_size},
        epochs=epochs,
    )

    # A mix has one tokenizer, and so lexicons of it: those of the first folder.
    shards = opened[0]
    ((name, strategy),) = make_strategies(shards, names, elm=elm, blm=blm, sets=sets).items()
    if swept and not has_both_rates(strategy):
        raise click.UsageError(
            f"--sweep: expected a strategy with the options elm and blm, got '{name}'"
        )

    shape = {
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "row_tokens": row_tokens,
        "flat": flat,
    }
    batches = _count_batches(rows, shape, bucketed, seed=seed, epochs=epochs)
    counted = _count(rows, shards, strategy, seed=seed, epochs=epochs, swept=swept, most_words=top)
    for warning in find_warnings(strategy, counted.stats):
        echo(f"warning: {warning}", err=True)

    report = {
        "split": split,
        "strategy": name,
        "elm": _rate(strategy, "elm"),
        "blm": _rate(strategy, "blm"),
        "seed": seed,
        "epochs": epochs,
        **_found(strategy, counted, batches, schemes, chosen),
    }
    if as_json:
        print_json(report)
    else:
        print_tables(report)


class _Counted(NamedTuple):
    """Counts of what a strategy hides.

    Attributes:
        stats: Of all rows.
        parts: Of each split of a mix; empty for a single split.
        points: At all rates; empty where that was not asked for.
        words: The words that are masked most; None where that was not asked for.
    """

    stats: MaskStats
    parts: Sequence[PartStats]
    points: Sequence[SweepPoint]
    words: Sequence[tuple[str, int, int]] | None


def _count(
    rows: Rows,
    shards: Shards,
    strategy: Strategy,
    *,
    seed: int,
    epochs: int,
    swept: bool,
    most_words: int,
) -> _Counted:
    """Count what a strategy hides.

    Args:
        rows: Of which rows.
        shards: The folder whose tokenizer these have.
        strategy: What masks.
        seed: Seed of the masks.
        epochs: How many epochs are counted.
        swept: Whether it is counted at all rates too.
        most_words: How many of the words masked most are named.
    """
    from mslm_data.stats import count_splits, mask_stats, sweep

    chunks = _chunks(rows, seed)
    return _Counted(
        stats=mask_stats(chunks, strategy, labels=rows.labels, seed=seed, epochs=epochs),
        parts=count_splits(rows, strategy, seed=seed) if len(rows.splits) > 1 else (),
        points=sweep(chunks, strategy, seed=seed, epochs=epochs) if swept else (),
        words=_masked_most(shards, chunks, strategy, most_words, seed=seed, epochs=epochs)
        if most_words
        else None,
    )


def _found(
    strategy: Strategy,
    counted: _Counted,
    batches: BatchStats | None,
    schemes: Sequence[Scheme],
    chosen: Scheme,
) -> dict[str, Any]:
    """Return what `--json` prints of the counts of a strategy.

    Args:
        strategy: What masks.
        counted: What it hides.
        batches: Counts of the batches; None where they are not counted.
        schemes: Ways to weigh, all of which are shown.
        chosen: The one of them that is marked.
    """
    from mslm_data.cli.mask_tables import as_dict, batches_as_dict, mix_as_dicts, point_as_dict
    from mslm_data.stats import effective_rates

    found = {
        "rates": [rate._asdict() for rate in effective_rates(strategy, counted.stats)],
        **as_dict(counted.stats, schemes, chosen),
    }
    if batches is not None:
        found["batches"] = batches_as_dict(batches)
    if counted.parts:
        found["mix"] = mix_as_dicts(counted.parts, batches)
    if counted.points:
        found["sweep"] = [point_as_dict(point, chosen) for point in counted.points]
    if counted.words is not None:
        found["top_words"] = [
            {"word": word, "masked": masked, "occurrences": there}
            for word, masked, there in counted.words
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


def _schemes(text: str) -> tuple[Scheme, list[Scheme]]:
    """Return the scheme that is asked for, and all that are shown.

    Raises:
        UsageError: An unknown scheme, or numbers that it does not take.
    """
    from mslm_data.stats import Scheme, schemes

    try:
        return Scheme.parse(text), schemes(text)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None


def _check_text_may_be_shown(opened: Sequence[Shards]) -> None:
    """Check that no folder holds patients' text, of which `--top-words` shows words.

    Raises:
        ShardError: One does.
    """
    from mslm_data.errors import ShardError

    for shards in opened:
        if shards.manifest.protected:
            raise ShardError(
                f"{shards.folder}: holds patients' text, which --top-words shows; pass --show-text "
                "to see it"
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

    words = most_masked_words(chunks, strategy, seed=seed, epochs=epochs, count=count)
    texts = word_texts(words, open_tokenizer(shards)) if words else []
    return [(text, word.masked, word.occurrences) for text, word in zip(texts, words, strict=True)]
