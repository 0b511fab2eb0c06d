"""`mslm-data mask-stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
import msgspec
from msgspec.structs import astuple

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import (
    AnyFolder,
    Count,
    Positive,
    ShowText,
    StrategyOptions,
)
from mslm_data.cli.output import echo
from mslm_data.results import Result, Table, plain_values

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.data.examples import Examples
    from mslm_data.shard.split import Split
    from mslm_data.stats import EffectiveRate, MaskStats, SweepPoint
    from mslm_data.stats.tally import Tally


class CountMasks(StrategyOptions, frozen=True, kw_only=True):
    """Options of `mslm-data mask-stats`."""

    folder: AnyFolder
    split: Annotated[
        str,
        option(
            "Name of the split to count. Training needs the weights of its training split.",
            metavar="NAME",
        ),
    ] = "train"
    strategy: Annotated[
        tuple[str, ...],
        option(
            "Masking strategy: a name from `mslm-data recipes --strategies`, a TOML file with a "
            "table [mask], or your own function or class, whose module is imported.",
            metavar="NAME|FILE.toml|MODULE:NAME",
        ),
    ] = ("joint",)
    epochs: Annotated[
        Positive, option("Number of epochs to count together, from epoch 0.", metavar="N")
    ] = 1
    weights: Annotated[
        Literal["paper", "released"],
        option(
            "Weights to mark, and to use in --sweep: those of Eq. 5, or of the paper's released "
            "code."
        ),
    ] = "paper"
    sweep: Annotated[bool, option("Also count at each pair of the paper's ELM and BLM rates.")] = (
        False
    )
    top_words: Annotated[
        Count, option("Number of words to show, masked most often first.", metavar="N")
    ] = 0
    show_text: ShowText = False


class TopWord(msgspec.Struct, frozen=True):
    """A word, with the number of its masks and of its occurrences in an epoch."""

    word: str
    masked: int
    occurrences: int


class MaskReport(Result, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The masks of a strategy, with what was asked.

    Attributes:
        split: Name of the split.
        strategy: The strategy, as named.
        options: Its options, with the defaults that were not changed.
        seed: Seed of the masks.
        scheme: Name of the chosen weights.
        rates: Its rates, with the masked shares.
        stats: The counts.
        sweep: The counts at each pair of rates. None if not asked.
        top_words: The words masked most often. None if not asked.
    """

    split: str
    strategy: str
    options: Mapping[str, Any]
    seed: int
    scheme: str
    rates: list[EffectiveRate]
    stats: MaskStats
    sweep: list[SweepPoint] | None = None
    top_words: list[TopWord] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what was asked, with `elm` and `blm` if the strategy has them, and the counts."""
        fields = plain_values(self)
        del fields["stats"]
        if self.sweep is not None:
            fields["sweep"] = [point.to_json() for point in self.sweep]
        rates = {name: fields["options"][name] for name in ("elm", "blm") if name in self.options}
        return {**fields, **rates, **self.stats.to_json()}

    def tables(self) -> Iterator[str | Table]:
        """Yield the counts, the rates, the weights, and the tables of `MaskStats`."""
        from mslm_data.stats.effective_rates import ROUNDED_UP

        asked = [f"{rate.name} {rate.asked:g}" for rate in self.rates if rate.asked is not None]
        settings = ", ".join([*asked, f"seed {self.seed}", f"epochs {self.stats.epochs}"])
        yield f"{self.split}, strategy {self.strategy}: {settings}"
        counts, kinds, *others = self.stats.tables()
        yield counts

        if self.rates:
            yield ""
            rows = [rate.cells() for rate in self.rates]
            yield Table(rows, head=("", "rate", "masked", ""))
            if any(rate.is_rounded_up for rate in self.rates):
                yield ROUNDED_UP

        tables = [kinds, self._schemes(), *others]
        if self.sweep is not None:
            tables.append(self._sweep(self.sweep))
        if self.top_words is not None:
            rows = [astuple(word) for word in self.top_words]
            tables.append(Table(rows, head=("word", "masked", "occurrences")))
        for table in tables:
            yield ""
            yield table

        points = self.sweep or ()
        clipped = sum(point.stats.weights.saturated for point in points)
        if clipped:
            yield (
                f"At {clipped} of {len(points)} pairs of rates, Eq. 3 clips both weights to 0.5: "
                "the loss is unweighted there."
            )

    def _schemes(self) -> Table:
        """Return the weights of each scheme, with a star at the chosen one."""
        from mslm_data.stats.weights import SCHEMES

        rows = [
            (
                f"{name} *" if name == self.scheme else name,
                *weigh(self.stats.n_elm, self.stats.n_blm),
            )
            for name, weigh in SCHEMES.items()
        ]
        return Table(rows, head=("weights", "ELM", "BLM"))

    def _sweep(self, points: list[SweepPoint]) -> Table:
        """Return a row for each pair of rates."""
        from mslm_data.stats.weights import SCHEMES

        rows = []
        for point in points:
            stats = point.stats
            shares = (
                stats.realised_rate,
                stats.shorter.masked_share(stats.epochs),
                stats.longer.masked_share(stats.epochs),
            )
            rows.append(
                (
                    f"{point.elm:g}",
                    f"{point.blm:g}",
                    f"{stats.realised_elm:.2%}",
                    f"{stats.effective_blm:.2%}",
                    stats.n_elm,
                    stats.n_blm,
                    *SCHEMES[self.scheme](stats.n_elm, stats.n_blm),
                    *(f"{share:.2%}" for share in shares),
                    "yes" if stats.weights.saturated else "",
                )
            )

        rates = ("ELM", "BLM", "mentions", "tokens", "N_ELM", "N_BLM", "w_ELM", "w_BLM")
        return Table(rows, head=(*rates, "masked", "shorter", "longer", "saturated"))


@make_command("mask-stats", CountMasks)
def command(options: CountMasks) -> MaskReport:
    r"""Count the tokens that a strategy masks in training with the same seed.

    N_ELM and N_BLM are the numbers of sub-word tokens masked as terms and as other words. They
    decide the loss weights of Abaho et al. 2024: Eq. 2 (raw), Eq. 3 (clipped) and Eq. 5. The
    weights of the paper's released code are printed beside these.

    \b
    Example:
        mslm-data mask-stats shards/ncbi --elm 0.5 --blm 0.15
        mslm-data mask-stats shards/ncbi --sweep
    """
    from mslm_data.api.loading import load
    from mslm_data.cli.strategy import asked_options, make_strategies
    from mslm_data.stats import count_masks, effective_rates, sweep
    from mslm_data.stats.grid import has_both_rates
    from mslm_data.stats.warnings import find_warnings

    if len(options.strategy) > 1:
        raise click.UsageError(
            f"--strategy: expected one, got {len(options.strategy)}; `mslm-data look` shows "
            "several side by side"
        )

    # Open the folder, and check all options before counting, which may take minutes.
    shards = load(options.folder)
    if options.top_words and not options.show_text:
        _check_text_may_be_shown(shards)
    rows = shards[options.split]
    strategies = make_strategies(shards, options)
    ((name, strategy),) = strategies.items()
    if options.sweep and not has_both_rates(strategy):
        raise click.UsageError(
            f"--sweep: expected a strategy with the options elm and blm, got '{name}'"
        )

    chunks = _chunks(rows)
    counted: dict[str, Any] = {
        "labels": rows.labels,
        "seed": options.seed,
        "epochs": options.epochs,
    }
    tally = count_masks(chunks, strategy, **counted)
    stats = tally.stats()
    for warning in find_warnings(strategy, stats):
        echo(f"warning: {warning}", err=True)

    return MaskReport(
        split=options.split,
        strategy=name,
        options=asked_options(options, strategies)[name],
        seed=options.seed,
        scheme=options.weights,
        rates=effective_rates(strategy, stats),
        stats=stats,
        sweep=sweep(chunks, strategy, **counted) if options.sweep else None,
        top_words=_top_words(tally, shards, options.top_words) if options.top_words else None,
    )


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


def _top_words(tally: Tally, shards: Shards, count: int) -> list[TopWord]:
    """Return the words masked most often."""
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.stats import word_texts

    words = tally.top_words(count)
    texts = word_texts(words, open_tokenizer(shards.tokenizer)) if words else []
    return [
        TopWord(text, word.masked, word.occurrences)
        for text, word in zip(texts, words, strict=True)
    ]
