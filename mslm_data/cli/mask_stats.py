"""`mslm-data mask-stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import (
    folder_or_url_argument,
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
    from mslm_data.shard.split import Split
    from mslm_data.stats.tally import Tally


@click.command("mask-stats", short_help="Count what a strategy masks.")
@folder_or_url_argument
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
    type=click.Choice(["paper", "released"]),
    default="paper",
    show_default=True,
    help="Weights to mark, and to use in --sweep: those of Eq. 5, or of the paper's released code.",
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
@show_text_option
@json_option
def command(
    folder: Path | str,
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
    show_text: bool,
    as_json: bool,
) -> None:
    """Count the tokens that a strategy masks in training with the same seed.

    N_ELM and N_BLM are the numbers of sub-word tokens masked as terms and as other words. They
    decide the loss weights of Abaho et al. 2024: Eq. 2 (raw), Eq. 3 (clipped) and Eq. 5. The
    weights of the paper's released code are printed beside these.

    \b
    Example:
        mslm-data mask-stats shards/ncbi --elm 0.5 --blm 0.15
        mslm-data mask-stats shards/ncbi --sweep
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.mask_tables import as_dict, point_as_dict, print_tables
    from mslm_data.cli.strategy import make_strategies
    from mslm_data.stats import count_masks, effective_rates, sweep
    from mslm_data.stats.grid import has_both_rates
    from mslm_data.stats.warnings import find_warnings

    if len(names) > 1:
        raise click.UsageError(
            f"--strategy: expected one, got {len(names)}; `mslm-data look` shows several side by "
            "side"
        )

    # Open the folder, and check all options before counting, which may take minutes.
    shards = load(folder)
    if top and not show_text:
        _check_text_may_be_shown(shards)
    rows = shards[split]
    ((name, strategy),) = make_strategies(shards, names, elm=elm, blm=blm, sets=sets).items()
    if swept and not has_both_rates(strategy):
        raise click.UsageError(
            f"--sweep: expected a strategy with the options elm and blm, got '{name}'"
        )

    chunks = _chunks(rows)
    tally = count_masks(chunks, strategy, labels=rows.labels, seed=seed, epochs=epochs)
    stats = tally.stats()
    for warning in find_warnings(strategy, stats):
        echo(f"warning: {warning}", err=True)

    report = {
        "split": split,
        "strategy": name,
        "elm": _rate(strategy, "elm"),
        "blm": _rate(strategy, "blm"),
        "seed": seed,
        "epochs": epochs,
        "rates": [rate._asdict() for rate in effective_rates(strategy, stats)],
        **as_dict(stats, scheme),
    }
    if swept:
        points = sweep(chunks, strategy, labels=rows.labels, seed=seed, epochs=epochs)
        report["sweep"] = [point_as_dict(point, scheme, epochs) for point in points]
    if top:
        report["top_words"] = _top_words(tally, shards, top)

    if as_json:
        print_json(report)
    else:
        print_tables(report)


def _check_text_may_be_shown(shards: Shards) -> None:
    """Check that the folder has no patients' text, because `--top-words` shows words.

    Raises:
        ShardError: The folder has patients' text.
    """
    from mslm_data.errors import ShardError

    if shards.manifest.protected:
        raise ShardError(
            f"{shards.folder}: holds patients' text, which --top-words shows; pass --show-text "
            "to see it"
        )


def _rate(strategy: Strategy, option: str) -> float:
    """Return a constant numeric option of a strategy; 0.0 if it varies or does not exist."""
    value = None if strategy.origin is None else strategy.origin.options.get(option)
    return float(value) if isinstance(value, float | int) else 0.0


def _chunks(rows: Split) -> Callable[[], Iterator[Examples]]:
    """Return a function that yields the rows in chunks, with progress on stderr."""
    from mslm_data.cli.progress import counting

    def chunks() -> Iterator[Examples]:
        done = 0
        with counting("mask-stats", "tokens") as show:
            show(0, rows.tokens)
            for examples in rows.chunks():
                yield examples
                done += len(examples.input_ids.values)
                show(done, rows.tokens)

    return chunks


def _top_words(tally: Tally, shards: Shards, count: int) -> list[dict[str, Any]]:
    """Return the words masked most, with the number of masks and of occurrences."""
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.stats import word_texts

    words = tally.top_words(count)
    texts = word_texts(words, open_tokenizer(shards.tokenizer)) if words else []
    return [
        {"word": text, "masked": word.masked, "occurrences": word.occurrences}
        for text, word in zip(texts, words, strict=True)
    ]
