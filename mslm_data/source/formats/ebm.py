"""Reads EBM-NLP: the published folder, or row files made by its scripts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.formats.conll import Conll
from mslm_data.source.reading import marks, splits, tagged_lines, tags
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import NumberedLine, lines
from mslm_data.source.reading.records import RecordError, decode_utf8

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
"""Folder of an element -> its label, and the names of its hierarchical labels 1, 2, …"""
_FOLDERS = ("train", "test/gold")
_LABELS = "annotations/aggregated"
_NO_TOKENS = Reason("expected a file of tokens in documents/ for the file of labels, found none")


class EbmNlp(FormSource, TextSource, frozen=True, kw_only=True):
    """EBM-NLP 1.00 and 2.00, and row files made from it.

    The folder has `documents/PMID.tokens`, with one token per line (1.00: separated by spaces), and
    `annotations/aggregated/PHASE/ELEMENT/{train,test/gold}/PMID.AGGREGATED.ann`, with one integer
    per token (1.00: separated by commas). An element without a file has no mentions, as in the
    corpus' own scripts. Mentions of different elements may overlap; all are kept. A mention across
    sentences is split into one mention per sentence. Documents in `test/gold` are excluded from
    `train`. `test/crowd` is not read.

    Row files are CoNLL rows with tags P, I, O and N, where O is an outcome and N is outside, or
    with tags I-PAR, I-INT and I-OUT.

    Patterns in `splits` match the paths of row files, or `train/PMID` and `test/gold/PMID`.
    """

    suffixes = Conll.suffixes
    container = WholeFile()

    phase: Annotated[
        Literal["starting_spans", "hierarchical_labels"],
        Meta(
            description='"starting_spans" with labels Participant, Intervention and Outcome, or '
            '"hierarchical_labels" with labels such as Participant-Age.'
        ),
    ] = "starting_spans"
    sentence_end: Annotated[
        str,
        Meta(
            description='Token that ends a sentence, as in the corpus\' own scripts. With "", a '
            "document is one sentence."
        ),
    ] = "."

    def sniff(self, sample: Sample) -> Guess:
        """Recognise row files of EBM-NLP; see `Source.sniff`.

        Tags such as I-PAR are no evidence, because they may be any CoNLL file's.
        """
        head_lines = tagged_lines.head(sample.head[: sample.head.rfind(b"\n") + 1])
        filled = [line for _, line in head_lines if line.strip() and not marks.MARK.match(line)]
        rows = [tagged_lines.split_fields(line) for line in filled]
        labels = {fields[-1].strip() for fields in rows if len(fields) > 1}
        is_pico = "N" in labels and labels & {"P", "I", "O"} and labels <= {"P", "I", "O", "N"}
        return Guess("its tags are P, I, O and N" if is_pico else "")

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the documents of each split; see `Source.find`.

        Returns:
            Split -> row files, or for each document its first label file, in the order of `FINE`.
        """
        roots = [root for path in inputs for root in _roots(path)]
        if not roots:
            return super().find(inputs)

        candidates: dict[str, splits.Candidate] = {}
        for folder in _FOLDERS:
            for root in roots:
                # `test/gold` comes last, so it replaces the same document in `train`.
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
        """Return document -> its first label file, with a path for patterns."""
        candidates: dict[str, splits.Candidate] = {}
        for element in FINE:
            for path in (root / _LABELS / self.phase / element / folder).glob("*.ann"):
                below = f"{folder}/{_pmid(path)}"
                candidates.setdefault(_pmid(path), splits.Candidate(path, below))
        return candidates

    def files(self, path: Path) -> list[Path]:
        """Return a document's tokens and label files, or the row file itself."""
        if path.suffix != ".ann":
            return [path]
        tokens, labels = self._places(path)
        return [tokens, *labels.values()] if tokens.is_file() else [*labels.values()]

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Return a document of the folder as one part. Row files are cut as by `Conll`."""
        if _is_of_folder(part):
            return super().cut(part, target_bytes=target_bytes)
        return self._row_reader(Path(part.path)).cut(part, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read a document of the folder, or the documents of a row file.

        Raises:
            SourceError: A row file has tags that are not EBM-NLP's.
        """
        if _is_of_folder(part):
            yield from super().read(part)
            return
        names = self._names_in_rows()
        for document in self._row_reader(Path(part.path)).read(part):
            yield _renamed(document, names) if isinstance(document, Document) else document

    def understand(self, record: Record, found: Findings) -> None:
        """Read a document of the folder, given by one of its label files."""
        found.id = _pmid(record.path)
        tokens, label_files = self._places(record.path)
        if not tokens.is_file():
            raise RecordError(_NO_TOKENS)
        found.place = f"{tokens.name}:1"
        found.file = tokens.name
        words = _read_tokens(self.utf8(tokens))

        labels: list[list[str]] = []
        for element, file in label_files.items():
            found.file = file.name
            labels.append(self._read_labels(file, element, num_words=len(words)))

        # Split into sentences before decoding, so that no mention crosses a sentence.
        ends = [i for i, word in enumerate(words[:-1], start=1) if word == self.sentence_end]
        found.words = []
        for start, stop in itertools.pairwise([0, *ends, len(words)]):
            found.words.append(words[start:stop])
            for element_labels in labels:
                spans = tags.runs(element_labels[start:stop], outside="")
                found.spans += [span.shifted(start) for span in spans]

    def _row_reader(self, path: Path) -> Conll:
        """Return a reader for tags such as I-PAR if the file has any, else for P, I, O and N."""
        conll = Conll(scheme="label", outside="N", encoding=self.encoding)
        columns = conll.columns(path)
        for _, line in tagged_lines.head(self.beginning(path, tagged_lines.HEAD_BYTES)):
            parsed = columns.parse(line)
            if isinstance(parsed, tuple) and parsed[1].startswith(("B-", "I-")):
                return Conll(encoding=self.encoding)
        return conll

    def _names(self, element: str) -> list[str]:
        """Return the labels with the numbers 1, 2, … of an element."""
        label, fine = FINE[element]
        if self.phase == "starting_spans":
            return [label]
        return [f"{label}-{name}" for name in fine]

    def _names_in_rows(self) -> dict[str, str]:
        """Return label in rows -> full label. Scripts write `1_p` for label 1 of participants."""
        names: dict[str, str] = {}
        for element, (label, _) in FINE.items():
            names |= {label[0]: label, label[:3].upper(): label}
            for number, name in enumerate(self._names(element), start=1):
                names[f"{number}_{element[0]}"] = name
        return names

    def _places(self, path: Path) -> tuple[Path, dict[str, Path]]:
        """Return the path of a document's tokens, and element -> its file of labels, if it has one.

        Args:
            path: A label file of the document.

        Raises:
            SourceError: The file is not in a folder of the corpus.
        """
        root = next((parent for parent in path.parents if parent.name == "annotations"), path)
        phase = root / "aggregated" / self.phase
        if phase not in path.parents:
            raise SourceError(
                f"{path}: expected it at {_LABELS}/{self.phase}/ELEMENT/SPLIT/, with documents/ "
                "beside annotations/; pass the corpus' folder with --input"
            )
        folder = Path(*path.parent.relative_to(phase).parts[1:])
        labels = {element: phase / element / folder / path.name for element in FINE}
        labels = {element: file for element, file in labels.items() if file.is_file()}
        return root.parent / "documents" / f"{_pmid(path)}.tokens", labels

    def _read_labels(self, path: Path, element: str, *, num_words: int) -> list[str]:
        """Return the label of each word, "" for none.

        Raises:
            RecordError: A value is not a label, or the number of labels is wrong.
        """
        label_names = self._names(element)
        # Leading zeros are stripped below, so label 0 becomes the empty word.
        names = {b"": ""} | {str(i).encode(): name for i, name in enumerate(label_names, start=1)}

        labels = []
        for line in lines(self.utf8(path)):
            # 1.00 separates labels by commas, 2.00 by lines.
            for value in line.data.replace(b",", b" ").split():
                name = names.get(value.lstrip(b"0"))
                if name is None:
                    raise RecordError(
                        f"expected a number from 0 to {len(label_names)} in {element}, got another "
                        "word",
                        code="number of a label",
                        line=line.number,
                    )
                labels.append(name)
        if len(labels) != num_words:
            raise RecordError(
                f"expected {num_words} labels in {element}, one per token, got {len(labels)}",
                code="labels of tokens",
                line=1,
            )
        return labels


def _roots(path: Path) -> list[Path]:
    """Return the folders of the published corpus at or below a path, sorted."""
    if (path / _LABELS).is_dir():
        return [path]
    if not path.is_dir():
        return []
    return sorted(folder.parent.parent for folder in path.rglob(_LABELS))


def _is_of_folder(part: Part) -> bool:
    return part.path.endswith(".ann")


def _pmid(path: Path) -> str:
    """Return the document of a label file.

    Files are named `10070173.AGGREGATED.ann`, or `10070173_AGGREGATED.ann` in 1.00.
    """
    return re.split(r"[._]", path.name, maxsplit=1)[0]


def _read_tokens(data: bytes) -> list[str]:
    """Return the tokens of a document: one per line, or separated by spaces in a single line.

    Raises:
        RecordError: The file is not valid UTF-8, has an empty line between tokens, or has no
            tokens.
    """
    token_lines = list(lines(data.rstrip()))
    if len(token_lines) == 1:
        token_lines = [NumberedLine(1, word) for word in token_lines[0].data.split(b" ") if word]

    words = []
    for line in token_lines:
        words.append(decode_utf8(line.data, line=line.number))
        if not line.data.strip():
            raise RecordError("expected a token, got an empty line", line=line.number)
    if not words:
        raise RecordError("expected tokens, got an empty file", line=1)
    return words


def _renamed(document: Document, names: Mapping[str, str]) -> Document | SetAside:
    """Rename the labels of rows to those of the folder."""
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
