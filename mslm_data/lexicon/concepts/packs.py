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
        path: A table, an OBO ontology, MRCONSO.RRF, or the folder META that holds it.
        types: Semantic types of concepts for which the file has none.
    """

    path: Path
    types: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PackReport:
    """Counts of names by what became of them.

    Attributes:
        read: Names, and each row or term that has none.
        kept: Those in the pack; `read` is `kept` and all that is left out.
        left_out: Reason -> names.
        terms_left_out: Reason -> terms of ontologies, of those that no chosen branch, subset or
            namespace holds; their names are in `left_out`.
        common_words: Names that are common words, in small letters, most common first; None if they
            were not looked for.
        concepts: Concepts in the pack.
        names: Their distinct names, as they are looked up.
        settled: Names of several concepts that went to one of them.
        types: Semantic type -> concepts.
        sha256: The pack's digest.
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
        AnnotateError: Something other than semantic types stands behind a file's name.
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
    """Make a model pack, a folder in MedCAT's JSON form; equal inputs give an equal digest.

    Names stream through; what is in memory is MedCAT's database of what is kept, about 2 kB a name.

    Args:
        inputs: Files, merged: names of one concept id from several of them are names of one
            concept.
        out: The folder, which is not there yet.
        choice: Which names are kept.
        branches: Which terms of ontologies are kept; None for all.
        common_words: What becomes of names that are common words of English.
        name: What the pack is called in its model card; "" for the folder's name.

    Raises:
        AnnotateError: An input is missing or not as it should be; a branch is in no ontology, or a
            type or source of no name; nothing is kept; the folder is there.
        MissingExtraError: MedCAT is not installed; or wordfreq, where common words are left out.
    """
    if out.exists():
        raise AnnotateError(f"{out}: the folder exists; delete it or pass another")
    readers = [(_reader(_file(one)), one) for one in inputs]
    looked_for = CommonWords(common_words)
    terms_left_out: Counter[str] = Counter()
    if branches:
        readers = _in_branches(readers, branches, terms_left_out)

    left_out: Counter[str] = Counter()
    kept: Counter[str] = Counter()

    # Names stream from the files through the choice into MedCAT's database.
    there: set[str] = set()
    chosen = (name for read, one in readers for name in _named(read, one, choice, left_out, there))
    passed = looked_for.pass_on(chosen, left_out)
    settled = database.build_database(_frames(_kept(passed, kept)), prefer=choice.types)

    concepts = settled.cdb.cui2info
    if not concepts:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        raise AnnotateError(f"--from: no names are kept ({reasons or 'no names at all'})")
    _check_known(choice, there)

    cat = medcat_model.make_model(settled.cdb)
    write_pack(cat, out, name=name or out.name, sources=[_file(one).name for one in inputs])

    types = Counter(type_id for info in concepts.values() for type_id in info["type_ids"])
    return PackReport(
        read=kept["names"] + left_out.total(),
        kept=kept["names"],
        left_out=dict(sorted(left_out.items())),
        terms_left_out=dict(sorted(terms_left_out.items())),
        common_words=looked_for.found(),
        concepts=len(concepts),
        names=len(settled.cdb.name2info),
        settled=settled.names,
        types=dict(sorted(types.items())),
        sha256=medcat_pack.digest(out),
    )


def _check_known(choice: NameChoice, there: Set[str]) -> None:
    """Check that every selected type and source occurs, to catch typing errors.

    Args:
        choice: The types and sources that are asked for.
        there: Those that names have.
    """
    absent = sorted((choice.types | choice.sources) - there)
    if absent:
        raise AnnotateError(f"--from: no names of {', '.join(absent)}; correct --types or --source")


def _file(one: ConceptFile) -> Path:
    """Return the file to read; for a UMLS folder its MRCONSO.RRF."""
    path = one.path
    if path.is_dir():
        inside = [path / "MRCONSO.RRF", path / "META" / "MRCONSO.RRF"]
        path = next((file for file in inside if file.is_file()), path)
    if not path.is_file():
        raise AnnotateError(f"{path}: no such file, nor a folder with MRCONSO.RRF")
    return path


def _reader(path: Path) -> Reader:
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


def _in_branches(
    readers: Sequence[tuple[Reader, ConceptFile]],
    branches: BranchChoice,
    terms_left_out: Counter[str],
) -> list[tuple[Reader, ConceptFile]]:
    """Filter the terms of ontologies by branch.

    Args:
        readers: Each with its file.
        branches: Which terms are chosen.
        terms_left_out: Reason -> terms, counted up.
    """
    outlines = {
        _file(one): ontology_branches.read_outline(_file(one))
        for read, one in readers
        if read is obo.read
    }
    ontology_branches.check(branches, outlines)

    chosen: list[tuple[Reader, ConceptFile]] = []
    for read, one in readers:
        outline = outlines.get(_file(one))
        if outline is None:
            chosen.append((read, one))
        else:
            refused = ontology_branches.refused_terms(outline, branches)
            terms_left_out.update(refused.values())
            chosen.append((partial(obo.read, refused=refused), one))
    return chosen


def _named(
    read: Reader, one: ConceptFile, choice: NameChoice, left_out: Counter[str], there: set[str]
) -> Iterator[Name]:
    """Yield the selected names of one file.

    Args:
        read: Reads it.
        one: The file.
        choice: Which names are wanted.
        left_out: Reason -> names; added to.
        there: Semantic types and sources that names have; added to.
    """
    path = _file(one)

    def wanted() -> Iterator[Name]:
        for name in read(path, one.types, choice, left_out):
            if not name.types:
                raise AnnotateError(
                    f"{path}: concept {name.concept} has no semantic types; set those of concepts "
                    f"without any: --from {one.path}=T047"
                )
            there.update(name.types, name.source.split("|"))
            reason = choice.refusal(name)
            if reason:
                left_out[reason] += 1
            else:
                yield name

    return distinct(wanted(), left_out)


def _kept(names: Iterable[Name], kept: Counter[str]) -> Iterator[Name]:
    """Yield names and count them."""
    for name in names:
        kept["names"] += 1
        yield name


def _frames(names: Iterable[Name]) -> Iterator[Any]:
    """Yield tables of names in MedCAT's columns."""
    return database.make_frames(
        (name.concept, name.name, name.source, name.status, "|".join(name.types), "")
        for name in names
    )
