"""`mslm-data vocab concepts`: write a table of terms from concept tables and ontologies."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mslm_data.annotate import semantic_types
from mslm_data.errors import AnnotateError
from mslm_data.io.files import make_folder, write_whole
from mslm_data.lexicon.concepts import concept_tables, obo, rrf
from mslm_data.lexicon.concepts.common_words import CommonWords, CommonWordsRule
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally, clean
from mslm_data.log import plain

COLUMNS = ("name", "label", "cui", "type_ids")
"""Columns of a table of terms. MedCAT reads all except `label`."""

_TYPES = re.compile(r"[A-Z]\d{3}(?:,[A-Z]\d{3})*")

Reader = Callable[[Path, tuple[str, ...], NameChoice, NameTally], Iterator[Name]]


class ConceptFile(NamedTuple):
    """A file of concepts.

    Attributes:
        path: A table, an OBO ontology, MRCONSO.RRF, or its folder META.
        types: Semantic types of concepts without types in the file.
    """

    path: Path
    types: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ConceptReport:
    """Number of names by outcome.

    Attributes:
        read: Number of names, plus rows and terms without a name.
        kept: Number of names in the table; `read = kept + sum(left_out)`.
        left_out: Reason -> number of names.
        common_words: Names that are common words, lower-cased, most common first; None if not
            checked.
        concepts: Number of concepts in the table.
        types: Semantic type -> number of concepts.
    """

    read: int
    kept: int
    left_out: dict[str, int]
    common_words: tuple[str, ...] | None
    concepts: int
    types: dict[str, int]


def parse_input(text: str) -> ConceptFile:
    """Parse `FILE` or `FILE=T047,T191`.

    Raises:
        AnnotateError: The part after `=` is not a list of semantic types.
    """
    path, equals, types = text.rpartition("=")
    if equals and _TYPES.fullmatch(types):
        return ConceptFile(Path(path), tuple(types.split(",")))
    if equals and Path(path).exists() and not Path(text).exists():
        raise AnnotateError(
            f"--from: expected semantic types such as T047 or T047,T191 behind '{path}=', got "
            f"'{plain(types)}'"
        )
    return ConceptFile(Path(text))


def make_table(
    inputs: Sequence[ConceptFile],
    out: Path,
    *,
    choice: NameChoice,
    common_words: CommonWordsRule = "warn",
    labels: str = "semantic_types.toml",
) -> ConceptReport:
    """Write a table of terms with `COLUMNS`; equal inputs give equal bytes.

    A name of several concepts is kept for one of them: the first with this primary name, otherwise
    the first. The names that are kept are in memory.

    Args:
        inputs: Files. Names of the same concept id in several files belong to one concept.
        out: The table, a CSV file that must not exist.
        choice: Filter of names.
        common_words: How to treat names that are common English words.
        labels: Table of semantic types with their labels, see `semantic_types.read`. Concepts of
            other types are left out.

    Raises:
        AnnotateError: An input is missing or malformed; a branch, type or source does not occur; no
            names are kept; or the output has another suffix or exists.
        MissingExtraError: The package wordfreq is not installed, to drop common words.
    """
    if out.suffix != ".csv":
        raise AnnotateError(f"{out}: expected a file ending in .csv, as fields have commas between")
    if out.exists():
        raise AnnotateError(f"{out}: the file exists; delete it or pass another --out")
    label_table = semantic_types.read(labels)
    files = [source._replace(path=_find_file(source.path)) for source in inputs]
    readers = [(_find_reader(source.path), source) for source in files]
    common_word_filter = CommonWords(common_words)

    tally = NameTally()
    chosen = (name for read, source in readers for name in _read_names(read, source, choice, tally))
    filtered = common_word_filter.filter(chosen, tally)

    # Any name may add types to its concept, so labels are known at the end only.
    names: dict[tuple[str, str], Name] = {}
    types: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for name in filtered:
        types[name.concept] |= dict.fromkeys(name.types)
        key = (name.concept, name.name.lower())
        if key in names:
            tally.left_out["same name again"] += 1
        if _is_preferred(name, names.get(key)):
            names[key] = name

    label_of = {concept: label_table.label(of_concept) for concept, of_concept in types.items()}
    labelled = [name for name in names.values() if label_of[name.concept]]
    tally.left_out["no label for its semantic types"] += len(names) - len(labelled)
    kept = _choose_concepts(labelled)
    tally.left_out["name of another concept"] += len(labelled) - len(kept)
    left_out = +tally.left_out

    _check_known(choice, tally.occurring)
    if not kept:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        raise AnnotateError(
            f"--from: no names are kept ({reasons or 'no names at all'}); --labels names the table "
            f"of semantic types with their labels, now {labels}"
        )
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for name in kept:
        concept = name.concept
        table.writerow((name.name, label_of[concept], concept, "|".join(types[concept])))
    make_folder(out.parent)
    write_whole(out, [text.getvalue().encode()])

    concepts = {name.concept for name in kept}
    type_counts = Counter(type_id for concept in concepts for type_id in types[concept])
    return ConceptReport(
        read=len(kept) + left_out.total(),
        kept=len(kept),
        left_out=dict(sorted(left_out.items())),
        common_words=common_word_filter.found(),
        concepts=len(concepts),
        types=dict(sorted(type_counts.items())),
    )


def _choose_concepts(names: Sequence[Name]) -> list[Name]:
    """Keep each name for one concept: the first with this primary name, otherwise the first.

    MedCAT resolves ambiguous names by learned contexts, and without these it drops them.
    """
    chosen: dict[str, Name] = {}
    for name in names:
        key = name.name.lower()
        if _is_preferred(name, chosen.get(key)):
            chosen[key] = name
    return [name for name in names if chosen[name.name.lower()] is name]


def _is_preferred(name: Name, other: Name | None) -> bool:
    """Return whether a name replaces an earlier one."""
    if other is None:
        return True
    return name.status == "P" and other.status != "P"


def _check_known(choice: NameChoice, occurring: Set[str]) -> None:
    """Check that all selected types, sources and terms occur, to catch typing errors."""
    missing = sorted((choice.types | choice.sources) - occurring)
    if missing:
        raise AnnotateError(
            f"--from: no names of {', '.join(missing)}; correct --types or --source"
        )

    missing = sorted((choice.under | choice.not_under) - occurring)
    if missing:
        raise AnnotateError(
            f"--under, --not-under: no ontology of --from has a current term {', '.join(missing)}; "
            "an obsolete term names its replacement there"
        )


def _find_file(path: Path) -> Path:
    """Return the file to read; for a UMLS folder its MRCONSO.RRF."""
    if path.is_dir():
        candidates = [path / "MRCONSO.RRF", path / "META" / "MRCONSO.RRF"]
        path = next((file for file in candidates if file.is_file()), path)
    if not path.is_file():
        raise AnnotateError(f"{path}: no such file, nor a folder with MRCONSO.RRF")
    return path


def _find_reader(path: Path) -> Reader:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".obo"):
        return obo.read
    if name.endswith(".rrf"):
        return rrf.read
    if name.endswith((".csv", ".tsv", ".txt")):
        return concept_tables.read
    raise AnnotateError(
        f"{path}: expected a file ending in .obo, .RRF, .csv or .tsv (or that and .gz)"
    )


def _read_names(
    read: Reader, source: ConceptFile, choice: NameChoice, tally: NameTally
) -> Iterator[Name]:
    """Yield the selected names of one file.

    Args:
        read: Reader of the file.
        source: The file.
        choice: Filter of names.
        tally: Counts of names left out, and what occurs; updated.
    """
    for name in read(source.path, source.types, choice, tally):
        if not name.types:
            raise AnnotateError(
                f"{source.path}: concept {name.concept} has no semantic types; set those of "
                f"concepts without any: --from {source.path}=T047"
            )
        tally.occurring.update(name.types, name.source.split("|"))
        cleaned = name._replace(name=clean(name.name))
        reason = choice.refusal(cleaned)
        if reason:
            tally.left_out[reason] += 1
        else:
            yield cleaned
