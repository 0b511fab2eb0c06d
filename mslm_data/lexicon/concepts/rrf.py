"""Reads UMLS in its Rich Release Format: MRCONSO.RRF with MRSTY.RRF beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io.limits import iter_lines
from mslm_data.lexicon.concepts.names import Name, NameChoice, open_text

_CUI, _LAT, _TS, _STT, _ISPREF, _SAB, _STR, _SUPPRESS = 0, 1, 2, 4, 6, 11, 14, 16
_FIELDS = 18


def read(
    path: Path, types: tuple[str, ...], choice: NameChoice, left_out: Counter[str]
) -> Iterator[Name]:
    """Yield the names in MRCONSO.RRF; suppressed ones are skipped.

    Rows are split at `|`: the files know no quotes. A name is primary where `TS` is P, `STT` PF and
    `ISPREF` Y, which is one a concept and language. (`ISPREF` alone is not a status of MedCAT's:
    its N would mean that a name must always be told apart.)

    Args:
        path: MRCONSO.RRF; the types are read from the MRSTY.RRF beside it, some hundred bytes a
            concept in memory.
        types: Semantic types for concepts that MRSTY.RRF lacks.
        choice: Language, sources and types.
        left_out: Reason -> names, counted up.

    Raises:
        AnnotateError: No MRSTY.RRF, a row of it without a type, or one of MRCONSO.RRF of other than
            18 fields.
    """
    # With types for concepts that the table lacks, it has to be known which ones it has.
    concept_types = _types(path, frozenset() if types else choice.types)
    with open_text(path) as file:
        for number, line in enumerate(iter_lines(file, path, AnnotateError), start=1):
            row = line.rstrip("\r\n").split("|")
            if len(row) not in (_FIELDS, _FIELDS + 1):
                raise AnnotateError(
                    f"{path}:{number}: expected {_FIELDS} fields, each ended by '|', got {len(row)}"
                )
            if choice.language and row[_LAT] != choice.language:
                left_out["other language"] += 1
            elif row[_SUPPRESS] != "N":
                left_out["suppressed"] += 1
            else:
                own = concept_types.get(row[_CUI], types)
                if choice.types and choice.types.isdisjoint(own):
                    left_out["other semantic type"] += 1
                    continue
                primary = (row[_TS], row[_STT], row[_ISPREF]) == ("P", "PF", "Y")
                yield Name(row[_CUI], row[_STR], "P" if primary else "A", own, row[_SAB])


def _types(path: Path, wanted: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Read the semantic types of concepts, of those with a selected type if types are selected."""
    beside = [path.with_name(path.name.replace("MRCONSO", "MRSTY")), path.with_name("MRSTY.RRF")]
    table = next((one for one in beside if one.is_file() and one != path), None)
    if table is None:
        raise AnnotateError(f"{path}: MRSTY.RRF, which holds the semantic types, is not beside it")

    # Many concepts share few tuples of types, so each tuple is kept once.
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    with open_text(table) as file:
        for number, line in enumerate(iter_lines(file, table, AnnotateError), start=1):
            concept, separator, rest = line.partition("|")
            if not separator:
                raise AnnotateError(
                    f"{table}:{number}: expected a concept, its type and more between '|', got 1 "
                    "field"
                )

            type_id = rest.partition("|")[0].rstrip("\r\n")
            both = (*found.get(concept, ()), type_id)
            found[concept] = known.setdefault(both, both)

    if wanted:
        return {concept: types for concept, types in found.items() if not wanted.isdisjoint(types)}
    return found
