"""`mslm-data vocab concepts`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import FileOrFolder
from mslm_data.cli.vocab.options import WrittenOutput, convert, values_of, with_fields
from mslm_data.lexicon.concepts.names import NameChoice
from mslm_data.registry import Options
from mslm_data.results import Table

_SHOWN_WORDS = 12
"""Maximum number of printed common words."""


class Concepts(Options, frozen=True, kw_only=True):
    """Options of `mslm-data vocab concepts` besides those of `NameChoice`."""

    inputs: Annotated[
        tuple[str, ...],
        option(
            "File with concepts, and semantic types for those without any. Can be repeated to "
            "merge files.",
            metavar="FILE[=TUI,…]",
            flags="--from",
        ),
    ]
    out: Annotated[
        Path, option("New output file, a table of terms.", metavar="FILE.csv", type=FileOrFolder())
    ]
    common_words: Annotated[
        Literal["warn", "drop", "keep"],
        option(
            "Treatment of names that are common English words: warn prints them, drop leaves them "
            "out, keep does not look for them."
        ),
    ] = "warn"
    labels: Annotated[
        str,
        option(
            "Table of semantic types with their labels, below vocab/ or a path. Concepts of other "
            "types are left out.",
            metavar="FILE.toml",
        ),
    ] = "semantic_types.toml"


@dataclass(frozen=True, kw_only=True)
class ConceptTable(WrittenOutput):
    """A table of terms."""

    def tables(self) -> Iterator[str | Table]:
        """Yield a row for each outcome of names, and the common words among them."""
        counts = self.counts
        left_out = counts["left_out"]
        yield Table(
            [
                ("names read", counts["read"]),
                *((f"left out: {reason}", number) for reason, number in left_out.items()),
                ("names kept", counts["kept"]),
                ("concepts", counts["concepts"]),
                *((f"concepts of {kind}", number) for kind, number in counts["types"].items()),
            ]
        )

        words = counts["common_words"]
        if words:
            rest = ["…"] if len(words) > _SHOWN_WORDS else []
            dropped = "common word" in left_out
            outcome = (
                "were left out" if dropped else "are kept; --common-words drop leaves them out"
            )
            yield (
                f"names that are common words of English, {len(words):,}, {outcome}: "
                f"{', '.join([*words[:_SHOWN_WORDS], *rest])}"
            )


@make_command("concepts", with_fields(Concepts, NameChoice))
def command(options: Concepts) -> ConceptTable:
    r"""Make a table of terms from concepts, for `build --set annotate.table=FILE.csv`.

    FILE is a table, an OBO ontology, or UMLS MRCONSO.RRF with MRSTY.RRF beside it. A table has
    MedCAT's columns cui,name,…, or an id, a name and synonyms, as DrugBank's vocabulary.
    Ontologies and plain tables have no semantic types: add these to the file name.

    The table has the columns name, label, cui and type_ids. The annotator terms reads it, and so
    does MedCAT's CDBMaker, which makes model packs.

    Branches filter the ontologies that have them, --types and --source filter UMLS. Common words
    are found with the package wordfreq.

    \b
    Example:
        mslm-data vocab concepts --from doid.obo=T047 --xref UMLS_CUI \
            --from drugbank.csv=T121 --out open.csv
        mslm-data vocab concepts --from hp.obo=T184 --under HP:0000118 \
            --not-under HP:0001871 --common-words drop --out signs.csv
        mslm-data vocab concepts --from 2024AA/META \
            --types T047,T191,T184,T121 --out umls.csv
    """
    from mslm_data.lexicon.concepts.making import make_table, parse_input

    # Types and sources are written in capitals.
    values = values_of(options, NameChoice)
    for name in ("types", "sources"):
        values[name] = frozenset(map(str.upper, values[name]))

    report = make_table(
        [parse_input(text) for text in options.inputs],
        options.out,
        choice=convert(NameChoice, values, where="vocab concepts"),
        common_words=options.common_words,
        labels=options.labels,
    )
    return ConceptTable(out=options.out, counts=asdict(report))
