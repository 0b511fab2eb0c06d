"""Reads WebAnno TSV 3, exported by INCEpTION and WebAnno: a token per line, features in columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.reading.candidates import NO_FEATURE, choose_layer
from mslm_data.source.reading.files import IdFrom, NumberedLine, document_id, lines
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import (
    Annotation,
    Ends,
    OffsetTextSource,
    OffsetUnit,
)

_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_FORMAT = re.compile(r"#FORMAT=WebAnno TSV 3\.(\d)\s*\Z")
_LAYER = re.compile(r"#T_(SP|RL|CH)=(.*)\Z")
_TEXT = "#Text="
_HEAD = 1 << 16

_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})\Z")
_FIRST_FEATURES = 3
"""Number of columns before those of the layers: number, range and token."""

_STACKED = re.compile(r"((?:[^\\|]|\\.)*)(?:\||\Z)", re.DOTALL)
_NUMBERED = re.compile(r"((?:[^\\\[]|\\.)*)\[([0-9]{1,9})\]\Z", re.DOTALL)
_NO_ANNOTATION = "_"
_NO_VALUE = "*"

_ESCAPED_VALUE = re.compile(r"\\(->|[\\\[\]|_;*tn])")
_ESCAPED_TEXT = re.compile(r"\\([tnfrb\\\x00-\x07\x0e-\x1f])")
_ESCAPED_JAVA = re.compile(r"\\(u[0-9a-fA-F]{4}|[tnfrb\\\"'])")
_MEANINGS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r", "b": "\b"}


class _Layer(NamedTuple):
    """A layer of spans, relations or chains.

    Attributes:
        kind: SP for spans, RL for relations, CH for chains.
        name: Type of the layer.
        columns: Names of the features in its columns, "" for a column without one.
        first: Number of its first column.
    """

    kind: str
    name: str
    columns: Sequence[str]
    first: int

    def features(self) -> list[str]:
        """Return the names of its features, without roles and their targets."""
        return [
            name
            for i, name in enumerate(self.columns)
            if name and not name.startswith("ROLE_") and not _is_target(self, i)
        ]


class _Unit(NamedTuple):
    """A token, or an annotated part of one.

    Attributes:
        start: First character, in the unit of the offsets.
        end: Character after the last.
        word: Text.
    """

    start: int
    end: int
    word: str


@dataclass
class _Mention:
    """The content of a mention's lines.

    Attributes:
        units: Units of the mention, in order.
        features: Name of a feature -> its value.
    """

    units: list[_Unit] = field(default_factory=list)
    features: dict[str, str] = field(default_factory=dict)

    def annotation(self, *, label: str, concept: str) -> Annotation:
        """Make an annotation from the first unit to the last."""
        words = ""
        past = self.units[0].start
        for unit in self.units:
            words += unit.word if unit.start == past else f" {unit.word}"
            past = unit.end
        end = max(unit.end for unit in self.units)
        return Annotation(
            [(self.units[0].start, end)],
            self.features.get(label, ""),
            words,
            self.features.get(concept, "") if concept else "",
        )


class WebAnno(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """Files of WebAnno TSV 3.0 to 3.3, one document each.

    Mentions are the annotations of one span layer. Stacked annotations are separate mentions;
    annotations of zero width count as unplaced. Offsets count UTF-16 code units, as in Java; files
    written by Python programs may count characters. The text consists of the sentences at their
    offsets; gaps are filled with spaces and a line end. Malformed files are set aside.

    Files name only layers with annotations, so only one of the files needs to have the layer.

    Annotation tools write a file for each annotator and document, usually in a folder named after
    the document. Each file is a document here, so select the files of one annotator or the curated
    ones, as in `splits = { train = ["*/CURATION_USER.tsv"] }`, and set `id_from = "folder"`.
    """

    suffixes = (".tsv",)
    by_content = True
    columns_noun = "the features"
    container = WholeFile()

    layer: Annotated[
        str,
        Meta(
            min_length=1,
            description="Layer of mentions: its type, with or without the package. Layers of "
            "INCEpTION's users have names like `webanno.custom.Symptom`. If no file has the "
            "default layer, the only user-defined layer is used, with its only feature.",
        ),
    ] = _NAMED_ENTITY
    label_feature: Annotated[str, Meta(min_length=1, description="Feature with the label.")] = (
        "value"
    )
    concept_feature: Annotated[str, Meta(description='Feature with the concept, "" for none.')] = (
        "identifier"
    )
    id_from: Annotated[
        IdFrom,
        Meta(description="Whether a document is named after its file or the folder of its file."),
    ] = "file"
    offsets: Annotated[
        Literal["auto"] | OffsetUnit,
        Meta(description="Unit of offsets. Default: as defined by the format."),
    ] = "utf-16"
    ends: Annotated[
        Literal["auto"] | Ends,
        Meta(description="Meaning of end offsets. Default: as defined by the format."),
    ] = "exclusive"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise WebAnno TSV; see `Source.sniff`."""
        first = next(lines(sample.head), NumberedLine(1, b"")).data
        return Guess("its first line is #FORMAT=WebAnno TSV 3" if _is_format(first) else "")

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Choose the only user-defined layer if no file has the default; see `Source.settle`.

        Raises:
            SourceError: No file has the layer of the options, there are several layers or features,
                or a file cannot be read.
        """
        return choose_layer(
            "layer",
            map(self._layers, paths),
            expected=self.layer,
            may_take=self.layer == _NAMED_ENTITY,
        )

    def _layers(self, path: Path) -> dict[str, list[str]] | None:
        """Return span layer -> its features; None if a file has the layer of mentions.

        Empty for a file without a header. Reading sets it aside.
        """
        try:
            _, layers = _read_header(list(lines(self.beginning(path, _HEAD))))
            if self._chosen(layers):
                return None
        except RecordError:
            return {}
        return {layer.name: layer.features() for layer in layers if layer.kind == "SP"}

    def list_columns(self, path: Path) -> list[str]:
        """Return the features of the layer of mentions in a file; see `Source.list_columns`."""
        try:
            _, layers = _read_header(list(lines(self.beginning(path, _HEAD))))
            layer = self._chosen(layers)
        except RecordError:
            return []
        return layer.features() if layer else []

    def understand(self, record: Record, found: Findings) -> None:
        """Read the sentences and the mentions."""
        found.id = document_id(record.path, self.id_from)
        content = list(lines(self.utf8(record.path)))
        version, layers = _read_header(content)
        layer = self._chosen(layers)
        width = layers[-1].first + len(layers[-1].columns) if layers else _FIRST_FEATURES

        mentions: dict[object, _Mention] = {}
        texts: list[str] = []  # `#Text` lines of the sentence whose first token comes next
        for line in content[1:]:
            text = decode_utf8(line.data, line=line.number)
            if text.startswith("#"):
                if text.startswith(_TEXT):
                    escaped = text.removeprefix(_TEXT)
                    texts.append(_unescaped_text(escaped, version, line.number))
            elif text:
                fields = text.split("\t")
                unit = _unit(fields, width, line.number)
                if texts:
                    found.pieces.append((unit.start, "\n".join(texts)))
                    texts = []
                if layer is not None:
                    _add(mentions, unit, layer, fields)

        if not any(piece for _, piece in found.pieces):
            raise RecordError("expected sentences with tokens, found none")
        for mention in mentions.values():
            if mention.features.get(self.label_feature):
                found.mentions.append(
                    mention.annotation(label=self.label_feature, concept=self.concept_feature)
                )
            else:
                found.left_out[NO_FEATURE] += 1

    def _chosen(self, layers: Sequence[_Layer]) -> _Layer | None:
        """Return the layer of mentions, None if a file does not have it.

        Raises:
            RecordError: Several layers have this name.
        """
        matches = [
            layer
            for layer in layers
            if layer.kind == "SP" and self.layer in (layer.name, layer.name.rpartition(".")[2])
        ]
        if len(matches) > 1:
            raise RecordError(
                "expected one layer of that name, got several; set [source] layer to its full type"
            )
        return matches[0] if matches else None


def _is_format(line: bytes) -> bool:
    return _FORMAT.match(line.decode("utf-8", errors="replace")) is not None


def _read_header(content: Sequence[NumberedLine]) -> tuple[int, list[_Layer]]:
    """Return the minor version and the layers of a file.

    Raises:
        RecordError: The file is not WebAnno TSV 3, or a layer has no type.
    """
    first = decode_utf8(content[0].data, line=1) if content else ""
    version = _FORMAT.match(first)
    if version is None:
        raise RecordError("expected #FORMAT=WebAnno TSV 3.x as the first line, got another")

    layers = []
    column = _FIRST_FEATURES
    for line in content[1:]:
        match = _LAYER.match(decode_utf8(line.data, line=line.number))
        if match is None:
            break
        pieces = [piece for piece in match[2].strip().split("|") if piece]
        if not pieces:
            raise RecordError(
                f"expected the type of a layer after #T_{match[1]}=, got nothing",
                code="type of a layer",
                line=line.number,
            )
        name, *columns = pieces
        # A layer without features still has one column.
        columns = columns or [""]
        layers.append(_Layer(match[1], name, columns, column))
        column += len(columns)
    return int(version[1]), layers


def _unit(fields: Sequence[str], width: int, line: int) -> _Unit:
    """Read the columns before those of the layers.

    Raises:
        RecordError: There are too few columns, or the second is not a range.
    """
    if len(fields) < width:
        raise RecordError(
            f"expected at least {width} columns, as the header says, got {len(fields)}",
            code="columns of a row",
            line=line,
        )
    match = _RANGE.match(fields[1])
    if match is None:
        raise RecordError(
            "expected a range such as 0-5 in the second column, got another value", line=line
        )
    return _Unit(int(match[1]), int(match[2]), fields[2])


def _add(
    mentions: dict[object, _Mention], unit: _Unit, layer: _Layer, fields: Sequence[str]
) -> None:
    """Add the annotations in a line to the mentions.

    Annotations that are stacked, or span several units, have a number, the same in all their
    columns and lines. An annotation without a number spans this unit only.
    """
    values: list[dict[str, str]] = []
    numbers: list[int | None] = []
    for i, column in enumerate(layer.columns):
        cell = fields[layer.first + i]
        if cell == _NO_ANNOTATION:
            continue
        for place, piece in enumerate(_pieces(cell)):
            if place == len(values):
                values.append({})
                numbers.append(None)
            if _is_target(layer, i):
                continue  # numbers in this column belong to the target of a relation
            match = _NUMBERED.match(piece)
            if match is not None:
                numbers[place] = int(match[2])
            value = piece if match is None else match[1]
            if value != _NO_VALUE:
                values[place][column] = _unescaped_value(value)

    for place, (features, number) in enumerate(zip(values, numbers, strict=True)):
        # A key that no number equals, for an annotation of this unit only.
        key: object = (len(mentions), place) if number is None else number
        mention = mentions.setdefault(key, _Mention())
        mention.units.append(unit)
        mention.features = {**features, **mention.features}


def _is_target(layer: _Layer, i: int) -> bool:
    """Return whether a column holds the targets of the role before it."""
    return i > 0 and layer.columns[i - 1].startswith("ROLE_")


def _pieces(cell: str) -> list[str]:
    """Split a cell at each `|` that is not escaped."""
    pieces = [match[1] for match in _STACKED.finditer(cell)]
    # The pattern also matches the empty text at the end of a cell, unless the cell ends in `|`.
    return pieces if cell.endswith("|") else pieces[:-1]


def _unescaped_value(value: str) -> str:
    return _ESCAPED_VALUE.sub(lambda match: _MEANINGS.get(match[1], match[1]), value)


def _unescaped_text(text: str, version: int, line: int) -> str:
    """Return the text of a sentence.

    Args:
        text: Text after `#Text=`.
        version: Minor version of the format.
        line: Line number, for the error.

    Raises:
        RecordError: Half of a surrogate pair is escaped.
    """
    if version > 1:
        return _ESCAPED_TEXT.sub(lambda match: _MEANINGS.get(match[1], match[1]), text)

    unescaped = _ESCAPED_JAVA.sub(
        lambda match: (
            chr(int(match[1][1:], 16))
            if match[1].startswith("u")
            else _MEANINGS.get(match[1], match[1])
        ),
        text,
    )
    # Java escapes a character beyond U+FFFF as two UTF-16 code units.
    try:
        return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise RecordError(
            "expected surrogates in pairs such as \\uD83D\\uDE42 in #Text, got half a pair",
            line=line,
        ) from None
