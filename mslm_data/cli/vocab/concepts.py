"""`mslm-data vocab concepts`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.output import print_json, table


@click.command("concepts", short_help="Make a MedCAT model pack.")
@click.option(
    "--from",
    "inputs",
    multiple=True,
    required=True,
    metavar="FILE[=TUI,…]",
    help="Concepts; may repeat.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The pack, a new folder.",
)
@click.option("--types", default="", metavar="TUI,…", help="Keep concepts of these semantic types.")
@click.option(
    "--language",
    default="ENG",
    show_default=True,
    help="Language of UMLS rows to keep; '' for all.",
)
@click.option(
    "--source", "sources", default="", metavar="SAB,…", help="Keep names of these vocabularies."
)
@click.option(
    "--xref",
    default="",
    metavar="PREFIX",
    help="OBO: cross reference that becomes the concept's id.",
)
@click.option("--name", default="", help="Name in the pack's model card.  [default: the folder's]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
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
    """Make a MedCAT model pack of concepts, for `--set annotate.model_pack=DIR`.

    FILE is a table (MedCAT's columns cui,name,…, or an id, a name and synonyms as in DrugBank's vocabulary), an OBO
    ontology, or UMLS MRCONSO.RRF with MRSTY.RRF beside it. Several are merged. Ontologies and plain tables have no
    semantic types, so these stand behind the file's name.

    \b
    mslm-data vocab concepts --from doid.obo=T047 --xref UMLS_CUI --from drugbank.csv=T121 --out packs/open
    mslm-data vocab concepts --from 2024AA/META --types T047,T191,T184,T121 --out packs/umls
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
        return
    left_out = [(f"left out: {reason}", count) for reason, count in report.left_out.items()]
    counts = [
        ("names read", report.read),
        *left_out,
        ("names kept", report.kept),
        ("concepts", report.concepts),
    ]
    counts += [("names of several concepts, settled", report.settled)]
    counts += [(f"concepts of {type_id}", count) for type_id, count in report.types.items()]
    click.echo(table(("", ""), counts).removeprefix("\n"))
    click.echo(f"{out}: sha256 {report.sha256}")
