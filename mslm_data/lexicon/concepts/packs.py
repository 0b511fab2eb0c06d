"""`mslm-data vocab concepts`: make a MedCAT model pack from concept tables and ontologies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.annotate.medcat import database
from mslm_data.annotate.medcat import model as medcat_model
from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts import branches as ontology_branches
from mslm_data.lexicon.concepts import concept_tables, obo, rrf
from mslm_data.lexicon.concepts.branches import BranchChoice
from mslm_data.lexicon.concepts.common_words import CommonWords, CommonWordsRule
from mslm_data.lexicon.concepts.names import Name, NameChoice, distinct
from mslm_data.lexicon.concepts.pack import write_pack
from mslm_data.log import plain

_TYPES = re.compile(r"[A-Z]\d{3}(?:,[A-Z]\d{3})*")

Reader = Callable[[Path, tuple[str, ...], NameChoice, Counter[str]], Iterator[Name]]


class ConceptFile(NamedTuple):
    """A file of concepts.

    Attributes:
        path: A table, an OBO ontology, MRCONSO.RRF, or its folder META.
        types: Semantic types of concepts without types in the file.
    """

    path: Path
    types: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PackReport:
    """Number of names by outcome.

    Attributes:
        read: Number of names, plus rows and terms without a name.
        kept: Number of names in the pack; `read = kept + sum(left_out)`.
        left_out: Reason -> number of names.
        terms_left_out: Reason -> number of ontology terms outside of the selected branches, subsets
            and namespaces; their names are in `left_out`.
        common_words: Names that are common words, lower-cased, most common first; None if not
            checked.
        concepts: Number of concepts in the pack.
        names: Number of distinct names.
        settled: Number of names of several concepts that were assigned to one.
        types: Semantic type -> number of concepts.
        sha256: Digest of the pack.
    """

    read: int
    kept: int
    left_out: dict[str, int]
    terms_left_out: dict[str, int]
    common_words: tuple[str, ...] | None
    concepts: int
    names: int
    settled: int
    types: dict[str, int]
    sha256: str


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


def make_pack(
    inputs: Sequence[ConceptFile],
    out: Path,
    *,
    choice: NameChoice,
    branches: BranchChoice | None = None,
    common_words: CommonWordsRule = "warn",
    name: str = "",
) -> PackReport:
    """Make a model pack, a folder in MedCAT's JSON format; equal inputs give an equal digest.

    Names are streamed. MedCAT's database of the kept names needs about 2 kB of memory per name.

    Args:
        inputs: Files. Names of the same concept id in several files belong to one concept.
        out: The folder, which must not exist.
        choice: Filter of names.
        branches: Filter of ontology terms. Default: all.
        common_words: How to treat names that are common English words.
        name: Name of the pack in its model card; "" for the folder's name.

    Raises:
        AnnotateError: An input is missing or malformed; a branch, type or source does not occur; no
            names are kept; or the folder exists.
        MissingExtraError: MedCAT is not installed; or wordfreq, to drop common words.
    """
    if out.exists():
        raise AnnotateError(f"{out}: the folder exists; delete it or pass another")
    files = [source._replace(path=_find_file(source.path)) for source in inputs]
    readers = [(_find_reader(source.path), source) for source in files]
    common_word_filter = CommonWords(common_words)
    terms_left_out: Counter[str] = Counter()
    if branches:
        readers = _filter_branches(readers, branches, terms_left_out)

    left_out: Counter[str] = Counter()
    kept: Counter[str] = Counter()

    # Stream names from the files, through the filters, into MedCAT's database.
    occurring: set[str] = set()
    chosen = (
        name
        for read, source in readers
        for name in _read_names(read, source, choice, left_out, occurring)
    )
    filtered = common_word_filter.filter(chosen, left_out)
    settled = database.build_database(
        _make_frames(_count_kept(filtered, kept)), prefer=choice.types
    )

    concepts = settled.cdb.cui2info
    if not concepts:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        raise AnnotateError(f"--from: no names are kept ({reasons or 'no names at all'})")
    _check_known(choice, occurring)

    cat = medcat_model.make_model(settled.cdb)
    write_pack(cat, out, name=name or out.name, sources=[source.path.name for source in files])

    types = Counter(type_id for info in concepts.values() for type_id in info["type_ids"])
    return PackReport(
        read=kept["names"] + left_out.total(),
        kept=kept["names"],
        left_out=dict(sorted(left_out.items())),
        terms_left_out=dict(sorted(terms_left_out.items())),
        common_words=common_word_filter.found(),
        concepts=len(concepts),
        names=len(settled.cdb.name2info),
        settled=settled.names,
        types=dict(sorted(types.items())),
        sha256=medcat_pack.digest(out),
    )


def _check_known(choice: NameChoice, occurring: Set[str]) -> None:
    """Check that all selected types and sources occur, to catch typing errors.

    Args:
        choice: The selected types and sources.
        occurring: Types and sources of all names.
    """
    missing = sorted((choice.types | choice.sources) - occurring)
    if missing:
        raise AnnotateError(
            f"--from: no names of {', '.join(missing)}; correct --types or --source"
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


def _filter_branches(
    readers: Sequence[tuple[Reader, ConceptFile]],
    branches: BranchChoice,
    terms_left_out: Counter[str],
) -> list[tuple[Reader, ConceptFile]]:
    """Filter the terms of ontologies by branch.

    Args:
        readers: Each reader with its file.
        branches: Filter of terms.
        terms_left_out: Reason -> number of terms; updated.
    """
    outlines = {
        source.path: ontology_branches.read_outline(source.path)
        for read, source in readers
        if read is obo.read
    }
    ontology_branches.check(branches, outlines)

    filtered: list[tuple[Reader, ConceptFile]] = []
    for read, source in readers:
        outline = outlines.get(source.path)
        if outline is None:
            filtered.append((read, source))
        else:
            skipped = ontology_branches.find_skipped_terms(outline, branches)
            terms_left_out.update(skipped.values())
            filtered.append((partial(obo.read, skipped=skipped), source))
    return filtered


def _read_names(
    read: Reader,
    source: ConceptFile,
    choice: NameChoice,
    left_out: Counter[str],
    occurring: set[str],
) -> Iterator[Name]:
    """Yield the selected names of one file.

    Args:
        read: Reader of the file.
        source: The file.
        choice: Filter of names.
        left_out: Reason -> number of names; updated.
        occurring: Types and sources of all names; updated.
    """

    def select_names() -> Iterator[Name]:
        for name in read(source.path, source.types, choice, left_out):
            if not name.types:
                raise AnnotateError(
                    f"{source.path}: concept {name.concept} has no semantic types; set those of "
                    f"concepts without any: --from {source.path}=T047"
                )
            occurring.update(name.types, name.source.split("|"))
            reason = choice.refusal(name)
            if reason:
                left_out[reason] += 1
            else:
                yield name

    return distinct(select_names(), left_out)


def _count_kept(names: Iterable[Name], kept: Counter[str]) -> Iterator[Name]:
    """Yield names and count them."""
    for name in names:
        kept["names"] += 1
        yield name


def _make_frames(names: Iterable[Name]) -> Iterator[Any]:
    """Yield tables of names in MedCAT's columns."""
    return database.make_frames(
        (name.concept, name.name, name.source, name.status, "|".join(name.types), "")
        for name in names
    )
