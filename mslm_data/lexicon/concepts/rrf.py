"""Read UMLS in Rich Release Format: MRCONSO.RRF, with MRSTY.RRF in the same folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally
from mslm_data.lexicon.text_files import read_lines

_CUI, _LAT, _TS, _STT, _ISPREF, _SAB, _STR, _SUPPRESS = 0, 1, 2, 4, 6, 11, 14, 16
_FIELDS = 18


def read(
    path: Path, types: tuple[str, ...], choice: NameChoice, tally: NameTally
) -> Iterator[Name]:
    """Yield the names in MRCONSO.RRF; suppressed names are skipped.

    Rows are split at `|`, without quoting. A name is primary if `TS` is P, `STT` is PF and `ISPREF`
    is Y: one name per concept and language. (`ISPREF` alone is not a MedCAT status: N would mean
    that a name always needs disambiguation.)

    Args:
        path: MRCONSO.RRF. Types are read from MRSTY.RRF in the same folder, and need a few hundred
            bytes of memory per concept.
        types: Semantic types of concepts that are not in MRSTY.RRF.
        choice: Languages, sources and types to keep.
        tally: Counts of names left out; updated.

    Raises:
        AnnotateError: MRSTY.RRF is missing, one of its rows has no type, or a row of MRCONSO.RRF
            does not have 18 fields.
    """
    # Default types apply to concepts without a row, so all concepts with a row must be known.
    concept_types = _read_types(path, frozenset() if types else choice.types)
    for number, line in enumerate(read_lines(path, AnnotateError), start=1):
        row = line.rstrip("\r\n").split("|")
        if len(row) not in (_FIELDS, _FIELDS + 1):
            raise AnnotateError(
                f"{path}:{number}: expected {_FIELDS} fields, each ended by '|', got {len(row)}"
            )
        if choice.language and row[_LAT] != choice.language:
            tally.left_out["other language"] += 1
        elif row[_SUPPRESS] != "N":
            tally.left_out["suppressed"] += 1
        else:
            name_types = concept_types.get(row[_CUI], types)
            if choice.types and choice.types.isdisjoint(name_types):
                tally.left_out["other semantic type"] += 1
                continue
            primary = (row[_TS], row[_STT], row[_ISPREF]) == ("P", "PF", "Y")
            yield Name(row[_CUI], row[_STR], "P" if primary else "A", name_types, row[_SAB])


def _read_types(path: Path, wanted: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Read the semantic types of concepts; with `wanted`, only of concepts with one of them."""
    candidates = [
        path.with_name(path.name.replace("MRCONSO", "MRSTY")),
        path.with_name("MRSTY.RRF"),
    ]
    table = next((file for file in candidates if file.is_file() and file != path), None)
    if table is None:
        raise AnnotateError(f"{path}: MRSTY.RRF, which holds the semantic types, is not beside it")

    # Few distinct tuples are shared by many concepts, so each is stored once.
    unique: dict[tuple[str, ...], tuple[str, ...]] = {}
    concept_types: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(table, AnnotateError), start=1):
        concept, separator, rest = line.partition("|")
        if not separator:
            raise AnnotateError(
                f"{table}:{number}: expected a concept, its type and more between '|', got 1 field"
            )

        type_id = rest.partition("|")[0].rstrip("\r\n")
        all_types = (*concept_types.get(concept, ()), type_id)
        concept_types[concept] = unique.setdefault(all_types, all_types)

    if wanted:
        return {
            concept: types
            for concept, types in concept_types.items()
            if not wanted.isdisjoint(types)
        }
    return concept_types
