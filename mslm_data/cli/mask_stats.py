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
    from mslm_data.shard.split import Rows
    from mslm_data.stats import BatchStats, MaskStats, PartStats, Scheme, SweepPoint


@click.command("mask-stats", short_help="Count what a strategy masks.")
@folders_or_urls_argument
@split_option("to count", "Training needs the weights of its training split.")
@strategy_options(several=False)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of epochs to count together, from epoch 0.",
)
@click.option(
    "--weights",
    "scheme",
    default="paper",
    show_default=True,
    metavar="SCHEME",
    help="Weighting scheme to mark, and to use in --sweep: paper, released, inverse-frequency, "
    "effective-number[=BETA] or fixed=W_ELM,W_BLM.",
)
@click.option(
    "--sweep",
    "swept",
    is_flag=True,
    help="Also count at each pair of the paper's ELM and BLM rates.",
)
@click.option(
    "--top-words",
    "top",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Number of words to show, masked most often first.  [default: 0]",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    metavar="N",
    help="Batch size in rows, or in packed rows with --row-tokens, to count batches too.",
)
@click.option(
    "--batch-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Batch size in tokens with padding, to count batches too.",
)
@click.option(
    "--row-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Length of packed rows in tokens, to count batches too.",
)
@click.option("--flat", is_flag=True, help="Count batches of one flat row each.")
@click.option(
    "--share",
    "shares",
    type=float,
    multiple=True,
    metavar="WEIGHT",
    help="Weight of a folder in a mix, once per DIR in their order.  [default: by size]",
)
@click.option(
    "--by",
    type=click.Choice(["tokens", "rows"]),
    help="Unit of the sizes and shares of a mix.  [default: tokens]",
)
@click.option(
    "--temperature",
    type=float,
    metavar="T",
    help="Temperature of a mix: folders are weighted by size ** (1 / T).  [default: 1]",
)
@click.option(
    "--epoch-size",
    metavar="N|WORD",
    help="Size of a mix's epoch: a number of tokens (rows with --by rows), total, longest or "
    "shortest, as in md.mix.  [default: total]",
)
@click.option("--bucketed", is_flag=True, help="Count batches of rows with similar lengths.")
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
    """Count the tokens that a strategy masks in training with the same seed.

    N_ELM and N_BLM are the numbers of sub-word tokens masked as terms and as other words. They
    decide the loss weights of Abaho et al. 2024: Eq. 2 (raw), Eq. 3 (clipped) and Eq. 5. Other
    weighting schemes are printed beside these. With batch options, the steps of an epoch and their
    padding are counted too.

    Several folders are counted as a mix of md.mix: one epoch, in total and per folder. --seed then
    also chooses its rows.

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

    # Open the folders, and check all options before counting, which may take minutes.
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

    # All folders of a mix have the same tokenizer, so use the lexicons of the first one.
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
    counted = _count(rows, shards, strategy, seed=seed, epochs=epochs, swept=swept, max_words=top)
    for warning in find_warnings(strategy, counted.stats):
        echo(f"warning: {warning}", err=True)

    report = {
        "split": split,
        "strategy": name,
        "elm": _rate(strategy, "elm"),
        "blm": _rate(strategy, "blm"),
        "seed": seed,
        "epochs": epochs,
        **_report(strategy, counted, batches, schemes, chosen),
    }
    if as_json:
        print_json(report)
    else:
        print_tables(report)


class _Counted(NamedTuple):
    """Counts of the masks of a strategy.

    Attributes:
        stats: Counts of all rows.
        parts: Counts of each split of a mix; empty for a single split.
        points: Counts at each pair of rates; empty without `--sweep`.
        words: Text, masked count and total count of the words masked most; None without
            `--top-words`.
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
    max_words: int,
) -> _Counted:
    """Count the masks of a strategy.

    Args:
        rows: The rows to count.
        shards: The folder with their tokenizer.
        strategy: The strategy.
        seed: Seed of the masks.
        epochs: Number of epochs.
        swept: Whether to count at all pairs of rates too.
        max_words: Maximum number of words masked most; 0 for none.
    """
    from mslm_data.stats import count_splits, mask_stats, sweep

    chunks = _chunks(rows, seed)
    return _Counted(
        stats=mask_stats(chunks, strategy, labels=rows.labels, seed=seed, epochs=epochs),
        parts=count_splits(rows, strategy, seed=seed) if len(rows.splits) > 1 else (),
        points=sweep(chunks, strategy, seed=seed, epochs=epochs) if swept else (),
        words=_masked_most(shards, chunks, strategy, max_words, seed=seed, epochs=epochs)
        if max_words
        else None,
    )


def _report(
    strategy: Strategy,
    counted: _Counted,
    batches: BatchStats | None,
    schemes: Sequence[Scheme],
    chosen: Scheme,
) -> dict[str, Any]:
    """Return the counts for `--json`.

    Args:
        strategy: The strategy.
        counted: Its counts.
        batches: Counts of batches; None if not counted.
        schemes: Weighting schemes to show.
        chosen: The scheme to mark.
    """
    from mslm_data.cli.mask_tables import as_dict, batches_as_dict, mix_as_dicts, point_as_dict
    from mslm_data.stats import effective_rates

    report = {
        "rates": [rate._asdict() for rate in effective_rates(strategy, counted.stats)],
        **as_dict(counted.stats, schemes, chosen),
    }
    if batches is not None:
        report["batches"] = batches_as_dict(batches)
    if counted.parts:
        report["mix"] = mix_as_dicts(counted.parts, batches)
    if counted.points:
        report["sweep"] = [point_as_dict(point, chosen) for point in counted.points]
    if counted.words is not None:
        report["top_words"] = [
            {"word": word, "masked": masked, "occurrences": occurrences}
            for word, masked, occurrences in counted.words
        ]
    return report


def _rows(
    opened: Sequence[Shards],
    split: str,
    shares: Sequence[float],
    how: Mapping[str, Any],
    *,
    epochs: int,
) -> Rows:
    """Return a split of one folder, or the mix of several.

    Args:
        opened: The folders.
        split: Name of the split.
        shares: Weight of each folder; empty for weights by size.
        how: Other options of `md.mix`; None for a default.
        epochs: Number of epochs to count.

    Raises:
        UsageError: Options of a mix cannot be combined, or there is one folder.
        ShardError: The folders cannot be mixed.
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
        # Errors of `md.mix` begin with the argument, or with "mix" for a problem of the folders.
        name, _, message = str(error).partition(":")
        if name == "mix":
            raise ShardError(str(error)) from None
        raise click.UsageError(f"{_option(name)}:{message}") from None


def _option(name: str) -> str:
    """Return the command-line option for an argument of a function."""
    return "--share" if name == "folders" else f"--{name.replace('_', '-')}"


def _schemes(text: str) -> tuple[Scheme, list[Scheme]]:
    """Return the chosen scheme, and all schemes to show.

    Raises:
        UsageError: The scheme is unknown, or its numbers are wrong.
    """
    from mslm_data.stats import Scheme, schemes

    try:
        return Scheme.parse(text), schemes(text)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None


def _check_text_may_be_shown(opened: Sequence[Shards]) -> None:
    """Check that no folder has patients' text, because `--top-words` shows words.

    Raises:
        ShardError: A folder has patients' text.
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
    """Count the batches of an epoch; None without batch options.

    Args:
        split: The rows: a split or a mix.
        shape: Size options for `BatchOptions`.
        bucketed: Whether batches have rows of similar lengths.
        seed: Seed of the row order.
        epochs: Number of epochs.

    Raises:
        UsageError: Options cannot be combined, or a row has more tokens than a batch.
    """
    from mslm_data.batches.batch_options import BatchOptions
    from mslm_data.stats import batch_stats

    if not bucketed and not any(shape.values()):
        return None

    try:
        batch_options = BatchOptions(**shape, bucketed=bucketed, seed=seed)
        return batch_stats(split, batch_options, epochs=epochs)
    except ValueError as error:
        # Errors name arguments, "row_tokens: expected ..."; show options, "--row-tokens: ...".
        names, _, message = str(error).partition(":")
        options = ", ".join(map(_option, names.split(", ")))
        raise click.UsageError(f"{options}:{message}") from None


def _rate(strategy: Strategy, option: str) -> float:
    """Return a constant numeric option of a strategy; 0.0 if it varies or does not exist."""
    value = None if strategy.origin is None else strategy.origin.options.get(option)
    return float(value) if isinstance(value, float | int) else 0.0


def _chunks(rows: Rows, seed: int) -> Callable[[], Iterator[Examples]]:
    """Return a function that yields the rows in chunks, with progress on stderr."""
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
    """Return the words masked most: text, number of masks and number of occurrences."""
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.stats import most_masked_words, word_texts

    words = most_masked_words(chunks, strategy, seed=seed, epochs=epochs, count=count)
    texts = word_texts(words, open_tokenizer(shards.tokenizer)) if words else []
    return [(text, word.masked, word.occurrences) for text, word in zip(texts, words, strict=True)]
