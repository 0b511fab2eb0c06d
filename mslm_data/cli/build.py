"""`mslm-data build`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
import msgspec
from msgspec.structs import astuple

from mslm_data.cli.command import argument, make_command, option
from mslm_data.cli.options import FileOrFolder, Positive
from mslm_data.log import few, plain
from mslm_data.registry import Options
from mslm_data.results import Result, Table

if TYPE_CHECKING:
    from mslm_data.api.building import Prepared
    from mslm_data.builds import Preview
    from mslm_data.shard.agreement import PairAgreement
    from mslm_data.shard.manifest import Manifest, SplitRecord
    from mslm_data.source.reading.splits import Unread

_NAMES_SHOWN = 5
"""Maximum number of files or labels in a line."""
_MANY_WIDENED = 0.05
"""Share of widened mentions above which offsets are probably misread. With correct offsets it is
below 0.001."""
_PART_OF_ALL = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
"""Numbers of at most 9 digits: `int` raises an error for thousands of digits."""


class PartOfAll(click.ParamType[tuple[int, int]]):
    """`I/N`: part I of N, counted from 1."""

    name = "I/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return (I, N)."""
        match = _PART_OF_ALL.fullmatch(str(value))
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            self.fail(f"expected I/N with 1 <= I <= N, such as 2/8, got '{value}'", param, ctx)
        return int(match[1]), int(match[2])


class Build(Options, frozen=True, kw_only=True):
    """Options of `mslm-data build`."""

    source: Annotated[
        str,
        option(
            "Pipeline: a shipped one from `mslm-data recipes`, `blurb` for all six of BLURB, a "
            "source from `mslm-data recipes --sources` with its default options, a TOML file, or "
            "`auto` to recognise the files.",
            metavar="NAME|FILE.toml|auto",
        ),
    ]
    input: Annotated[
        tuple[str, ...],
        option(
            "Input file, folder or fsspec URL. Can be repeated.",
            metavar="PATH",
            default="the corpus from its public home",
        ),
    ] = ()
    more_inputs: Annotated[tuple[str, ...], argument("")] = ()
    tokenizer: Annotated[
        str | None,
        option(
            "Tokenizer: a tokenizer.json, a vocab.txt, a Hugging Face folder or a hub id.",
            metavar="PATH|ID",
            default="the pipeline's",
        ),
    ] = None
    out: Annotated[
        Path | None,
        option(
            "Output folder for the shards.",
            metavar="DIR",
            type=FileOrFolder(),
            default="shards/NAME",
        ),
    ] = None
    sample: Annotated[
        bool, option("Build the small corpus that the package ships, with its tokenizer.")
    ] = False
    workers: Annotated[
        Positive | None,
        option(
            "Number of parallel work units.",
            metavar="N",
            default="1 for small inputs, else the available CPUs",
        ),
    ] = None
    engine: Annotated[
        str,
        option(
            "Where work units run: in local processes or on a Ray cluster.", metavar="local|ray"
        ),
    ] = "local"
    part: Annotated[
        tuple[int, int] | None,
        option(
            "Part of the work units to build, for array jobs: every N-th from the I-th. The "
            "command without it finishes the folder.",
            type=PartOfAll(),
            separator="/",
        ),
    ] = None
    set: Annotated[
        tuple[str, ...],
        option("Option of the pipeline. Can be repeated.", metavar="STAGE.OPTION=VALUE"),
    ] = ()
    dry_run: Annotated[bool, option("Show the plan without writing anything.")] = False


# Results ------------------------------------------------------------------------------------------


class SourceUsed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of a build; if it was recognised, what was found and why."""

    use: str
    found: str | None = None
    why: str | None = None


class BuiltSplit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counts of a split; see `data.accounts.Counts`."""

    documents: int
    sequences: int
    tokens: int
    mentions: int
    shards: int
    set_aside: int
    set_aside_reasons: Mapping[str, int] = {}
    not_chosen: Mapping[str, int]
    duplicates: Mapping[str, int] = {}
    equal_texts: Mapping[str, int] = {}
    given_mentions: int
    left_out: Mapping[str, int]
    adjusted: Mapping[str, int]
    widened_mentions: int
    cut_mentions: int

    heads: ClassVar = ("documents", "rows", "tokens", "mentions", "shards", "set aside")
    """Headings of the first fields."""


class PlannedSplit(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a split that would be built."""

    files: int
    bytes: int
    shards: int
    documents: int
    set_aside: int

    heads: ClassVar = ("files", "bytes", "shards", "documents", "set aside")
    """Headings of the fields."""


class SetAsideReason(msgspec.Struct, frozen=True):
    """A reason, the number of documents that would be set aside, and the place of the first."""

    documents: int
    first: str
    reason: str


class Planned(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a build, as `--dry-run` shows it.

    Attributes:
        out: The output folder.
        dry_run: True.
        labels: Labels, by index.
        splits: Split -> its counts.
        reasons: Documents that would be set aside.
        source: The source.
        files: Split -> the files that are read.
        unread: Reason -> the files that are not read.
    """

    out: Path
    dry_run: bool
    labels: Sequence[str]
    splits: dict[str, PlannedSplit]
    reasons: list[SetAsideReason]
    source: SourceUsed
    files: Mapping[str, list[str]]
    unread: dict[str, list[str]]

    def tables(self) -> Iterator[str | Table]:
        """Yield a row for each split, the files, and the reasons."""
        labels = ", ".join(self.labels) or "none"
        yield plain(f"{self.out}: would be built; labels {labels}")
        yield split_table([self])
        yield from file_lines(self.files, self.unread)
        for each in self.reasons:
            yield plain(
                f"{each.documents:,} would be set aside, first at {each.first}: {each.reason}"
            )


class PartBuilt(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A part of a folder, which another call finishes."""

    out: Path
    part: tuple[int, int]
    source: SourceUsed

    def tables(self) -> Iterator[str | Table]:
        """Yield a line that says how to go on."""
        number, parts = self.part
        yield (
            f"{self.out}: part {number} of {parts} is done; the same command without --part "
            "finishes the folder"
        )


class Built(Result, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A built folder.

    Attributes:
        out: The folder.
        title: Title of the corpus.
        labels: Labels, by index.
        doc_labels: Labels of documents, by index.
        splits: Split -> its counts.
        read: Number of documents read.
        written: Number of documents with rows.
        set_aside: Number of documents without rows.
        agreement: Agreement of the annotators, if there are several.
        source: The source.
        files: Split -> the files that were read.
        unread: Reason -> the files that were not read.
    """

    out: Path
    title: str
    labels: Sequence[str]
    doc_labels: Sequence[str] = ()
    splits: dict[str, BuiltSplit]
    read: int
    written: int
    set_aside: int
    agreement: list[PairAgreement] = []
    source: SourceUsed
    files: Mapping[str, list[str]]
    unread: dict[str, list[str]]

    def tables(self) -> Iterator[str | Table]:
        """Yield a row for each split, the files, and what was left out or changed."""
        from mslm_data.shard.agreement import agreement_table

        labels = ", ".join(self.labels) or "none"
        if self.doc_labels:
            labels += f"; labels of documents {few(self.doc_labels, _NAMES_SHOWN)}"
        yield plain(f"{self.out}: {self.title}; labels {labels}")
        yield split_table([self])
        yield from file_lines(self.files, self.unread)
        for name, split in self.splits.items():
            yield from map(plain, _losses(name, split))

        yield from agreement_table(self.agreement)
        if self.set_aside:
            yield (
                f"{self.set_aside:,} of {self.read:,} documents set aside, with reasons in "
                "set_aside.jsonl"
            )


class BuiltSeveral(Result, msgspec.Struct, frozen=True, kw_only=True):
    """Several datasets, each in a folder of its own, with their total numbers of documents."""

    out: Path
    datasets: dict[str, Built | Planned | PartBuilt]
    read: int
    written: int
    set_aside: int

    def tables(self) -> Iterator[str | Table]:
        """Yield a line for each part, and a row for each split of the others."""
        whole = []
        for dataset in self.datasets.values():
            if isinstance(dataset, PartBuilt):
                yield from dataset.tables()
            else:
                whole.append(dataset)
        if whole:
            yield split_table(whole, has_folders=True)


def split_table(datasets: Sequence[Built | Planned], *, has_folders: bool = False) -> Table:
    """Return a row for each split of some datasets of one kind, also with their folders."""
    heads: tuple[str, ...] = ()
    rows = []
    for dataset in datasets:
        for name, split in dataset.splits.items():
            heads = split.heads
            place = [str(dataset.out), name] if has_folders else [name]
            rows.append([*place, *astuple(split)[: len(heads)]])
    return Table(rows, head=(*(["folder"] * has_folders), "split", *heads))


def file_lines(
    files: Mapping[str, Sequence[str]], unread: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the first files that are read and not read, and the number of others."""
    for split, names in files.items():
        yield plain(f"{split}: read {few(names, _NAMES_SHOWN)}")
    for reason, names in unread.items():
        yield plain(f"not read: {few(names, _NAMES_SHOWN)}: {reason}")


def _losses(name: str, split: BuiltSplit) -> Iterator[str]:
    """Yield a line for each reason for which records, mentions or offsets are not as given."""
    read = split.documents + split.set_aside
    records = read + sum(split.not_chosen.values())
    for reason, count in split.not_chosen.items():
        yield f"{name}: {count:,} of {records:,} records not chosen: {reason}"
    for reason, count in split.set_aside_reasons.items():
        yield f"{name}: {count:,} of {read:,} documents set aside: {reason}"
    for reason, count in split.left_out.items():
        yield f"{name}: {count:,} of {split.given_mentions:,} mentions left out: {reason}"
    for reason, count in split.adjusted.items():
        yield f"{name}: {count:,} mentions differ from the source: {reason}"
    for kind, count in split.duplicates.items():
        yield f"{name}: {count:,} documents are {kind} copies of others"
    if split.widened_mentions:
        yield _widened(name, split.widened_mentions, split.given_mentions)
    if split.cut_mentions:
        yield f"{name}: {split.cut_mentions:,} mentions cut by the ends of rows"


def _widened(split: str, widened: int, given: int) -> str:
    """Return the message about mentions that begin or end within a token."""
    message = (
        f"{split}: {widened:,} of {given:,} mentions begin or end within a token and were widened "
        "to whole tokens"
    )
    if widened <= _MANY_WIDENED * given:
        return message
    return (
        f"warning: {message}; the offsets may have other units: see source.ends (inclusive), "
        "source.offsets (utf-16, bytes) and source.newlines (one)"
    )


# The command --------------------------------------------------------------------------------------


@make_command("build", Build)
def command(options: Build) -> Result:
    r"""Turn a corpus into a folder of Arrow shards with BIO tags and entity-span indices.

    Run the same command again to resume an interrupted build.

    --json has out, splits, read, written and set_aside. Several corpora (--source blurb) have their
    splits under datasets; a part (--part) has no counts before it is joined.

    \b
    Example:
        mslm-data build --source blurb/ncbi-disease --tokenizer bert-base-cased
        mslm-data build --source my.toml --input notes/ --tokenizer vocab.txt \
            --out shards/mine
    """
    from mslm_data.io import resources

    if options.source != "blurb":
        return _build(options.source, options, options.out)
    if options.input or options.more_inputs:
        raise click.UsageError(
            "--source blurb fetches or samples all six; with --input name one of them"
        )

    datasets = {}
    for name in resources.pipeline_names():
        if name.startswith("blurb/"):
            folder = options.out / Path(name).stem if options.out else None
            datasets[name] = _build(name, options, folder)
    built = [dataset for dataset in datasets.values() if isinstance(dataset, Built)]
    return BuiltSeveral(
        out=options.out or Path("shards"),
        datasets=datasets,
        read=sum(dataset.read for dataset in built),
        written=sum(dataset.written for dataset in built),
        set_aside=sum(dataset.set_aside for dataset in built),
    )


def _build(name: str, options: Build, out: Path | None) -> Built | Planned | PartBuilt:
    """Build one dataset, or plan it."""
    from mslm_data.engine.memory import keep_freed_memory

    keep_freed_memory()

    # After `keep_freed_memory`, which must run before pyarrow is imported.
    from mslm_data.api.building import prepare
    from mslm_data.cli.progress import downloading, showing

    ready = prepare(
        name,
        input=[*options.input, *options.more_inputs],
        tokenizer=options.tokenizer,
        out=out,
        workers=1 if options.dry_run else options.workers,
        engine=options.engine,
        sets=options.set,
        sample=options.sample,
        downloading=downloading,
    )
    if options.dry_run:
        return _plan(ready, ready.preview())

    with showing(ready.pipeline.name) as progress:
        manifest = ready.run(part=options.part, progress=progress)
    if manifest is None:
        return PartBuilt(out=ready.out, part=options.part or (1, 1), source=_source(ready))
    return _describe(ready, manifest)


def _source(ready: Prepared) -> SourceUsed:
    use = ready.pipeline.source.use
    if ready.recognised is None:
        return SourceUsed(use=use)
    return SourceUsed(use=use, found=ready.recognised.what, why=ready.recognised.why)


def _by_reason(unread: Sequence[Unread]) -> dict[str, list[str]]:
    """Return reason -> the files that are not read."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unread:
        by_reason.setdefault(reason, []).append(name)
    return by_reason


def _plan(ready: Prepared, preview: Preview) -> Planned:
    splits = {}
    for split, counts in preview.counts.items():
        units = [unit for unit in preview.plan.units if unit.split == split]
        splits[split] = PlannedSplit(
            files=len({part.path for unit in units for part in unit.parts}),
            bytes=sum(unit.bytes for unit in units),
            shards=len({unit.shard for unit in units}),
            documents=counts.written,
            set_aside=counts.aside,
        )

    documents = Counter(document.reason for document in preview.set_aside)
    first = {document.reason: document.place for document in reversed(preview.set_aside)}
    files, unread = ready.files()
    return Planned(
        out=ready.out,
        dry_run=True,
        labels=preview.labels,
        splits=splits,
        reasons=[
            SetAsideReason(number, first[reason], reason.text)
            for reason, number in documents.most_common()
        ],
        source=_source(ready),
        files=files,
        unread=_by_reason(unread),
    )


def _describe(ready: Prepared, manifest: Manifest) -> Built:
    from mslm_data.data.accounts import Counts
    from mslm_data.shard.agreement import pairs

    counts = sum(manifest.splits.values(), Counts())
    files, unread = ready.files()
    return Built(
        out=ready.out,
        title=manifest.about["title"] or manifest.name,
        labels=manifest.labels,
        doc_labels=manifest.doc_labels or (),
        splits={name: _describe_split(split) for name, split in manifest.splits.items()},
        read=counts.read,
        written=counts.written,
        set_aside=counts.aside,
        agreement=[*pairs(manifest.found_by or ())],
        source=_source(ready),
        files=files,
        unread=_by_reason(unread),
    )


def _describe_split(split: SplitRecord) -> BuiltSplit:
    return BuiltSplit(
        documents=split.written,
        sequences=split.sequences,
        tokens=split.tokens,
        mentions=split.mentions,
        shards=len(split.shards),
        set_aside=split.aside,
        set_aside_reasons=split.set_aside,
        not_chosen=split.not_chosen,
        duplicates=split.copies,
        equal_texts=split.equal_texts,
        given_mentions=split.given_mentions,
        left_out=split.left_out,
        adjusted=split.adjusted,
        widened_mentions=split.widened_mentions,
        cut_mentions=split.cut_mentions,
    )
