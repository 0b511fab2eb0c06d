"""EBM-NLP: the published folder with its labels beside the tokens, or the row files that its scripts make of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.conll import SUFFIXES, Conll
from mslm_data.source.reading import inputs as files
from mslm_data.source.reading import rows, tags
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.tokens import document_of_words

FINE = {
    "participants": ("Participant", ("Age", "Sex", "Sample-size", "Condition")),
    "interventions": (
        "Intervention",
        (
            "Surgical",
            "Physical",
            "Pharmacological",
            "Educational",
            "Psychological",
            "Other",
            "Control",
        ),
    ),
    "outcomes": (
        "Outcome",
        ("Physical", "Pain", "Mortality", "Adverse-effects", "Mental", "Other"),
    ),
}
"""Folder of an element -> its label, and the names of its hierarchical labels 1, 2, … (README of EBM-NLP)."""
_FOLDERS = ("train", "test/gold")


@dataclass(frozen=True, kw_only=True)
class EbmNlp:
    """Reads EBM-NLP 1.00 and 2.00, and row files of it.

    The folder: `documents/PMID.tokens`, one token a line (1.00: separated by spaces), and
    `annotations/aggregated/PHASE/ELEMENT/{train,test/gold}/PMID.AGGREGATED.ann`, one integer a token (1.00: commas).
    A missing element means no mention of it, as in the corpus' own scripts. Mentions of different elements overlap and
    all are kept; one that runs over a sentence's end is one in each sentence. A document that is in `test/gold` is
    not in `train`; `test/crowd` is not read.

    Row files: CoNLL rows tagged P, I, O and N, where O is an outcome and N is none, or tagged I-PAR, I-INT, I-OUT.

    Attributes:
        phase: "starting_spans" with labels Participant, Intervention, Outcome; "hierarchical_labels" with labels such
            as Participant-Age.
        sentence_end: The token that ends a sentence, as in the corpus' own scripts; "" for one sentence a document.
        splits: Split -> patterns of row files, or of `train/PMID` and `test/gold/PMID`; empty goes by names.
    """

    phase: Literal["starting_spans", "hierarchical_labels"] = "starting_spans"
    sentence_end: str = "."
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Return split -> for each document its label file of the first element that has one; or row files."""
        roots = [root for path in inputs for root in _roots(path)]
        if not roots:
            return files.by_split(inputs, suffixes=SUFFIXES, splits=self.splits)
        found: dict[str, tuple[Path, str]] = {}
        for folder in _FOLDERS:
            for root in roots:
                in_folder: dict[str, tuple[Path, str]] = {}
                for element in FINE:
                    for path in (
                        root / "annotations/aggregated" / self.phase / element / folder
                    ).glob("*.ann"):
                        in_folder.setdefault(_pmid(path), (path, f"{folder}/{_pmid(path)}"))
                found |= in_folder
        sorted_out = files.assign(found.values(), splits=self.splits)
        if not sorted_out:
            raise SourceError(
                f"{inputs[0].name}: expected annotations/aggregated/{self.phase}/ELEMENT/train/PMID.AGGREGATED.ann, "
                f"found none; check --input and [source]"
            )
        return sorted_out

    def files(self, path: Path) -> list[Path]:
        """Return a document's tokens and its labels of each element, or the row file itself."""
        if path.suffix != ".ann":
            return [path]
        tokens, labels = self._places(path)
        return [place for place in (tokens, *labels.values()) if place.is_file()]

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Give a document of the folder as one part; cut row files as `Conll` does."""
        return (
            iter([Part(str(path))])
            if path.suffix == ".ann"
            else Conll().cut(path, target_bytes=target_bytes)
        )

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give the one document of a folder's part, or those of rows.

        Raises:
            SourceError: A row file has other tags than those of EBM-NLP.
        """
        path = Path(part.path)
        if path.suffix == ".ann":
            yield self._document(path)
            return
        labels = self._row_labels()
        for document in _rows(path).read(part):
            yield _relabel(document, labels) if isinstance(document, Document) else document

    def _row_labels(self) -> dict[str, str]:
        """Return what rows call a label -> its name; the scripts write `1_p` for label 1 of participants."""
        names: dict[str, str] = {}
        for element, (label, fine) in FINE.items():
            names |= {label[0]: label, label[:3].upper(): label}
            if self.phase == "starting_spans":
                names[f"1_{element[0]}"] = label
            else:
                names |= {
                    f"{i}_{element[0]}": f"{label}-{name}" for i, name in enumerate(fine, start=1)
                }
        return names

    def _document(self, path: Path) -> Document | SetAside:
        """Read one document of the folder, named by one of its label files."""
        pmid = _pmid(path)
        tokens, of_elements = self._places(path)
        if not tokens.is_file():
            return SetAside(pmid, f"{path.name}:1", f"expected documents/{tokens.name}, found none")
        try:
            words = _tokens(files.read_bytes(tokens))
        except RecordError as error:
            return SetAside(pmid, f"{tokens.name}:{error.line}", str(error))
        ends = [i for i, word in enumerate(words[:-1], start=1) if word == self.sentence_end]
        ranges = list(itertools.pairwise([0, *ends, len(words)]))
        mentions: list[list[tags.WordSpan]] = [[] for _ in ranges]
        for element, ann in of_elements.items():
            try:
                labels = self._labels(ann, element, num_words=len(words))
            except RecordError as error:
                return SetAside(pmid, f"{ann.name}:{error.line}", str(error))
            for (start, stop), of_sentence in zip(ranges, mentions, strict=True):
                of_sentence.extend(tags.runs(labels[start:stop], outside=""))
        sentences = [words[start:stop] for start, stop in ranges]
        return document_of_words(pmid, sentences, mentions, place=f"{tokens.name}:1")

    def _places(self, path: Path) -> tuple[Path, dict[str, Path]]:
        """Return where a document's tokens and each element's labels are, by the place of one of its label files."""
        root = next((parent for parent in path.parents if parent.name == "annotations"), path)
        below = root / "aggregated" / self.phase
        if below not in path.parents:
            raise SourceError(
                f"{path.name}: expected it at annotations/aggregated/{self.phase}/ELEMENT/SPLIT/, with documents/ "
                f"beside annotations/; pass the corpus' folder with --input"
            )
        folder = Path(*path.parent.relative_to(below).parts[1:])
        labels = {
            element: root / "aggregated" / self.phase / element / folder / path.name
            for element in FINE
        }
        return root.parent / "documents" / f"{_pmid(path)}.tokens", labels

    def _labels(self, path: Path, element: str, *, num_words: int) -> list[str]:
        """Return the label of each word, "" for none.

        Raises:
            RecordError: Something that is no label, or not one for each word.
        """
        if not path.is_file():
            return [""] * num_words
        label, fine = FINE[element]
        of_numbers = (
            [label] if self.phase == "starting_spans" else [f"{label}-{name}" for name in fine]
        )
        names = {b"": ""} | {str(i).encode(): name for i, name in enumerate(of_numbers, start=1)}
        found = []
        for line in files.lines(files.read_bytes(path)):
            for value in line.data.replace(b",", b" ").split():
                name = names.get(value.lstrip(b"0"))
                if name is None:
                    wanted = f"a number from 0 to {len(names) - 1} in {element}"
                    raise RecordError(f"expected {wanted}, got another word", line=line.number)
                found.append(name)
        if len(found) != num_words:
            raise RecordError(
                f"expected {num_words} labels in {element}, one a token, got {len(found)}", line=1
            )
        return found


def _roots(path: Path) -> list[Path]:
    """Return the folders at or below a path that are the corpus as published, sorted."""
    if (path / "annotations/aggregated").is_dir():
        return [path]
    return (
        sorted(folder.parent.parent for folder in path.rglob("annotations/aggregated"))
        if path.is_dir()
        else []
    )


def _pmid(path: Path) -> str:
    """Return the document of a label file: `10070173.AGGREGATED.ann`, `10070173_AGGREGATED.ann` in 1.00."""
    return re.split(r"[._]", path.name, maxsplit=1)[0]


def _tokens(data: bytes) -> list[str]:
    """Return the tokens of a document: one a line, or all in one line with spaces between them.

    Raises:
        RecordError: Not UTF-8, an empty line between others, or nothing at all.
    """
    found = list(files.lines(data.rstrip()))
    if len(found) == 1:
        found = [files.Line(1, word) for word in found[0].data.split(b" ") if word]
    words = []
    for line in found:
        try:
            words.append(line.data.decode("utf-8"))
        except UnicodeDecodeError:
            raise RecordError("expected UTF-8, got other bytes", line=line.number) from None
        if not line.data.strip():
            raise RecordError("expected a token, got an empty line", line=line.number)
    if not words:
        raise RecordError("expected tokens, got an empty file", line=1)
    return words


def _rows(path: Path) -> Conll:
    """Choose how to read rows: P, I, O, N as labels, unless the file's beginning has tags such as I-PAR."""
    conll = Conll(scheme="label", outside="N")
    columns = conll.columns(path)
    parsed = (columns.parse(line) for _, line in rows.head(path))
    is_tagged = any(
        isinstance(of_line, tuple) and of_line[1].startswith(("B-", "I-")) for of_line in parsed
    )
    return Conll() if is_tagged else conll


def _relabel(document: Document, names: Mapping[str, str]) -> Document | SetAside:
    """Give the mentions of rows the names that those of the folder have."""
    if any(span.label not in names for span in document.spans):
        return SetAside(
            document.id,
            document.place,
            "expected tags P, I, O and N, or I-PAR, I-INT, I-OUT and O, got others",
        )
    return document.with_spans(span._replace(label=names[span.label]) for span in document.spans)
