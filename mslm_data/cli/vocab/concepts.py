"""`mslm-data vocab concepts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mslm_data.cli.options import FileOrFolder, json_option
from mslm_data.cli.output import echo, print_json, table

if TYPE_CHECKING:
    from mslm_data.lexicon.concepts.common_words import CommonWordsRule
    from mslm_data.lexicon.concepts.packs import PackReport

_SHOWN_WORDS = 12
"""How many common words are shown to people."""


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
    type=FileOrFolder(),
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
    "--under",
    multiple=True,
    metavar="ID",
    help="Keep only this term of an ontology and the terms below it. Repeat it to keep further "
    "branches.",
)
@click.option(
    "--not-under",
    multiple=True,
    metavar="ID",
    help="Leave out this term of an ontology and the terms below it. Repeat it to leave out "
    "further branches.",
)
@click.option(
    "--subset",
    "subsets",
    multiple=True,
    metavar="NAME",
    help="Keep only the terms of an ontology that are in this subset (slim). Repeat it to keep "
    "further subsets.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Keep only the terms of an ontology that are in this namespace. Repeat it to keep further "
    "namespaces.",
)
@click.option(
    "--common-words",
    type=click.Choice(["warn", "drop", "keep"]),
    default="warn",
    show_default=True,
    help="Print which names are common words of English, leave these names out, or keep them "
    "without a look.",
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
    under: tuple[str, ...],
    not_under: tuple[str, ...],
    subsets: tuple[str, ...],
    namespaces: tuple[str, ...],
    common_words: CommonWordsRule,
    xref: str,
    name: str,
    as_json: bool,
) -> None:
    """Make a MedCAT model pack of concepts, for `build --set annotate.model_pack=DIR`.

    FILE is a table (MedCAT's columns cui,name,…, or an id, a name and synonyms as in DrugBank's
    vocabulary), an OBO ontology, or UMLS MRCONSO.RRF with MRSTY.RRF beside it. Ontologies and plain
    tables have no semantic types: write these after the file's name.

    Branches, subsets and namespaces limit the ontologies that have them; other files stay whole.
    UMLS is limited by --types and --source. Common words are looked up with the package wordfreq.

    \b
    Example:
        mslm-data vocab concepts --from doid.obo=T047 --xref UMLS_CUI \\
            --from drugbank.csv=T121 --out packs/open
        mslm-data vocab concepts --from hp.obo=T184 --under HP:0000118 \\
            --not-under HP:0001871 --common-words drop --out packs/signs
        mslm-data vocab concepts --from 2024AA/META \\
            --types T047,T191,T184,T121 --out packs/umls
    """  # noqa: D301 - click wants the character
    from dataclasses import asdict

    from mslm_data.lexicon.concepts.branches import BranchChoice
    from mslm_data.lexicon.concepts.names import NameChoice
    from mslm_data.lexicon.concepts.packs import make_pack, parse_input

    choice = NameChoice(
        types=_words(types),
        language=language,
        sources=_words(sources),
        xref=xref,
    )
    branches = BranchChoice(
        under=frozenset(under),
        not_under=frozenset(not_under),
        subsets=frozenset(subsets),
        namespaces=frozenset(namespaces),
    )
    report = make_pack(
        [parse_input(text) for text in inputs],
        out,
        choice=choice,
        branches=branches,
        common_words=common_words,
        name=name,
    )

    if as_json:
        print_json({"out": str(out), **asdict(report)})
    else:
        _print(report)
        echo(f"{out}: sha256 {report.sha256}")


def _words(text: str) -> frozenset[str]:
    """Return what stands between commas, in capitals."""
    return frozenset(filter(None, map(str.strip, text.upper().split(","))))


def _print(report: PackReport) -> None:
    """Print what became of the names as a table, and which of them are common words."""
    rows = [("names read", report.read)]
    rows += [(f"left out: {reason}", count) for reason, count in report.left_out.items()]
    rows += [("names kept", report.kept)]
    rows += [
        (f"terms left out: {reason}", count) for reason, count in report.terms_left_out.items()
    ]
    rows += [("concepts", report.concepts)]
    rows += [("names of several concepts, settled", report.settled)]
    rows += [(f"concepts of {type_id}", count) for type_id, count in report.types.items()]

    echo(table(("", ""), rows).removeprefix("\n"))

    words = report.common_words
    if words:
        examples = ", ".join([*words[:_SHOWN_WORDS], *(["…"] if len(words) > _SHOWN_WORDS else [])])
        dropped = "common word" in report.left_out
        outcome = "were left out" if dropped else "are kept; --common-words drop leaves them out"
        echo(f"names that are common words of English, {len(words):,}, {outcome}: {examples}")
