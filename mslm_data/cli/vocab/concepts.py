"""`mslm-data vocab concepts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mslm_data.cli.options import FileOrFolder, json_option
from mslm_data.cli.output import echo, print_json, table

if TYPE_CHECKING:
    from mslm_data.lexicon.concepts.common_words import CommonWordsRule
    from mslm_data.lexicon.concepts.making import ConceptReport

_SHOWN_WORDS = 12
"""Maximum number of printed common words."""


@click.command("concepts", short_help="Make a table of terms from concepts.")
@click.option(
    "--from",
    "inputs",
    multiple=True,
    required=True,
    metavar="FILE[=TUI,…]",
    help="File with concepts, and semantic types for those without any. Can be repeated to merge "
    "files.",
)
@click.option(
    "--out",
    type=FileOrFolder(),
    required=True,
    metavar="FILE.csv",
    help="New output file, a table of terms.",
)
@click.option(
    "--types",
    default="",
    metavar="TUI,…",
    help="Semantic types to keep.  [default: all]",
)
@click.option(
    "--language",
    default="ENG",
    show_default=True,
    help="Language of UMLS names to keep; '' keeps all.",
)
@click.option(
    "--source",
    "sources",
    default="",
    metavar="SAB,…",
    help="Source vocabularies of names to keep.  [default: all]",
)
@click.option(
    "--under",
    multiple=True,
    metavar="ID",
    help="Term of an ontology to keep, with all terms below it. Can be repeated.  [default: all]",
)
@click.option(
    "--not-under",
    multiple=True,
    metavar="ID",
    help="Term of an ontology to leave out, with all terms below it. Can be repeated.",
)
@click.option(
    "--common-words",
    type=click.Choice(["warn", "drop", "keep"]),
    default="warn",
    show_default=True,
    help="Treatment of names that are common English words: warn prints them, drop leaves them "
    "out, keep does not look for them.",
)
@click.option(
    "--xref",
    default="",
    metavar="PREFIX",
    help="Prefix of OBO cross references to use as concept ids, such as UMLS_CUI.",
)
@click.option(
    "--labels",
    default="semantic_types.toml",
    show_default=True,
    metavar="FILE.toml",
    help="Table of semantic types with their labels, below vocab/ or a path. Concepts of other "
    "types are left out.",
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
    common_words: CommonWordsRule,
    xref: str,
    labels: str,
    as_json: bool,
) -> None:
    """Make a table of terms from concepts, for `build --set annotate.table=FILE.csv`.

    FILE is a table, an OBO ontology, or UMLS MRCONSO.RRF with MRSTY.RRF beside it. A table has
    MedCAT's columns cui,name,…, or an id, a name and synonyms, as DrugBank's vocabulary.
    Ontologies and plain tables have no semantic types: add these to the file name.

    The table has the columns name, label, cui and type_ids. The annotator terms reads it, and so
    does MedCAT's CDBMaker, which makes model packs.

    Branches filter the ontologies that have them, --types and --source filter UMLS. Common words
    are found with the package wordfreq.

    \b
    Example:
        mslm-data vocab concepts --from doid.obo=T047 --xref UMLS_CUI \\
            --from drugbank.csv=T121 --out open.csv
        mslm-data vocab concepts --from hp.obo=T184 --under HP:0000118 \\
            --not-under HP:0001871 --common-words drop --out signs.csv
        mslm-data vocab concepts --from 2024AA/META \\
            --types T047,T191,T184,T121 --out umls.csv
    """  # noqa: D301 - click wants the character
    from dataclasses import asdict

    from mslm_data.lexicon.concepts.making import make_table, parse_input
    from mslm_data.lexicon.concepts.names import NameChoice

    choice = NameChoice(
        types=_words(types),
        language=language,
        sources=_words(sources),
        xref=xref,
        under=frozenset(under),
        not_under=frozenset(not_under),
    )
    report = make_table(
        [parse_input(text) for text in inputs],
        out,
        choice=choice,
        common_words=common_words,
        labels=labels,
    )

    if as_json:
        print_json({"out": str(out), **asdict(report)})
    else:
        _print(report)


def _words(text: str) -> frozenset[str]:
    """Return comma-separated words in upper case."""
    return frozenset(filter(None, map(str.strip, text.upper().split(","))))


def _print(report: ConceptReport) -> None:
    """Print a table of the names, and the common words among them."""
    rows = [("names read", report.read)]
    rows += [(f"left out: {reason}", count) for reason, count in report.left_out.items()]
    rows += [("names kept", report.kept)]
    rows += [("concepts", report.concepts)]
    rows += [(f"concepts of {type_id}", count) for type_id, count in report.types.items()]

    echo(table(("", ""), rows).removeprefix("\n"))

    words = report.common_words
    if words:
        examples = ", ".join([*words[:_SHOWN_WORDS], *(["…"] if len(words) > _SHOWN_WORDS else [])])
        dropped = "common word" in report.left_out
        outcome = "were left out" if dropped else "are kept; --common-words drop leaves them out"
        echo(f"names that are common words of English, {len(words):,}, {outcome}: {examples}")
