"""`mslm-data vocab concepts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mslm_data.cli.options import json_option
from mslm_data.cli.output import print_json, table

if TYPE_CHECKING:
    from mslm_data.lexicon.concepts.packs import PackReport


@click.command("concepts", short_help="Make a MedCAT model pack.")
@click.option(
    "--from",
    "inputs",
    multiple=True,
    required=True,
    metavar="FILE[=TUI,…]",
    help="Read concepts from this file; concepts without semantic types get these. Repeat it to "
    "merge further files.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Write the pack to this folder, which must not exist.",
)
@click.option(
    "--types",
    default="",
    metavar="TUI,…",
    help="Keep only concepts of one of these semantic types.  [default: all]",
)
@click.option(
    "--language",
    default="ENG",
    show_default=True,
    help="Keep only UMLS names of this language; '' keeps all.",
)
@click.option(
    "--source",
    "sources",
    default="",
    metavar="SAB,…",
    help="Keep only names of these source vocabularies.  [default: all]",
)
@click.option(
    "--xref",
    default="",
    metavar="PREFIX",
    help="Take an OBO term's cross reference with this prefix, such as UMLS_CUI, as its concept "
    "id.",
)
@click.option(
    "--name", default="", help="Call the pack this in its model card.  [default: the folder's name]"
)
@json_option
def command(
    inputs: tuple[str, ...],
    out: Path,
    types: str,
    language: str,
    sources: str,
    xref: str,
    name: str,
    as_json: bool,
) -> None:
    """Make a MedCAT model pack of concepts, for `build --set annotate.model_pack=DIR`.

    FILE is a table (MedCAT's columns cui,name,…, or an id, a name and synonyms as in DrugBank's
    vocabulary), an OBO ontology, or UMLS MRCONSO.RRF with MRSTY.RRF beside it. Ontologies and plain
    tables have no semantic types: write these after the file's name.

    \b
    Example:
        mslm-data vocab concepts --from doid.obo=T047 --xref UMLS_CUI \\
            --from drugbank.csv=T121 --out packs/open
        mslm-data vocab concepts --from 2024AA/META \\
            --types T047,T191,T184,T121 --out packs/umls
    """  # noqa: D301 - click wants the character
    from dataclasses import asdict

    from mslm_data.lexicon.concepts.names import NameChoice
    from mslm_data.lexicon.concepts.packs import make_pack, parse_input

    choice = NameChoice(
        types=frozenset(filter(None, types.upper().split(","))),
        language=language,
        sources=frozenset(filter(None, sources.upper().split(","))),
        xref=xref,
    )
    report = make_pack([parse_input(text) for text in inputs], out, choice=choice, name=name)

    if as_json:
        print_json({"out": str(out), **asdict(report)})
    else:
        _print(report)
        click.echo(f"{out}: sha256 {report.sha256}")


def _print(report: PackReport) -> None:
    """Print what became of the names as a table."""
    rows = [("names read", report.read)]
    rows += [(f"left out: {reason}", count) for reason, count in report.left_out.items()]
    rows += [("names kept", report.kept), ("concepts", report.concepts)]
    rows += [("names of several concepts, settled", report.settled)]
    rows += [(f"concepts of {type_id}", count) for type_id, count in report.types.items()]

    click.echo(table(("", ""), rows).removeprefix("\n"))
