"""`mslm-data build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.output import print_json, table

if TYPE_CHECKING:
    from mslm_data.encode.tokenizer import Tokenizer
    from mslm_data.pipeline import Pipeline
    from mslm_data.shard.manifest import Manifest


class PartOfAll(click.ParamType[tuple[int, int]]):
    """`I/N`: part I of N, from 1."""

    name = "I/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return (I, N)."""
        part, slash, parts = str(value).partition("/")
        if not (slash and part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
            self.fail(f"expected I/N with 1 <= I <= N, such as 2/8, got '{value}'", param, ctx)
        return int(part), int(parts)


@click.command("build", short_help="Turn a corpus into Arrow shards.")
@click.option(
    "--source",
    required=True,
    help="A shipped pipeline (see `recipes`), a TOML file, or `blurb` for all six.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    help="Files or folders, here or at any URL that fsspec knows.",
)
@click.argument("more_inputs", nargs=-1, metavar="")
@click.option(
    "--tokenizer", help="A tokenizer.json, a vocab.txt, a Hugging Face folder or a hub id."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The folder to build.  [default: shards/NAME]"
)
@click.option(
    "--sample",
    is_flag=True,
    help="Build from the small corpus and tokenizer that the package ships.",
)
@click.option(
    "--workers", type=click.IntRange(1), help="Processes.  [default: by the size of the input]"
)
@click.option("--engine", default="local", show_default=True, help="What runs the work units.")
@click.option("--part", type=PartOfAll(), help="Do every N-th work unit only, for array jobs.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="STAGE.OPTION=VALUE",
    help="Change an option of the pipeline.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be built, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    source: str,
    inputs: tuple[str, ...],
    more_inputs: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn a corpus into a folder of Arrow shards with BIO tags and entity-span indices.

    A build that was ended goes on where it stopped by the same command.

    \b
    mslm-data build --source blurb/ncbi-disease --tokenizer bert-base-cased
    mslm-data build --source my.toml --input notes/ --tokenizer vocab.txt --out shards/mine
    """  # noqa: D301 - click wants the character
    from mslm_data.io import resources

    names = (
        [name for name in resources.pipeline_names() if name.startswith("blurb/")]
        if source == "blurb"
        else [source]
    )
    if len(names) > 1 and (inputs or more_inputs):
        raise click.UsageError(
            "--source blurb fetches or samples all six; with --input name one of them"
        )
    reports = {}
    for name in names:
        folder = _folder(name, out, several=len(names) > 1, sample=options["sample"])
        quiet = as_json or len(names) > 1
        reports[name] = _build(name, [*inputs, *more_inputs], folder, quiet=quiet, **options)
    if as_json:
        print_json(reports[source] if source in reports else _together(reports, out))
    elif len(names) > 1:
        _print_several(reports, planned=options["dry_run"])


def _folder(name: str, out: Path | None, *, several: bool, sample: bool) -> Path:
    last = Path(name).stem
    if out is None:
        return Path("shards") / (f"{last}-sample" if sample else last)
    return out / last if several else out


def _build(
    name: str,
    inputs: list[str],
    out: Path,
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
    """Build one dataset and return its report."""
    from mslm_data.builds import build
    from mslm_data.builds.plan import make_plan
    from mslm_data.cli.private import warn_of_readers
    from mslm_data.cli.progress import showing
    from mslm_data.pipeline import read

    pipeline = read(name, sets=sets)
    pipeline = pipeline.sampled() if sample else pipeline
    loaded = _tokenizer(pipeline, tokenizer, sample=sample)
    paths = inputs_of(pipeline, inputs, sample=sample)
    if dry_run:
        plan = make_plan(pipeline, paths, loaded)
        report: dict[str, Any] = {
            "out": str(out),
            "dry_run": True,
            "labels": list(plan.labels),
            "splits": {},
        }
        for split, files in plan.sources.items():
            size = sum(file["bytes"] for file in files)
            report["splits"][split] = {
                "files": len(files),
                "bytes": size,
                "shards": plan.totals()[split],
            }
        _print_plan(report, quiet=quiet)
        return report
    if pipeline.about.protected or pipeline.encode.keep_text:
        warn_of_readers([out, *_copies(paths, inputs)])
    with showing(pipeline.name) as progress:
        manifest = build(
            pipeline,
            paths,
            loaded,
            out,
            workers=workers,
            engine=engine,
            part=part,
            progress=progress,
        )
    if manifest is None:
        done = f"part {part[0]} of {part[1]}" if part else ""
        if not quiet:
            click.echo(
                f"{out}: {done} is done; the same command without --part finishes the folder"
            )
        return {"out": str(out), "part": list(part or ())}
    report = {"out": str(out), **report_of(manifest)}
    if not quiet:
        _print_report(report, manifest)
    return report


def inputs_of(pipeline: Pipeline, inputs: list[str], *, sample: bool) -> list[Path]:
    """Return what to read: the sample, what the user has, or what is fetched."""
    from mslm_data.cli.progress import downloading
    from mslm_data.errors import PipelineError
    from mslm_data.io import resources
    from mslm_data.source.inputs.fetch import fetch
    from mslm_data.source.inputs.localise import localise

    if sample:
        if inputs:
            raise click.UsageError("--sample brings its own corpus; leave --input out")
        if not pipeline.sample:
            raise PipelineError(
                f"pipeline '{pipeline.name}': it has no sample; pass your corpus with --input"
            )
        return [resources.path("vocab", pipeline.sample)]
    if inputs:
        return localise(inputs)
    if pipeline.source.options.get("dataset"):
        return []
    with downloading() as progress:
        return fetch(pipeline.name, pipeline.fetch, progress=progress)


def _copies(paths: list[Path], inputs: list[str]) -> list[Path]:
    """Return the cache folders that hold copies of inputs, which came from elsewhere or were packed."""
    from mslm_data.io import cache

    copied = [path for path in paths if inputs and str(path) not in inputs]
    kinds = [cache.folder(kind) for kind in ("inputs", "unpacked")] if copied else []
    return [kind for kind in kinds if any(path.is_relative_to(kind) for path in copied)]


def _tokenizer(pipeline: Pipeline, name: str | None, *, sample: bool) -> Tokenizer:
    from mslm_data.encode.tokenizer import load
    from mslm_data.errors import PipelineError
    from mslm_data.io import resources

    name = name or pipeline.encode.tokenizer
    if not name and not sample:
        raise PipelineError(
            f"pipeline '{pipeline.name}': it needs a tokenizer; pass --tokenizer with a tokenizer.json, a vocab.txt, a "
            "Hugging Face folder or a hub id"
        )
    return load(
        name or str(resources.path("vocab", "sample/vocab.txt")),
        lowercase=pipeline.encode.lowercase,
    )


def report_of(manifest: Manifest) -> dict[str, Any]:
    """Return what `build --json` says of a built folder, but for where it is."""
    return {
        "labels": list(manifest.labels),
        "splits": {
            name: {
                "documents": split.written,
                "sequences": split.sequences,
                "tokens": split.tokens,
                "mentions": split.mentions,
                "shards": len(split.shards),
                "set_aside": split.set_aside,
                "given_mentions": split.given_mentions,
                "left_out": dict(split.left_out),
                "adjusted": dict(split.adjusted),
                "cut_mentions": split.cut_mentions,
            }
            for name, split in manifest.splits.items()
        },
        **{
            total: sum(getattr(split, total) for split in manifest.splits.values())
            for total in ("read", "written", "set_aside")
        },
    }


def _together(reports: dict[str, dict[str, Any]], out: Path | None) -> dict[str, Any]:
    totals = {
        total: sum(report.get(total, 0) for report in reports.values())
        for total in ("read", "written", "set_aside")
    }
    return {"out": str(out or "shards"), "datasets": reports, **totals}


_COLUMNS = ("documents", "sequences", "tokens", "mentions", "shards", "set_aside")


def _print_several(reports: dict[str, dict[str, Any]], *, planned: bool) -> None:
    columns = ("files", "bytes", "shards") if planned else _COLUMNS
    rows = [
        (report["out"], split, *map(counts.get, columns))
        for report in reports.values()
        for split, counts in report.get("splits", {}).items()
    ]
    click.echo(table(("folder", "split", *(column.replace("_", " ") for column in columns)), rows))


def _print_plan(report: dict[str, Any], *, quiet: bool) -> None:
    if not quiet:
        rows = [
            (name, split["files"], split["bytes"], split["shards"])
            for name, split in report["splits"].items()
        ]
        click.echo(f"{report['out']}: would be built; labels {', '.join(report['labels'])}")
        click.echo(table(("split", "files", "bytes", "shards"), rows))


def _print_report(report: dict[str, Any], manifest: Manifest) -> None:
    rows = [(name, *map(split.get, _COLUMNS)) for name, split in report["splits"].items()]
    click.echo(
        f"{report['out']}: {manifest.about['title'] or manifest.name}; labels {', '.join(manifest.labels)}"
    )
    click.echo(table(("split", *(column.replace("_", " ") for column in _COLUMNS)), rows))
    for name, split in report["splits"].items():
        for reason, count in split["left_out"].items():
            click.echo(
                f"{name}: {count:,} of {split['given_mentions']:,} mentions left out: {reason}"
            )
        for reason, count in split["adjusted"].items():
            click.echo(f"{name}: {count:,} mentions not just as the source has them: {reason}")
        if split["cut_mentions"]:
            click.echo(f"{name}: {split['cut_mentions']:,} mentions cut by the ends of rows")
    if report["set_aside"]:
        click.echo(
            f"{report['set_aside']:,} of {report['read']:,} documents set aside, with reasons in set_aside.jsonl"
        )
