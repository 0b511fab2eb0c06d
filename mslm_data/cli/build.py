"""`mslm-data build`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.agreement import agreement_record, print_agreement
from mslm_data.cli.options import FileOrFolder
from mslm_data.cli.output import echo, print_json, table
from mslm_data.log import few, plain

if TYPE_CHECKING:
    from mslm_data.api.building import Prepared
    from mslm_data.builds import Preview
    from mslm_data.shard.manifest import Manifest
    from mslm_data.source.reading.splits import Unread

_TOTALS = ("read", "written", "set_aside")
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


@click.command("build", short_help="Turn a corpus into Arrow shards.")
@click.option(
    "--source",
    required=True,
    metavar="NAME|FILE.toml|auto",
    help="Pipeline: a shipped one from `mslm-data recipes`, `blurb` for all six of BLURB, a source "
    "from `mslm-data recipes --sources` with its default options, a TOML file, or `auto` to "
    "recognise the files.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="PATH",
    help="Input file, folder or fsspec URL. Can be repeated.  [default: the corpus from its public "
    "home]",
)
@click.argument("more_inputs", nargs=-1, metavar="")
@click.option(
    "--tokenizer",
    metavar="PATH|ID",
    help="Tokenizer: a tokenizer.json, a vocab.txt, a Hugging Face folder or a hub id.  [default: "
    "the pipeline's]",
)
@click.option(
    "--out",
    type=FileOrFolder(),
    metavar="DIR",
    help="Output folder for the shards.  [default: shards/NAME]",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Build the small corpus that the package ships, with its tokenizer.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of parallel work units.  [default: 1 for small inputs, else the available CPUs]",
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="local|ray",
    help="Where work units run: in local processes or on a Ray cluster.",
)
@click.option(
    "--part",
    type=PartOfAll(),
    help="Part of the work units to build, for array jobs: every N-th from the I-th. The command "
    "without it finishes the folder.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="STAGE.OPTION=VALUE",
    help="Option of the pipeline. Can be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan without writing anything.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object instead of a table: out, splits, read, written and set_aside. "
    "Several corpora (--source blurb) have their splits under datasets; a part (--part) has no "
    "counts before it is joined.",
)
def command(
    source: str,
    inputs: tuple[str, ...],
    more_inputs: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn a corpus into a folder of Arrow shards with BIO tags and entity-span indices.

    Run the same command again to resume an interrupted build.

    \b
    Example:
        mslm-data build --source blurb/ncbi-disease --tokenizer bert-base-cased
        mslm-data build --source my.toml --input notes/ --tokenizer vocab.txt \\
            --out shards/mine
    """  # noqa: D301 - click wants the character
    from mslm_data.io import resources

    names = [source]
    if source == "blurb":
        names = [name for name in resources.pipeline_names() if name.startswith("blurb/")]
    several = len(names) > 1
    if several and (inputs or more_inputs):
        raise click.UsageError(
            "--source blurb fetches or samples all six; with --input name one of them"
        )

    # Several datasets: build each into its own folder, and print one table at the end.
    reports = {}
    for name in names:
        folder = out / Path(name).stem if out and several else out
        quiet = as_json or several
        reports[name] = _build(name, [*inputs, *more_inputs], folder, quiet=quiet, **options)

    if as_json:
        print_json(_together(reports, out) if several else reports[source])
    elif several:
        _print_several(reports, planned=options["dry_run"])


def _build(
    name: str,
    inputs: list[str],
    out: Path | None,
    *,
    quiet: bool,
    tokenizer: str | None,
    sample: bool,
    workers: int | None,
    engine: str,
    part: tuple[int, int] | None,
    sets: tuple[str, ...],
    dry_run: bool,
) -> dict[str, Any]:
    """Build one dataset. Print its report unless `quiet`, and return it."""
    from mslm_data.engine.memory import keep_freed_memory

    keep_freed_memory()

    # After `keep_freed_memory`, which must run before pyarrow is imported.
    from mslm_data.api.building import prepare
    from mslm_data.cli.progress import downloading, showing

    ready = prepare(
        name,
        input=inputs,
        tokenizer=tokenizer,
        out=out,
        workers=1 if dry_run else workers,
        engine=engine,
        sets=sets,
        sample=sample,
        downloading=downloading,
    )
    if dry_run:
        report = _planned(ready.out, ready.preview()) | _origin(ready) | _files(*ready.files())
        if not quiet:
            _print_plan(report)
        return report

    with showing(ready.pipeline.name) as progress:
        manifest = ready.run(part=part, progress=progress)

    if manifest is None:
        report = {"out": str(ready.out), "part": [*(part or (1, 1))], **_origin(ready)}
        if not quiet:
            _print_part(report)
        return report

    report = {
        "out": str(ready.out),
        **build_report(manifest),
        **_origin(ready),
        **_files(*ready.files()),
    }
    if not quiet:
        _print_report(report, manifest)
    return report


# Reports ------------------------------------------------------------------------------------------


def build_report(manifest: Manifest) -> dict[str, Any]:
    """Return the JSON object of `build --json` for a built folder, without its path."""
    from mslm_data.data.accounts import Counts

    splits = {
        name: {
            "documents": split.written,
            "sequences": split.sequences,
            "tokens": split.tokens,
            "mentions": split.mentions,
            "shards": len(split.shards),
            "set_aside": split.aside,
            "not_chosen": split.not_chosen,
            **({"duplicates": split.copies} if split.copies else {}),
            **({"equal_texts": split.equal_texts} if split.equal_texts else {}),
            "given_mentions": split.given_mentions,
            "left_out": dict(split.left_out),
            "adjusted": dict(split.adjusted),
            "widened_mentions": split.widened_mentions,
            "cut_mentions": split.cut_mentions,
        }
        for name, split in manifest.splits.items()
    }
    counts = sum(manifest.splits.values(), Counts())
    return {
        "labels": list(manifest.labels),
        "splits": splits,
        "read": counts.read,
        "written": counts.written,
        "set_aside": counts.aside,
        **agreement_record(manifest),
    }


def _origin(ready: Prepared) -> dict[str, Any]:
    """Return the source of the build, with the reason if it was recognised."""
    source: dict[str, Any] = {"use": ready.pipeline.source.use}
    if ready.recognised is not None:
        source |= {"found": ready.recognised.what, "why": ready.recognised.why}
    return {"source": source}


def _files(read: Mapping[str, Sequence[str]], unread: Sequence[Unread]) -> dict[str, Any]:
    """Return the files that are read, by split, and the other files, by reason."""
    by_reason: dict[str, list[str]] = {}
    for below, reason in unread:
        by_reason.setdefault(reason, []).append(below)
    return {"files": read, "unread": by_reason}


def _planned(out: Path, preview: Preview) -> dict[str, Any]:
    """Return the JSON object of `build --dry-run --json`."""
    splits = {}
    for split, counts in preview.counts.items():
        units = [unit for unit in preview.plan.units if unit.split == split]
        splits[split] = {
            "files": len({part.path for unit in units for part in unit.parts}),
            "bytes": sum(unit.bytes for unit in units),
            "shards": len({unit.shard for unit in units}),
            "documents": counts.written,
            "set_aside": counts.aside,
        }

    documents = Counter(document.reason for document in preview.set_aside)
    first = {document.reason: document.place for document in reversed(preview.set_aside)}
    reasons = [
        {"documents": number, "first": first[reason], "reason": reason.text}
        for reason, number in documents.most_common()
    ]
    return {
        "out": str(out),
        "dry_run": True,
        "labels": [*preview.labels],
        "splits": splits,
        "reasons": reasons,
    }


def _together(reports: Mapping[str, Mapping[str, Any]], out: Path | None) -> dict[str, Any]:
    """Return one report for several datasets."""
    totals = {total: sum(report.get(total, 0) for report in reports.values()) for total in _TOTALS}
    return {"out": str(out or "shards"), "datasets": reports, **totals}


# Tables -------------------------------------------------------------------------------------------

_COLUMNS = {
    "documents": "documents",
    "sequences": "rows",
    "tokens": "tokens",
    "mentions": "mentions",
    "shards": "shards",
    "set_aside": "set aside",
}
"""Key of a report -> heading of its column."""
_NAMES_SHOWN = 5
"""Maximum number of files or labels in a line."""
_MANY_WIDENED = 0.05
"""Share of widened mentions above which offsets are probably misread. With correct offsets it is
below 0.001."""
_PLANNED = {
    "files": "files",
    "bytes": "bytes",
    "shards": "shards",
    "documents": "documents",
    "set_aside": "set aside",
}


def _print_splits(
    reports: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, folders: bool
) -> None:
    """Print a line per split."""
    rows = []
    for report in reports:
        for split, counts in report.get("splits", {}).items():
            place = [report["out"], split] if folders else [split]
            rows.append([*place, *(counts[key] for key in columns)])

    heads = ["folder", "split"] if folders else ["split"]
    echo(table([*heads, *columns.values()], rows))


def _print_several(reports: Mapping[str, Mapping[str, Any]], *, planned: bool) -> None:
    built = []
    for report in reports.values():
        if "part" in report:
            _print_part(report)
        else:
            built.append(report)
    if built:
        _print_splits(built, _PLANNED if planned else _COLUMNS, folders=True)


def _print_part(report: Mapping[str, Any]) -> None:
    number, parts = report["part"]
    echo(
        f"{report['out']}: part {number} of {parts} is done; the same command without --part "
        "finishes the folder"
    )


def _print_files(report: Mapping[str, Any]) -> None:
    """Print the first files that are read and not read, and the number of others."""
    for split, names in report["files"].items():
        echo(plain(f"{split}: read {few(names, _NAMES_SHOWN)}"))
    for reason, names in report["unread"].items():
        echo(plain(f"not read: {few(names, _NAMES_SHOWN)}: {reason}"))


def _print_plan(report: Mapping[str, Any]) -> None:
    labels = ", ".join(report["labels"]) or "none"
    echo(plain(f"{report['out']}: would be built; labels {labels}"))
    _print_splits([report], _PLANNED, folders=False)
    _print_files(report)
    for each in report["reasons"]:
        echo(
            plain(
                f"{each['documents']:,} would be set aside, first at {each['first']}: "
                f"{each['reason']}"
            )
        )


def _print_report(report: Mapping[str, Any], manifest: Manifest) -> None:
    title = manifest.about["title"] or manifest.name
    labels = ", ".join(manifest.labels) or "none"
    if manifest.doc_labels:
        labels += f"; labels of documents {few(manifest.doc_labels, _NAMES_SHOWN)}"
    echo(plain(f"{report['out']}: {title}; labels {labels}"))
    _print_splits([report], _COLUMNS, folders=False)
    _print_files(report)

    for name, split in report["splits"].items():
        records = manifest.splits[name].read + sum(split["not_chosen"].values())
        for reason, count in split["not_chosen"].items():
            echo(plain(f"{name}: {count:,} of {records:,} records not chosen: {reason}"))
        given = split["given_mentions"]
        for reason, count in split["left_out"].items():
            echo(plain(f"{name}: {count:,} of {given:,} mentions left out: {reason}"))
        for reason, count in split["adjusted"].items():
            echo(plain(f"{name}: {count:,} mentions differ from the source: {reason}"))
        for kind, count in split.get("duplicates", {}).items():
            echo(f"{name}: {count:,} documents are {kind} copies of others")
        if split["widened_mentions"]:
            echo(_widened(name, split["widened_mentions"], given))
        if split["cut_mentions"]:
            echo(f"{name}: {split['cut_mentions']:,} mentions cut by the ends of rows")

    print_agreement(report.get("agreement", ()))
    if report["set_aside"]:
        echo(
            f"{report['set_aside']:,} of {report['read']:,} documents set aside, with reasons in "
            "set_aside.jsonl"
        )


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
