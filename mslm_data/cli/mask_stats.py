"""`mslm-data mask-stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.folder import FolderOrUrl
from mslm_data.cli.output import print_json

if TYPE_CHECKING:
    from mslm_data.data.examples import Examples
    from mslm_data.loading import Shards
    from mslm_data.mask.strategy import Strategy
    from mslm_data.stats import MaskStats, Scheme, SweepPoint

WORDS_OF_REPORT = 20


@click.command("mask-stats", short_help="Count what a strategy masks.")
@click.argument("folder", type=FolderOrUrl(), metavar="DIR")
@click.option(
    "--split",
    default="train",
    show_default=True,
    help="The weights are those of the training split.",
)
@click.option(
    "--strategy", "names", multiple=True, default=["joint"], show_default=True,
    help="What masks; see `inspect --help`. With --report, several: the first is counted, all are shown.",
)  # fmt: skip
@click.option(
    "--elm", type=float, help="Share of mentions hidden whole.  [default: the strategy's, 1.0]"
)
@click.option(
    "--blm", type=float, help="Share of tokens hidden besides.  [default: the strategy's, 0.075]"
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="[NAME.]OPTION=VALUE",
    help="Another option, of one or of all.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Epochs to count, from 0.",
)
@click.option(
    "--weights", "scheme", default="paper", show_default=True, metavar="SCHEME",
    help="paper, released, inverse-frequency, effective-number[=BETA] or fixed=W_ELM,W_BLM.",
)  # fmt: skip
@click.option(
    "--sweep", "swept", is_flag=True, help="Also count at all the paper's rates of ELM and BLM."
)
@click.option(
    "--top-words",
    "top",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Show the words masked most.",
)
@click.option(
    "--report", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.html",
    help="Write a page with plots and real sentences.",
)  # fmt: skip
@click.option(
    "--rows", type=click.IntRange(1), default=8, show_default=True, help="Sentences in the report."
)
@click.option(
    "--show-text", is_flag=True, help="Show patients' text, which is not shown without this."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    folder: Path | str,
    split: str,
    names: tuple[str, ...],
    scheme: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Count the tokens that a strategy masks, exactly as training with the same seed will, and the loss weights.

    N_ELM and N_BLM are masked sub-word tokens; the weights are Eq. 2 (raw), 3 (clipped) and 5 of Abaho et al. 2024,
    and others beside them.
    """
    from mslm_data.cli.mask_tables import as_dict, point_as_dict, print_tables
    from mslm_data.loading import load
    from mslm_data.stats import Scheme, schemes
    from mslm_data.stats.weights import SATURATED

    if len(names) > 1 and options["file"] is None:
        raise click.UsageError(f"--strategy: expected one without --report, got {len(names)}")
    try:
        chosen, weights = Scheme.of(scheme), schemes(scheme)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None
    shards = load(folder)
    _refuse_text(
        shards,
        {"--top-words": options["top"], "--report": options["file"]},
        shown=options["show_text"],
    )
    strategies = {name: _strategy(name, options, shards, several=len(names) > 1) for name in names}
    counted = _count(shards, split, strategies, options)
    if counted.stats[names[0]].weights.saturated:
        click.echo(f"warning: {SATURATED}; lower --elm or raise --blm", err=True)
    if options["file"]:
        _write(options["file"], counted, shards, split, strategies, weights, options)
    asked = {
        "split": split,
        "strategy": names[0],
        "seed": options["seed"],
        "epochs": options["epochs"],
    }
    report = as_dict(counted.stats[names[0]], strategies[names[0]], weights, chosen) | asked
    if options["swept"]:
        report["sweep"] = [point_as_dict(point, chosen) for point in counted.points]
    if options["top"]:
        keys = ("word", "masked", "occurrences")
        report["top_words"] = [
            dict(zip(keys, word, strict=True)) for word in counted.words[: options["top"]]
        ]
    if as_json:
        print_json(report)
    else:
        print_tables(report)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What was counted: each strategy's numbers, the first at all rates, the words that it masks most."""

    stats: Mapping[str, MaskStats]
    points: Sequence[SweepPoint]
    words: Sequence[tuple[str, int, int]]


def _strategy(name: str, options: Mapping[str, Any], shards: Shards, *, several: bool) -> Strategy:
    """Make one of the strategies that are asked for, and see that it can be counted."""
    from mslm_data.cli.strategy import of_options
    from mslm_data.errors import PipelineError

    rates = {"elm": options["elm"], "blm": options["blm"]}
    strategy = of_options(name, rates, options["sets"], shards=shards, several=several)
    if strategy.follows_step:
        raise PipelineError(
            f"strategy '{name}': expected rates that stay or follow the epoch, got one that follows the step of "
            "training, which a count of epochs does not know; set it to a number"
        )
    return strategy


def _refuse_text(shards: Shards, asked: Mapping[str, Any], *, shown: bool) -> None:
    """Refuse to show patients' text that nobody asked to see."""
    from mslm_data.errors import ShardError

    for flag, value in asked.items():
        if value and shards.manifest.protected and not shown:
            raise ShardError(
                f"{shards.folder}: holds patients' text, which {flag} shows; pass --show-text to see it"
            )


def _count(
    shards: Shards, split: str, strategies: Mapping[str, Strategy], options: Mapping[str, Any]
) -> _Counted:
    from mslm_data.stats import mask_stats, most_masked_words, sweep, word_texts
    from mslm_data.stats.grid import has_both_rates

    first = next(iter(strategies))
    if options["swept"] and not has_both_rates(strategies[first]):
        raise click.UsageError(
            f"--sweep: expected a strategy with the options elm and blm, got '{first}'"
        )
    chunks = _chunks(shards, split)
    how = {"seed": options["seed"], "epochs": options["epochs"]}
    stats = {
        name: mask_stats(chunks, way, labels=shards.labels, **how)
        for name, way in strategies.items()
    }
    points = []
    if options["swept"] or (options["file"] and has_both_rates(strategies[first])):
        points = sweep(chunks, strategies[first], **how)
    count = max(options["top"], WORDS_OF_REPORT if options["file"] else 0)
    masked = most_masked_words(chunks, strategies[first], count=count, **how) if count else []
    texts = word_texts(masked, _tokenizer(shards)) if masked else []
    return _Counted(
        stats, points, [(t, w.masked, w.occurrences) for t, w in zip(texts, masked, strict=True)]
    )


def _chunks(shards: Shards, split: str) -> Callable[[], Iterator[Examples]]:
    """Return a way to read the split, which shows how far it is."""
    from mslm_data.cli.progress import counting

    rows = shards[split]

    def chunks() -> Iterator[Examples]:
        done = 0
        with counting("mask-stats", "tokens") as show:
            for examples in rows.chunks():
                yield examples
                done += len(examples.input_ids.values)
                show(done, rows.record.tokens)

    return chunks


def _write(
    file: Path,
    counted: _Counted,
    shards: Shards,
    split: str,
    strategies: Mapping[str, Strategy],
    weights: Sequence[Scheme],
    options: Mapping[str, Any],
) -> None:
    """Write the page, readable by its owner alone."""
    from mslm_data.io.files import make_folder, write_whole
    from mslm_data.stats.report import Report, Sentences, choose_rows

    rows = choose_rows(shards[split], options["rows"])
    report = Report(
        corpus=shards.manifest.name,
        split=split,
        seed=options["seed"],
        epochs=options["epochs"],
        strategies=strategies,
        stats=counted.stats,
        sentences=Sentences(
            rows.tolist(), shards[split].take(rows), _tokenizer(shards), shards.labels
        ),
        schemes=weights,
        points=counted.points,
        words=counted.words[:WORDS_OF_REPORT],
    )
    make_folder(file.absolute().parent)
    write_whole(file, [report.html().encode()])


def _tokenizer(shards: Shards) -> Any:
    import tokenizers

    return tokenizers.Tokenizer.from_file(str(shards.tokenizer))
