"""`mslm-data audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.output import echo, print_json, table

if TYPE_CHECKING:
    from mslm_data.builds.audit import Audit
    from mslm_data.pipeline import AnnotateOptions, Pipeline
    from mslm_data.shard.manifest import Manifest

_SCORES = ("precision", "recall", "f1")


@click.command("audit", short_help="Compare weak labels with gold mentions.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--gold",
    "inputs",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Read gold mentions from these files or folders. Repeat it for further ones.",
)
@click.option(
    "--gold-source",
    required=True,
    metavar="NAME|FILE.toml",
    help="Read them with this pipeline: a shipped one, a source such as `pubtator`, or a TOML "
    "file.",
)
@click.option(
    "--gold-set",
    "gold_sets",
    multiple=True,
    metavar="STAGE.OPTION=VALUE",
    help="Change an option of that pipeline. Repeat it for further options.",
)
@click.option(
    "--label",
    "pairs",
    multiple=True,
    metavar="GOLD=OURS",
    help="Compare mentions of this gold label with those of the folder's label OURS. Repeat it for "
    "further labels.  [default: the gold pipeline's labels, each with the folder's of its name]",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="annotate.OPTION=VALUE",
    help="Name a file of the folder's annotator, such as its model, as the folder does not hold "
    "it. Repeat it for further options.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    folder: Path,
    inputs: tuple[str, ...],
    gold_source: str,
    gold_sets: tuple[str, ...],
    pairs: tuple[str, ...],
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print precision, recall and F1 of a folder's weak labels.

    The annotator that made DIR annotates the gold corpus' own text, and its mentions are compared
    with the gold ones. Each score has a 95 % interval, by drawing the gold documents anew.

    \b
    Example:
        mslm-data audit shards/mimic --set annotate.model_pack=PACK \\
            --gold NCBI_corpus --gold-source blurb/ncbi-disease \\
            --gold-set source.use=pubtator --label Disease=Disease
    """  # noqa: D301 - click wants the character
    from mslm_data.building import read_named
    from mslm_data.builds.audit import audit
    from mslm_data.shard.manifest import read_manifest
    from mslm_data.source.inputs.localise import localise

    manifest = read_manifest(folder)
    gold = read_named(gold_source, sets=gold_sets)
    labels = _labels(pairs, gold, manifest, folder)
    annotate = _annotator(manifest, sets, folder)
    result = audit(manifest, annotate, gold, localise(inputs), labels=labels)

    if as_json:
        print_json(_report(result))
    else:
        _print(result)


def _labels(
    pairs: Sequence[str], gold: Pipeline, manifest: Manifest, folder: Path
) -> dict[str, str]:
    """Return gold label -> the folder's label.

    Raises:
        PipelineError: A pair is not one, or names a label that the folder does not have.
    """
    from mslm_data.errors import PipelineError

    labels = {label: label for label in gold.annotate.labels}
    if pairs:
        labels = dict(pair.partition("=")[::2] for pair in pairs)

    unknown = sorted(set(labels.values()) - set(manifest.labels))
    if unknown or not labels:
        got = ", ".join(name or "a pair without a label" for name in unknown) or "no label"
        raise PipelineError(
            f"audit: expected --label GOLD=OURS with labels of {folder} "
            f"({', '.join(manifest.labels)}), got {got}"
        )
    return labels


def _annotator(manifest: Manifest, sets: Sequence[str], folder: Path) -> AnnotateOptions:
    """Return the folder's annotator, with options on top."""
    from mslm_data.pipeline import of_tables, with_sets

    made = manifest.pipeline["annotate"]
    tables = {
        "source": {"use": "conll"},  # a pipeline needs one; it is not used
        "annotate": {"use": made["use"], **made["options"], "rename": made["rename"]},
    }
    return of_tables(with_sets(tables, sets), name=f"{manifest.name} of {folder}").annotate


def _report(result: Audit) -> dict[str, Any]:
    """Return what `audit --json` prints."""
    labels: dict[str, dict[str, Any]] = {}
    for label, agreement in result.labels.items():
        intervals = {f"{name}_interval": of for name, of in agreement.intervals().items()}
        labels[label] = {**agreement.totals(), **agreement.scores(), **intervals}
    return {"documents": result.documents, "set_aside": result.set_aside, "labels": labels}


def _print(result: Audit) -> None:
    rows = []
    for label, agreement in result.labels.items():
        totals = agreement.totals()
        scores = agreement.scores()
        intervals = agreement.intervals()
        for how in ("exact", "overlap"):
            names = [f"{how}_{score}" for score in _SCORES]
            cells = [_cell(scores[name], intervals[name]) for name in names]
            rows.append([label, how, totals["gold"], totals["found"], *cells])

    echo(f"{result.documents:,} gold documents, {result.set_aside:,} set aside")
    echo(table(("label", "match", "gold", "found", *_SCORES), rows))
    echo("in brackets: 95 % intervals, by the bootstrap over documents")


def _cell(score: float, interval: tuple[float, float]) -> str:
    """Return a score with its interval."""
    low, high = interval
    return f"{score:.3f} [{low:.3f}, {high:.3f}]"
