"""Reads EBM-NLP: the published folder, or the row files that its scripts make."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.formats.conll import Conll
from mslm_data.source.reading import marks, splits, tagged_lines, tags
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.files import NumberedLine, lines
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.word_documents import make_word_document

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
"""Folder of an element -> its label, and the names of its hierarchical labels 1, 2, … (README of
EBM-NLP)."""
_FOLDERS = ("train", "test/gold")
_LABELS = "annotations/aggregated"
_NO_TOKENS = Reason("expected a file of tokens in documents/ for the file of labels, found none")


@dataclass(frozen=True, kw_only=True)
class EbmNlp(TextOptions, Source):
    """EBM-NLP 1.00 and 2.00, and row files made of it.

    The folder holds `documents/PMID.tokens`, one token a line (1.00: separated by spaces), and
    `annotations/aggregated/PHASE/ELEMENT/{train,test/gold}/PMID.AGGREGATED.ann`, one integer a
    token (1.00: commas). An element without a file has no mentions, as in the corpus' own scripts.
    Mentions of different elements overlap and all are kept; one that runs over the end of a
    sentence becomes one in each sentence. A document in `test/gold` is left out of `train`;
    `test/crowd` is not read.

    Row files are CoNLL rows tagged P, I, O and N, where O is an outcome and N is outside; or tagged
    I-PAR, I-INT and I-OUT.

    The patterns of `splits` are those of row files, or of `train/PMID` and `test/gold/PMID`.
    """

    suffixes = Conll.suffixes

    phase: Annotated[
        Literal["starting_spans", "hierarchical_labels"],
        Help(
            '"starting_spans" with labels Participant, Intervention, Outcome; '
            '"hierarchical_labels" with labels such as Participant-Age.'
        ),
    ] = "starting_spans"
    sentence_end: Annotated[
        str,
        Help(
            'The token that ends a sentence, as in the corpus\' own scripts; "" for one sentence a '
            "document."
        ),
    ] = "."

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the lines say it
        """Return what speaks for row files of EBM-NLP; see `Source.recognises`.

        Tags such as I-PAR speak for nothing, as they are CoNLL's too.
        """
        head_lines = tagged_lines.head(head[: head.rfind(b"\n") + 1])
        filled = [line for _, line in head_lines if line.strip() and not marks.MARK.match(line)]
        rows = [tagged_lines.split_fields(line) for line in filled]
        labels = {fields[-1].strip() for fields in rows if len(fields) > 1}
        is_pico = "N" in labels and labels & {"P", "I", "O"} and labels <= {"P", "I", "O", "N"}
        return "its tags are P, I, O and N" if is_pico else ""

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the documents of each split; see `Source.find`.

        Returns:
            Split -> for each document, its label file of the first element that has one; or the row
            files.
        """
        roots = [root for path in inputs for root in _roots(path)]
        if not roots:
            return super().find(inputs)

        candidates: dict[str, splits.Candidate] = {}
        for folder in _FOLDERS:
            for root in roots:
                # Of a document in several folders the last counts: `test/gold` beats `train`.
                candidates |= self._label_files(root, folder)
        sorted_out = splits.assign(candidates.values(), splits=self.splits)
        if not sorted_out:
            raise SourceError(
                f"{inputs[0].name}: expected "
                f"{_LABELS}/{self.phase}/ELEMENT/train/PMID.AGGREGATED.ann, found none; check "
                "--input and [source]"
            )
        return sorted_out

    def _label_files(self, root: Path, folder: str) -> dict[str, splits.Candidate]:
        """Return document -> its first element's label file, and its name for patterns."""
        found: dict[str, splits.Candidate] = {}
        for element in FINE:
            for path in (root / _LABELS / self.phase / element / folder).glob("*.ann"):
                found.setdefault(_pmid(path), splits.Candidate(path, f"{folder}/{_pmid(path)}"))
        return found

    def files(self, path: Path) -> list[Path]:
        """Return a document's tokens and its labels of each element, or the row file itself."""
        if path.suffix != ".ann":
            return [path]
        tokens, labels = self._places(path)
        return [place for place in (tokens, *labels.values()) if place.is_file()]

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Give a document of the folder as one part; cut row files as `Conll` does."""
        if part.path.endswith(".ann"):
            return iter([part])
        return self._row_reader(Path(part.path)).cut(part, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the one document of a folder's part, or the documents of rows.

        Raises:
            SourceError: A row file has other tags than those of EBM-NLP.
        """
        path = Path(part.path)
        if path.suffix == ".ann":
            yield self._document(path)
            return
        names = self._names_in_rows()
        for document in self._row_reader(path).read(part):
            yield _renamed(document, names) if isinstance(document, Document) else document

    def _row_reader(self, path: Path) -> Conll:
        """Choose how rows are read: as labels P, I, O, N, unless there are tags such as I-PAR."""
        conll = Conll(scheme="label", outside="N", encoding=self.encoding)
        columns = conll.columns(path)
        for _, line in tagged_lines.head(self.beginning(path, tagged_lines.HEAD_BYTES)):
            parsed = columns.parse(line)
            if isinstance(parsed, tuple) and parsed[1].startswith(("B-", "I-")):
                return Conll(encoding=self.encoding)
        return conll

    def _names_in_rows(self) -> dict[str, str]:
        """Return label of rows -> name; the scripts write `1_p` for label 1 of participants."""
        names: dict[str, str] = {}
        for element, (label, fine) in FINE.items():
            names |= {label[0]: label, label[:3].upper(): label}
            if self.phase == "starting_spans":
                names[f"1_{element[0]}"] = label
            else:
                for number, name in enumerate(fine, start=1):
                    names[f"{number}_{element[0]}"] = f"{label}-{name}"
        return names

    def _document(self, path: Path) -> Document | SetAside:
        """Read one document of the folder, named by one of its label files."""
        pmid = _pmid(path)
        tokens, of_elements = self._places(path)
        if not tokens.is_file():
            return SetAside(pmid, f"{path.name}:1", _NO_TOKENS)
        try:
            words = _read_tokens(self.utf8(tokens))
        except RecordError as error:
            return SetAside(pmid, f"{tokens.name}:{error.line}", error.reason)

        ends = [i for i, word in enumerate(words[:-1], start=1) if word == self.sentence_end]
        ranges = list(itertools.pairwise([0, *ends, len(words)]))
        mentions: list[list[tags.WordSpan]] = [[] for _ in ranges]
        for element, file in of_elements.items():
            try:
                labels = self._read_labels(file, element, num_words=len(words))
            except RecordError as error:
                return SetAside(pmid, f"{file.name}:{error.line}", error.reason)
            for (start, stop), of_sentence in zip(ranges, mentions, strict=True):
                of_sentence.extend(tags.runs(labels[start:stop], outside=""))

        sentences = [words[start:stop] for start, stop in ranges]
        return make_word_document(pmid, sentences, mentions, place=f"{tokens.name}:1")

    def _places(self, path: Path) -> tuple[Path, dict[str, Path]]:
        """Return where the tokens and each element's labels of a document are.

        Args:
            path: One of its label files.

        Raises:
            SourceError: The file does not lie in the corpus' folder.
        """
        root = next((parent for parent in path.parents if parent.name == "annotations"), path)
        of_phase = root / "aggregated" / self.phase
        if of_phase not in path.parents:
            raise SourceError(
                f"{path}: expected it at {_LABELS}/{self.phase}/ELEMENT/SPLIT/, with documents/ "
                "beside annotations/; pass the corpus' folder with --input"
            )
        folder = Path(*path.parent.relative_to(of_phase).parts[1:])
        labels = {element: of_phase / element / folder / path.name for element in FINE}
        return root.parent / "documents" / f"{_pmid(path)}.tokens", labels

    def _read_labels(self, path: Path, element: str, *, num_words: int) -> list[str]:
        """Return the label of each word, "" for none.

        Raises:
            RecordError: A value is not a label, or there are more or fewer labels than words.
        """
        if not path.is_file():
            return [""] * num_words

        label, fine = FINE[element]
        of_numbers = [label]
        if self.phase == "hierarchical_labels":
            of_numbers = [f"{label}-{name}" for name in fine]
        # Leading zeros are stripped, so that label 0 is the empty word.
        names = {b"": ""} | {str(i).encode(): name for i, name in enumerate(of_numbers, start=1)}

        found = []
        for line in lines(self.utf8(path)):
            for value in line.data.replace(b",", b" ").split():
                name = names.get(value.lstrip(b"0"))
                if name is None:
                    raise RecordError(
                        f"expected a number from 0 to {len(of_numbers)} in {element}, got another "
                        "word",
                        code="number of a label",
                        line=line.number,
                    )
                found.append(name)
        if len(found) != num_words:
            raise RecordError(
                f"expected {num_words} labels in {element}, one a token, got {len(found)}",
                code="labels of tokens",
                line=1,
            )
        return found


def _roots(path: Path) -> list[Path]:
    """Return the folders at or below a path that are the corpus as published, sorted."""
    if (path / _LABELS).is_dir():
        return [path]
    if not path.is_dir():
        return []
    return sorted(folder.parent.parent for folder in path.rglob(_LABELS))


def _pmid(path: Path) -> str:
    """Return the document of a label file.

    Names are such as `10070173.AGGREGATED.ann`, or `10070173_AGGREGATED.ann` in 1.00.
    """
    return re.split(r"[._]", path.name, maxsplit=1)[0]


def _read_tokens(data: bytes) -> list[str]:
    """Return the tokens of a document: one a line, or all in one line with spaces between them.

    Raises:
        RecordError: Not UTF-8, an empty line between others, or no tokens.
    """
    found = list(lines(data.rstrip()))
    if len(found) == 1:
        found = [NumberedLine(1, word) for word in found[0].data.split(b" ") if word]

    words = []
    for line in found:
        words.append(decode_utf8(line.data, line=line.number))
        if not line.data.strip():
            raise RecordError("expected a token, got an empty line", line=line.number)
    if not words:
        raise RecordError("expected tokens, got an empty file", line=1)
    return words


def _renamed(document: Document, names: Mapping[str, str]) -> Document | SetAside:
    """Give the mentions of rows the labels that those of the folder have."""
    others = {span.label for span in document.spans}.difference(names)
    if others:
        return SetAside(
            document.id,
            document.place,
            Reason(
                "expected tags P, I, O and N, or I-PAR, I-INT, I-OUT and O, got "
                f"{len(others)} other label(s)"
            ),
        )
    return document.with_spans(span._replace(label=names[span.label]) for span in document.spans)
