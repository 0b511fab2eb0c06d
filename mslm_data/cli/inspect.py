"""`mslm-data inspect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import click
import msgspec

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import AnyFolder, Count, Epoch, Positive, ShowText, StrategyOptions
from mslm_data.cli.output import echo, has_colours
from mslm_data.data.context import decode_flags
from mslm_data.log import plain
from mslm_data.results import Result, Styled, Table, plain_values

if TYPE_CHECKING:
    import tokenizers

    from mslm_data.api.loading import Shards
    from mslm_data.data.examples import Examples
    from mslm_data.data.ragged import Ragged
    from mslm_data.mask.plan import MaskPlan
    from mslm_data.shard.agreement import PairAgreement
    from mslm_data.stats import EffectiveRate


class Inspect(StrategyOptions, frozen=True, kw_only=True):
    """Options of `mslm-data inspect`."""

    folder: AnyFolder
    split: Annotated[str, option("Name of the split to show.", metavar="NAME")] = "train"
    rows: Annotated[Positive, option("Maximum number of rows.", metavar="N")] = 5
    start: Annotated[Count, option("First row to show, counted from 0.", metavar="ROW")] = 0
    epoch: Epoch = 0
    as_seen: Annotated[
        bool, option("Show rows as the model sees them, with masked tokens replaced.")
    ] = False
    show_text: ShowText = False


class Mention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mention, in tokens of its row, half open; with its context, if the folder has contexts."""

    start: int
    end: int
    label: str
    context: list[str] | None = None


class ShownRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row, with the kind of each token's mask (0 if not masked) by strategy.

    `seen` has the tokens that the model sees, by strategy, with `--as-seen`.
    """

    row: int
    doc_id: str
    tokens: list[str]
    mentions: list[Mention]
    masks: dict[str, list[int]]
    seen: dict[str, list[str]] = {}


class Inspected(Result, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows with their masks.

    Attributes:
        split: Name of the split.
        seed: Seed of the masks.
        epoch: Epoch of the masks.
        options: Strategy -> its options.
        rows: The rows.
        rates: Strategy -> its rates, with the masked shares of these rows.
        agreement: Agreement of the folder's annotators, if it has several.
        lines: The rows as text; not part of the JSON object.
    """

    split: str
    seed: int
    epoch: int
    options: dict[str, Mapping[str, Any]]
    rows: list[ShownRow]
    rates: dict[str, list[EffectiveRate]]
    agreement: list[PairAgreement] = []
    lines: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the fields, without the lines of text."""
        fields = plain_values(self)
        del fields["lines"]
        return fields  # type: ignore[no-any-return]

    def tables(self) -> Iterator[str | Table]:
        """Yield the rows, a table of rates, and another of the annotators' agreement."""
        from mslm_data.shard.agreement import agreement_table

        yield from map(Styled, self.lines)
        cells = [
            (name, *rate.cells()) for name, strategy_rates in self.rates.items()
            for rate in strategy_rates
        ]  # fmt: skip
        if cells:
            yield ""
            yield Table(cells, head=("in these rows", "", "rate", "masked", ""))
        if self.agreement:
            yield ""
            yield from agreement_table(self.agreement)


@make_command("inspect", Inspect)
def command(options: Inspect) -> Inspected:
    r"""Show rows with their mentions, and the tokens that each strategy masks.

    A mention is shown as {mention}Label, coloured on a terminal. Tokens masked as terms (ELM) are
    red, or [[marked]] without colours. Tokens masked as other words (BLM) are yellow, or <marked>.

    Several strategies are shown below each other. Lexicons and score columns are searched in
    DIR/vocab first. A table below compares the masked share of these rows with each rate. If the
    folder has several annotators, another table shows their agreement.

    \b
    Example:
        mslm-data inspect shards/ncbi --rows 3
        mslm-data inspect shards/ncbi --start 40 --strategy joint --strategy span \
            --set span.rate=0.2
    """
    from mslm_data.api.loading import load
    from mslm_data.cli.strategy import asked_options, make_strategies
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.errors import ShardError
    from mslm_data.shard.agreement import pairs
    from mslm_data.stats import effective_rates
    from mslm_data.stats.counts import ALL_MASKED
    from mslm_data.stats.tally import Tally
    from mslm_data.stats.warnings import masks_all

    shards = load(options.folder)
    if shards.manifest.protected and not options.show_text:
        raise ShardError(f"{shards.folder}: holds patients' text; pass --show-text to see it here")

    split = shards[options.split]
    if options.start and options.start >= len(split):
        raise click.UsageError(
            f"--start: expected a row below {len(split)}, the number of rows of "
            f"'{options.split}', got {options.start}"
        )
    examples = split.examples(options.start, min(options.start + options.rows, len(split)))

    # Plan the masks, and measure their rates in these rows.
    strategies = make_strategies(shards, options)
    plans = {}
    seen = {}
    rates = {}
    for name, strategy in strategies.items():
        plans[name] = strategy.plan(examples, seed=options.seed, epoch=options.epoch)
        if options.as_seen:
            seen[name] = strategy.seen(
                examples, plans[name], seed=options.seed, epoch=options.epoch
            )
        counted = Tally(shards.labels, epochs=1)
        counted.add(examples, [plans[name]])
        stats = counted.stats()
        rates[name] = effective_rates(strategy, stats)
        if masks_all(strategy, stats):
            echo(f"warning: {name}: {ALL_MASKED}; lower the rates", err=True)

    tokenizer = open_tokenizer(shards.tokenizer)
    columns = [split[options.start + i] for i in range(len(examples))]
    rows = [
        ShownRow(
            row=options.start + i,
            doc_id=columns[i]["doc_id"],
            tokens=[str(tokenizer.id_to_token(token)) for token in examples.input_ids[i].tolist()],
            mentions=_mentions(examples, i, shards, columns[i]),
            masks={name: plan.kinds[i].tolist() for name, plan in plans.items()},
            seen={
                name: [str(tokenizer.id_to_token(id_)) for id_ in ids[i].tolist() if id_ >= 0]
                for name, ids in seen.items()
            },
        )
        for i in range(len(examples))
    ]
    return Inspected(
        split=options.split,
        seed=options.seed,
        epoch=options.epoch,
        options=asked_options(options, strategies),
        rows=rows,
        rates=rates,
        agreement=[*pairs(shards.manifest.found_by or ())],
        lines=_lines(options.split, rows, examples, plans, seen, tokenizer, shards),
    )


def _mentions(
    examples: Examples, row: int, shards: Shards, columns: Mapping[str, Any]
) -> list[Mention]:
    """Return the mentions of a row, with their context if the folder has contexts."""
    spans = zip(
        examples.span_starts[row].tolist(),
        examples.span_ends[row].tolist(),
        examples.span_labels[row].tolist(),
        strict=True,
    )
    contexts = [decode_flags(bits) for bits in columns.get("span_contexts", ())]
    return [
        Mention(
            start=start,
            end=end,
            label=shards.labels[label],
            context=contexts[number] if contexts else None,
        )
        for number, (start, end, label) in enumerate(spans)
    ]


def _lines(
    split: str,
    rows: list[ShownRow],
    examples: Examples,
    plans: Mapping[str, MaskPlan],
    seen: Mapping[str, Ragged],
    tokenizer: tokenizers.Tokenizer,
    shards: Shards,
) -> list[str]:
    """Draw the rows: a line per strategy below the row's number and document, and a legend."""
    from mslm_data.draw.marked_rows import Pieces, draw_lines
    from mslm_data.draw.text_rows import BRACKETS, COLOURS, LEGEND, as_text

    marks = COLOURS if has_colours() else BRACKETS
    flags = [", ".join(mention.context or ()) for row in rows for mention in row.mentions]
    kinds = {name: plan.kinds for name, plan in plans.items()}
    drawn = draw_lines(examples, kinds, Pieces(tokenizer), shards.labels, flags, seen=seen)

    lines = []
    for row, groups_by_strategy in zip(rows, drawn, strict=True):
        lines.append(plain(f"{split} {row.row}  {row.doc_id}"))
        for name, groups in groups_by_strategy.items():
            lines.append(f"  {plain(name)}: {as_text(groups, marks)}")
    return [*lines, "", as_text(LEGEND, marks)]
