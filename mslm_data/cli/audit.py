"""`mslm-data audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mslm_data.cli.output import print_json, table

_SCORES = ("precision", "recall", "f1")


@click.command("audit", short_help="Compare weak labels with gold mentions.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--gold", "inputs", multiple=True, required=True, help="Gold files or folders.")
@click.option(
    "--gold-source", required=True, help="How to read them: a shipped pipeline or a TOML file."
)
@click.option(
    "--gold-set",
    "gold_sets",
    multiple=True,
    metavar="STAGE.OPTION=VALUE",
    help="Change that pipeline.",
)
@click.option(
    "--label",
    "pairs",
    multiple=True,
    metavar="GOLD=OURS",
    help="A gold label and the folder's name for it.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="annotate.OPTION=VALUE",
    help="Files of the folder's annotator.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    folder: Path,
    inputs: tuple[str, ...],
    gold_source: str,
    gold_sets: tuple[str, ...],
    pairs: tuple[str, ...],
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Annotate the gold corpus' own text as DIR's was, and print precision, recall and F1 for each label.

    \b
    mslm-data audit shards/mimic --set annotate.model_pack=PACK \
        --gold NCBI_corpus --gold-source blurb/ncbi-disease --gold-set source.use=pubtator --label Disease=Disease
    """  # noqa: D301 - click wants the character
    from mslm_data.builds.audit import audit
    from mslm_data.errors import PipelineError
    from mslm_data.pipeline import of_tables, read, with_sets
    from mslm_data.shard.manifest import read_manifest
    from mslm_data.source.inputs.localise import localise

    manifest = read_manifest(folder)
    made = manifest.pipeline["annotate"]
    tables = {
        "source": {"use": "conll"},
        "annotate": {"use": made["use"], **made["options"], "rename": made["rename"]},
    }
    annotate = of_tables(with_sets(tables, sets), name=f"{manifest.name} of {folder}").annotate
    gold = read(gold_source, sets=gold_sets)
    labels = dict(pair.split("=", 1) for pair in pairs if "=" in pair) or {
        label: label for label in gold.annotate.labels
    }
    unknown = sorted(set(labels.values()) - set(manifest.labels))
    if unknown or not labels:
        raise PipelineError(
            f"audit: expected --label GOLD=OURS with labels of {folder} ({', '.join(manifest.labels)}), "
            f"got {', '.join(unknown) or 'none'}"
        )
    result = audit(manifest, annotate, gold, localise(inputs), labels=labels)
    report: dict[str, Any] = {
        "documents": result.documents,
        "set_aside": result.set_aside,
        "labels": {},
    }
    for label, agreement in result.labels.items():
        counts = {"gold": agreement.gold, "found": agreement.found, "exact": agreement.exact}
        report["labels"][label] = counts | agreement.scores()
    if as_json:
        print_json(report)
        return
    rows = [
        (
            label,
            how,
            scores["gold"],
            scores["found"],
            *(scores[f"{how}_{score}"] for score in _SCORES),
        )
        for label, scores in report["labels"].items()
        for how in ("exact", "overlap")
    ]
    click.echo(f"{result.documents:,} gold documents, {result.set_aside:,} set aside")
    click.echo(table(("label", "match", "gold", "found", *_SCORES), rows))
