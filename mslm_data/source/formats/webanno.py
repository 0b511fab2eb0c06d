"""Reads WebAnno TSV 3, as INCEpTION and WebAnno export it: a token a line, a column a feature."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.reading.candidates import is_user_layer, take_only
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.files import IdFrom, NumberedLine, document_id, lines
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation, Ends, OffsetOptions, OffsetUnit

_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_FORMAT = re.compile(r"#FORMAT=WebAnno TSV 3\.(\d)\s*\Z")
_LAYER = re.compile(r"#T_(SP|RL|CH)=(.*)\Z")
_TEXT = "#Text="
_HEAD = 1 << 16

_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})\Z")
_FIRST_FEATURES = 3
"""Columns before those of the layers: number, range and token."""

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
        name: Its type.
        columns: Its columns; features by their names, "" for one without.
        first: Number of its first column in a line.
    """

    kind: str
    name: str
    columns: Sequence[str]
    first: int

    def features(self) -> list[str]:
        """Return the names of its features, without roles and what they point to."""
        return [
            name
            for i, name in enumerate(self.columns)
            if name and not name.startswith("ROLE_") and not _is_target(self, i)
        ]


class _Unit(NamedTuple):
    """A token, or a part of one that is annotated.

    Attributes:
        start: First character, in the unit that offsets count.
        end: Character after the last.
        word: Its text.
    """

    start: int
    end: int
    word: str


@dataclass
class _Mention:
    """Hold what the lines of a mention have.

    Attributes:
        units: What it lies on, in order.
        features: Name of a feature -> its value.
    """

    units: list[_Unit] = field(default_factory=list)
    features: dict[str, str] = field(default_factory=dict)

    def annotation(self, *, label: str, concept: str) -> Annotation:
        """Return the mention, from its first unit to its last."""
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


@dataclass(frozen=True, kw_only=True)
class WebAnno(OffsetOptions, TextOptions, Source):
    """Files of WebAnno TSV 3.0 to 3.3, a document each.

    Mentions are the annotations of one layer of spans, stacked ones each for itself; those of no
    width are counted as unplaced. Offsets count code units of UTF-16, as Java does; programs that
    write the format in Python may count characters. The text is that of the sentences at their
    offsets; gaps are filled with spaces and a line end. A file that is broken is set aside.

    Files name only the layers that they have annotations of. So the layer need not stand in every
    file, but in one of them.

    Annotation tools write a file for each annotator and document, mostly in a folder named like the
    document. Each file is a document here, so choose one annotator's, or the curated ones, as in
    `splits = { train = ["*/CURATION_USER.tsv"] }`, and set `id_from = "folder"`.
    """

    suffixes = (".tsv",)
    by_content = True
    columns_noun = "the features"

    layer: Annotated[
        str,
        Help(
            "The layer of mentions: its type, with its package or its last part alone. Layers of "
            "INCEpTION's users are named like `webanno.custom.Symptom`. Where no file has the "
            "usual one, the only layer of users is taken, with its only feature."
        ),
    ] = _NAMED_ENTITY
    label_feature: Annotated[str, Help("The feature that holds the label.")] = "value"
    concept_feature: Annotated[str, Help('The feature that holds the concept, "" for none.')] = (
        "identifier"
    )
    id_from: Annotated[
        IdFrom, Help("Whether a document is named like its file or like the folder of its file.")
    ] = "file"
    offsets: Annotated[
        Literal["auto"] | OffsetUnit,
        Help("What offsets count; the default is what the format says."),
    ] = "utf-16"
    ends: Annotated[
        Literal["auto"] | Ends, Help("What an end is; the default is what the format says.")
    ] = "exclusive"

    def __post_init__(self) -> None:
        if not self.layer or not self.label_feature:
            raise ValueError("expected names for layer and label_feature, got ''")

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes say it
        """Return what speaks for WebAnno TSV; see `Source.recognises`."""
        first = next(lines(head), NumberedLine(1, b"")).data
        return "its first line is #FORMAT=WebAnno TSV 3" if _is_format(first) else ""

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Take the one layer that files have where none has the usual one; see `Source.settle`.

        Raises:
            SourceError: None has that of the options, or there are several, or one cannot be read.
        """
        found: dict[str, dict[str, None]] = {}
        has_layers = False
        for path in paths:
            head = lines(self.beginning(path, _HEAD))
            try:
                _, layers = _read_header(list(head))
                has_layer = self._chosen(layers) is not None
            except RecordError:
                continue  # it is set aside when it is read
            if has_layer:
                return {}
            for layer in layers:
                if layer.kind == "SP" and is_user_layer(layer.name):
                    found.setdefault(layer.name, {}).update(dict.fromkeys(layer.features()))
            has_layers = has_layers or bool(layers)
        if not has_layers:
            return {}
        return take_only(
            "layer",
            {name: [*features] for name, features in found.items()},
            feature="label_feature",
            instead_of=self.layer,
            may_take=self.layer == _NAMED_ENTITY,
        )

    def list_columns(self, path: Path) -> list[str]:
        """Return the features of the layer that is read, those of a file; see `Source`."""
        try:
            _, layers = _read_header(list(lines(self.beginning(path, _HEAD))))
            layer = self._chosen(layers)
        except RecordError:
            return []
        return layer.features() if layer else []

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the one document; see `Source.read`."""
        path = Path(part.path)
        doc_id = document_id(path, self.id_from)
        try:
            yield self._document(path, doc_id)
        except RecordError as error:
            yield SetAside(doc_id, f"{path.name}:{error.line or 1}", error.reason)

    def _document(self, path: Path, doc_id: str) -> Document:
        content = list(lines(self.utf8(path)))
        version, layers = _read_header(content)
        layer = self._chosen(layers)
        width = layers[-1].first + len(layers[-1].columns) if layers else _FIRST_FEATURES

        pieces: list[tuple[int, str]] = []
        mentions: dict[object, _Mention] = {}
        texts: list[str] = []  # of the sentence whose first token is to come
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
                    pieces.append((unit.start, "\n".join(texts)))
                    texts = []
                if layer is not None:
                    _add(mentions, unit, layer, fields)

        annotations = [
            mention.annotation(label=self.label_feature, concept=self.concept_feature)
            for mention in mentions.values()
        ]
        whole, sentences, placed = self.lay_out(pieces, annotations)
        if not whole:
            raise RecordError("expected sentences with tokens, found none")
        return placed.document(doc_id, whole, sentences=sentences, place=f"{path.name}:1")

    def _chosen(self, layers: Sequence[_Layer]) -> _Layer | None:
        """Return the layer of mentions, None where a file does not have it.

        Raises:
            RecordError: Several have its name.
        """
        found = [
            one
            for one in layers
            if one.kind == "SP" and self.layer in (one.name, one.name.rpartition(".")[2])
        ]
        if len(found) > 1:
            raise RecordError(
                "expected one layer of that name, got several; set [source] layer to its whole type"
            )
        return found[0] if found else None


def _is_format(line: bytes) -> bool:
    return _FORMAT.match(line.decode("utf-8", errors="replace")) is not None


def _read_header(content: Sequence[NumberedLine]) -> tuple[int, list[_Layer]]:
    """Return the version after the 3, and the layers of a file.

    Raises:
        RecordError: It is not WebAnno TSV 3, or a layer has no type.
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
                f"expected the type of a layer behind #T_{match[1]}=, got nothing",
                code="type of a layer",
                line=line.number,
            )
        name, *columns = pieces
        columns = columns or [""]
        layers.append(_Layer(match[1], name, columns, column))
        column += len(columns)
    return int(version[1]), layers


def _unit(fields: Sequence[str], width: int, line: int) -> _Unit:
    """Read the columns that every line of a token has.

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
    """Add what a line has of a layer to the mentions.

    Annotations that are stacked, or that lie on several units, are numbered; the number is the same
    in all their columns and lines. All others lie on one unit alone.
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
                continue  # its numbers are those of what the annotation points to
            match = _NUMBERED.match(piece)
            if match is not None:
                numbers[place] = int(match[2])
            value = piece if match is None else match[1]
            if value != _NO_VALUE:
                values[place][column] = _unescaped_value(value)

    for place, (features, number) in enumerate(zip(values, numbers, strict=True)):
        key: object = (len(mentions), place) if number is None else number
        mention = mentions.setdefault(key, _Mention())
        mention.units.append(unit)
        mention.features = {**features, **mention.features}


def _is_target(layer: _Layer, i: int) -> bool:
    """Return whether a column holds what the roles before it point to."""
    return i > 0 and layer.columns[i - 1].startswith("ROLE_")


def _pieces(cell: str) -> list[str]:
    """Return the values of a cell, which `|` parts unless it is escaped."""
    pieces = [match[1] for match in _STACKED.finditer(cell)]
    # The pattern matches once more, and nothing, at the end of a cell that does not end in `|`.
    return pieces if cell.endswith("|") else pieces[:-1]


def _unescaped_value(value: str) -> str:
    return _ESCAPED_VALUE.sub(lambda match: _MEANINGS.get(match[1], match[1]), value)


def _unescaped_text(text: str, version: int, line: int) -> str:
    """Return the text of a sentence.

    Args:
        text: What follows `#Text=`.
        version: The version after the 3.
        line: Number of the line.

    Raises:
        RecordError: Half a surrogate pair is escaped.
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
    # Java escapes a character beyond U+FFFF as the two code units that it has in UTF-16.
    try:
        return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise RecordError(
            "expected surrogates in pairs such as \\uD83D\\uDE42 in #Text, got half a pair",
            line=line,
        ) from None
