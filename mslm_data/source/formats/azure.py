"""Reads labels files of Azure's custom NER (Language Studio): one JSON object, beside its texts.

A document of `assets.documents` names its text in `location`, and has its mentions in
`entities[].labels[]`: `category`, `offset` and `length`. Offsets count from the start of the text,
not of the region (`regionOffset`). `dataset` is the split.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from mslm_data.data.document import Part, SetAside, split_order
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Container, Findings, FormSource, JsonWithin, Record
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.files import packed_or_plain
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource, OffsetUnit

_KIND = re.compile(rb'"projectKind"\s*:\s*"CustomEntityRecognition"')
_SPLITS = {"train": "train", "test": "test"}
"""Dataset in lower case -> split."""
_UNITS: dict[str, OffsetUnit] = {"Utf16CodeUnit": "utf-16", "UnicodeCodePoint": "characters"}
"""`stringIndexType` -> unit of offsets."""
_LONGEST_LOCATION = 255
"""Maximum number of characters of a location. A longer one may be a text."""
_NO_TEXT_FILE = Reason("expected a text at the location, below the labels file, found none")


class _Assets(msgspec.Struct):
    """The assets of a project, with the fields that are read."""

    documents: list[msgspec.Raw]


class _Labels(msgspec.Struct):
    """A labels file, with the fields that are read."""

    assets: _Assets
    unit: Any = msgspec.field(default=None, name="stringIndexType")


class _Listed(NamedTuple):
    """A document of a labels file.

    Attributes:
        value: The JSON value.
        unit: Unit of its offsets, "" if the file has none.
    """

    value: object
    unit: OffsetUnit | Literal[""]


@dataclass
class _File:
    """A labels file while it is read.

    Attributes:
        splits: Split of each document; empty texts if no document of the file has a dataset.
        unit: Unit of offsets, "" if the file has none.
    """

    splits: list[str]
    unit: OffsetUnit | Literal[""] = ""

    def documents(self, data: bytes) -> list[msgspec.Raw]:
        """Return the JSON of each document, and keep the rest."""
        labels = msgspec.json.decode(data, type=_Labels)
        documents = labels.assets.documents
        self.unit = _UNITS.get(str(labels.unit), "")
        datasets = [_dataset(msgspec.json.decode(document)) for document in documents]
        if any(datasets):
            # Those without a dataset, or with an unknown one, are in the training set.
            self.splits += [_SPLITS.get(dataset, "train") for dataset in datasets]
        else:
            self.splits += [""] * len(datasets)
        return documents


class _Documents(Container["Azure"]):
    """A record for each document of the split that is read: a `_Listed`."""

    def records(self, options: Azure, part: Part, /) -> Iterator[Record | SetAside]:
        # `documents` fills in the splits, in parallel.
        file = _File([])
        records = JsonWithin(file.documents).records(options, part)
        for record, split in zip(records, file.splits, strict=True):
            if split and not options.reads(split):
                continue
            if isinstance(record, Record):
                yield record._replace(content=_Listed(record.content, file.unit))
            else:
                yield record

    def splits(self, options: Azure, path: Path) -> set[str]:
        """Return the splits that documents name, none if a file cannot be read."""
        file = _File([])
        with suppress(SourceError):
            list(JsonWithin(file.documents).records(options, Part(str(path))))
        return set(file.splits) - {""}


class Azure(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """Labels files of Azure's custom NER, as Language Studio exports them, beside their texts.

    The document id is its `location` without `.txt`. The text is a file at this location, relative
    to the folder of the labels file; locations that lead out of the folder are set aside, and so
    are documents without a text. Line ends of the text are unchanged, because offsets count them.

    `dataset`, Train or Test, is the split of a document; with another value it is set aside, and
    without one it is in `train`. If no document of a file has a dataset, the file's name gives the
    split, as in other formats. With `splits`, datasets are ignored.

    Offsets count characters, unless `stringIndexType` is `Utf16CodeUnit` or `offsets` is set.
    """

    suffixes = (".json",)
    segmenter = "clinical"
    container = _Documents()

    _split: str = ""
    """Split whose documents are read, "" for all. Not an option; see `Source.for_split`."""

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a labels file; see `Source.sniff`."""
        head = sample.head.removeprefix(BOM_UTF8)
        if head.lstrip().startswith(b"{") and b'"assets"' in head and _KIND.search(head):
            return Guess("its projectKind is CustomEntityRecognition")
        return Guess()

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the labels files of each split; see `Source.find`.

        A file with datasets is in the splits that they name.
        """
        by_split = super().find(inputs)
        if self.splits:
            return by_split
        found: dict[str, set[Path]] = {}
        for split, paths in by_split.items():
            for path in paths:
                for own in _Documents().splits(self, path) or [split]:
                    found.setdefault(own, set()).add(path)
        return {split: sorted(found[split]) for split in sorted(found, key=split_order)}

    def files(self, path: Path) -> list[Path]:
        """Return a labels file and the texts that exist, of all splits."""
        everything = replace(self, _split="")
        texts: set[Path] = set()
        # A file that cannot be read is reported by `read`.
        with suppress(SourceError):
            for record in _Documents().records(everything, Part(str(path))):
                if isinstance(record, Record):
                    text = _find_text(path, _location(record.content.value))
                    texts.update([text] if text else [])
        return [path, *sorted(texts - {path})]

    def for_split(self, split: str) -> Azure:
        """Return a source that reads only the documents of a split."""
        return self if self.splits else replace(self, _split=split)

    def reads(self, split: str) -> bool:
        """Return whether documents of a split are read."""
        return self._split in ("", split)

    def understand(self, record: Record, found: Findings) -> None:
        """Read the text of a document, and its mentions."""
        row, unit = record.content
        found.lost = _count_labels(row)
        location = _location(row)
        if location:
            found.id = location.removesuffix(".txt")
        document = cells.mapping(row)
        if _dataset(document) not in ("", *_SPLITS) and not self.splits:
            raise RecordError("expected the dataset Train or Test, got another")

        found.unit = unit
        found.mentions = [
            _mention(cells.mapping(label))
            for region in cells.column_list(document, "entities")
            for label in cells.column_list(cells.mapping(region), "labels")
        ]
        path = _find_text(record.path, location)
        if path is None:
            raise RecordError(_NO_TEXT_FILE)
        found.text = decode_utf8(self.utf8(path))
        found.is_file = True


def _mention(label: Cells) -> Annotation:
    """Return a label as a mention.

    Raises:
        RecordError: Offset or length is not a whole number.
    """
    start, length = cells.pair([label.get("offset"), label.get("length")])
    return Annotation([(start, start + length)], label=cells.joined(label.get("category")) or "")


def _dataset(value: object) -> str:
    """Return the dataset of a document in lower case, "" if it has none, "?" if it is no text."""
    dataset = value.get("dataset") if isinstance(value, dict) else None
    if isinstance(dataset, str):
        return dataset.strip().casefold()
    return "" if dataset is None else "?"


def _location(value: object) -> str:
    """Return the location of a document, "" if it has none that may appear in messages."""
    location = value.get("location") if isinstance(value, dict) else None
    if not isinstance(location, str) or len(location) > _LONGEST_LOCATION:
        return ""
    return location if location.isprintable() else ""


def _find_text(path: Path, location: str) -> Path | None:
    """Return the text at a location below the folder of a labels file, None if there is none."""
    below = PurePosixPath(location)
    if not below.parts or below.is_absolute() or ".." in below.parts:
        return None
    try:
        return packed_or_plain(path.parent / below)
    except OSError:  # the name is too long
        return None


def _count_labels(value: object) -> int:
    """Return the number of labels of a document, -1 if it has no list of them."""
    regions = value.get("entities") if isinstance(value, dict) else None
    if not isinstance(regions, list):
        return -1
    labels = [region.get("labels") for region in regions if isinstance(region, dict)]
    return sum(len(listed) for listed in labels if isinstance(listed, list))
