"""Reads UIMA CAS, as written by INCEpTION, WebAnno and DKPro: XMI with a type system, or JSON."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from xml.etree.ElementTree import Element

import msgspec
from msgspec import Meta

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.io.files import JSON_ERRORS
from mslm_data.source import Guess, Sample, Source
from mslm_data.source.reading import standoff
from mslm_data.source.reading.candidates import is_user_layer, take_only
from mslm_data.source.reading.elements import children, elements
from mslm_data.source.reading.files import IdFrom, document_id, opened, packed_or_plain, read_bytes
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation

_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_HAS_USUAL = re.compile(rb'<[^<>\s]*:NamedEntity[\s/>]|"%TYPE"\s*:\s*"[^"]*\bNamedEntity"')
"""Beginning of an annotation of type NamedEntity, in XMI or JSON."""
_SENTENCE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"
_SOFA = "uima.cas.Sofa"
_VIEW = "uima.cas.View"
_TYPE_SYSTEM = "TypeSystem.xml"

_XMI_ID = "http://www.omg.org/XMI id"
_NAMESPACE_BEGINS = "http:///"
_NAMESPACE_ENDS = ".ecore"
_NO_NAMESPACE = "uima.noNamespace."


class _Structure(NamedTuple):
    """A feature structure: an object with a type, an id and features."""

    type: str
    number: str
    features: Mapping[str, Any]


@dataclass
class _Contents:
    """The feature structures of a file that are read.

    Attributes:
        texts: Id of a text -> its name and the text.
        members: Name of a view, or id of its text -> ids of its members.
        mentions: Structures of the mention type.
        sentences: Structures of the sentence type.
    """

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    mentions: list[_Structure] = field(default_factory=list)
    sentences: list[_Structure] = field(default_factory=list)


class Cas(Source, frozen=True, kw_only=True):
    """Files of UIMA CAS, one document each: XMI 2.0, or JSON (JSON CAS 0.4).

    Mentions are the annotations of a type and its subtypes that are in the index of the view.
    Subtypes are found in the type system: within JSON files, or in `TypeSystem.xml` beside XMI
    files. Without a type system only the type itself is read. Offsets count UTF-16 code units, as
    in Java. Sentences are DKPro's, if the file has any. Malformed files are set aside.

    Annotation tools write a file for each annotator and document, usually in a folder named after
    the document. Each file is a document here, so select the files of one annotator or the curated
    ones, as in `splits = { train = ["*/CURATION_USER.xmi"] }`, and set `id_from = "folder"`.
    """

    suffixes = (".xmi", ".json")
    by_content = True
    columns_noun = "the types of users"

    mention_type: Annotated[
        str,
        Meta(
            min_length=1,
            description="Type of mentions, with or without its package. Layers of INCEpTION's "
            "users have names like `webanno.custom.Symptom`. If no file has the default type, the "
            "only user-defined type is used, with its only feature.",
        ),
    ] = _NAMED_ENTITY
    label_feature: Annotated[str, Meta(min_length=1, description="Feature with the label.")] = (
        "value"
    )
    label: Annotated[
        str,
        Meta(
            description="Label of all mentions, for types without a label feature. Default: the "
            "feature's."
        ),
    ] = ""
    concept_feature: Annotated[str, Meta(description='Feature with the concept, "" for none.')] = (
        "identifier"
    )
    sentence_type: Annotated[str, Meta(description='Type of sentences, "" for none.')] = _SENTENCE
    view: Annotated[str, Meta(description="View whose text and annotations are read.")] = (
        "_InitialView"
    )
    typesystem: Annotated[
        str, Meta(description="File with the type system of XMI files, relative to their folders.")
    ] = _TYPE_SYSTEM
    id_from: Annotated[
        IdFrom,
        Meta(description="Whether a document is named after its file or the folder of its file."),
    ] = "file"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a CAS; see `Source.sniff`."""
        if b"http://www.omg.org/XMI" in sample.head and b"http:///uima/cas.ecore" in sample.head:
            return Guess("its root is XMI with UIMA's namespace")
        if b'"%TYPES"' in sample.head or b'"%FEATURE_STRUCTURES"' in sample.head:
            return Guess("it has the fields %TYPES or %FEATURE_STRUCTURES")
        return Guess()

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Choose the only user-defined type if no file has the default; see `Source.settle`.

        Raises:
            SourceError: There are several types or features, or a file cannot be read.
        """
        # Search for the default type as bytes first: parsing every file would take far longer.
        if self.mention_type != _NAMED_ENTITY or any(
            _HAS_USUAL.search(read_bytes(path)) for path in paths
        ):
            return {}
        layers: dict[str, dict[str, None]] = {}
        for path in paths:
            if self._has_mentions(path):
                return {}
            for name, features in self._layers(path).items():
                layers.setdefault(name, {}).update(dict.fromkeys(features))
        if not layers:
            return {}
        return take_only(
            "mention_type",
            {name: [*features] for name, features in layers.items()},
            feature="label_feature",
            instead_of=self.mention_type,
            may_take=not self.label,
        )

    def list_columns(self, path: Path) -> list[str]:
        """Return the user-defined types of a file's annotations; see `Source.list_columns`."""
        return [*self._layers(path)]

    def _has_mentions(self, path: Path) -> bool:
        """Return whether a file has annotations of the mention type, or of a subtype.

        A file that cannot be read, or whose type system lacks the type, has none. Reading reports
        it.
        """
        try:
            return bool(self._contents(path, self._mention_types(path)).mentions)
        except (RecordError, SourceError):
            return False

    def _layers(self, path: Path) -> dict[str, list[str]]:
        """Return user-defined type -> its text features; empty for a malformed file."""
        structures: Iterator[tuple[str, Mapping[str, Any]]]
        layers: dict[str, dict[str, None]] = {}
        try:
            if _is_json(path):
                root = _object(msgspec.json.decode(read_bytes(path).removeprefix(BOM_UTF8)))
                in_json = _structures(root.get("%FEATURE_STRUCTURES", []))
                structures = ((structure.type, structure.features) for structure in in_json)
            else:
                structures = (
                    (_type_name(element.tag), element.attrib) for _, element in children(path)
                )
            for name, features in structures:
                if is_user_layer(name) and "begin" in features and "end" in features:
                    layer = layers.setdefault(name, {})
                    layer.update(
                        (feature, None)
                        for feature, value in features.items()
                        if isinstance(value, str) and not _is_standard_feature(feature)
                    )
        except (RecordError, *JSON_ERRORS):
            return {}
        return {name: [*features] for name, features in layers.items()}

    def files(self, path: Path) -> list[Path]:
        """Return a file, and the type system of an XMI file."""
        types = None if _is_json(path) else self._type_system(path)
        return [path, types] if types else [path]

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the document; see `Source.read`.

        Raises:
            SourceError: The type system cannot be read, or lacks the mention type.
        """
        path = Path(part.path)
        doc_id = document_id(path, self.id_from)
        place = f"{path.name}:1"
        mention_types = self._mention_types(path)
        try:
            yield self._document(self._contents(path, mention_types), doc_id, place)
        except RecordError as error:
            yield SetAside(doc_id, f"{path.name}:{error.line or 1}", error.reason)

    def _mention_types(self, path: Path) -> set[str]:
        """Return the mention type and its subtypes, from the type system of an XMI file."""
        types = None if _is_json(path) else self._type_system(path)
        return set() if types is None else self._subtypes(_read_supertypes(types), types.name)

    def _contents(self, path: Path, mention_types: Collection[str]) -> _Contents:
        """Read the structures of a file that are needed."""
        return self._read_json(path) if _is_json(path) else self._read_xmi(path, mention_types)

    def _document(self, contents: _Contents, doc_id: str, place: str) -> Document:
        number, text = next(
            (
                (number, text)
                for number, (name, text) in contents.texts.items()
                if name == self.view
            ),
            ("", ""),
        )
        if not text:
            raise RecordError(
                f"expected a text in the view '{self.view}', found none; check [source] view"
            )
        # XMI names a view by the id of its text, JSON by its name.
        members = contents.members.get(self.view, set()) | contents.members.get(number, set())

        at = standoff.in_characters(text, unit="utf-16")
        mentions = []
        for mention in contents.mentions:
            if mention.number in members:
                begin, end = _offsets(mention)
                label = self.label or _value(mention, self.label_feature)
                concept = _value(mention, self.concept_feature)
                mentions.append(Annotation([(at(begin), at(end))], label, concept=concept))

        # Documents need their sentences in order; a CAS has them in any.
        ranges = sorted(
            _offsets(mention) for mention in contents.sentences if mention.number in members
        )
        sentences = [Sentence(at(begin), at(end)) for begin, end in ranges if begin < end]
        before = 0
        for sentence in sentences:
            if min(sentence) < before:
                raise RecordError(
                    "expected sentences within the text that do not overlap, got "
                    f"{sentence.start} to {sentence.end} after {before} (-1 is past the text); "
                    "check [source] sentence_type",
                    code="sentences within the text",
                )
            before = sentence.end
        return standoff.place(text, mentions).document(
            doc_id, text, sentences=tuple(sentences) or None, place=place
        )

    def _add(
        self, contents: _Contents, structure: _Structure, mentions: Collection[str], sentence: str
    ) -> None:
        """Keep a structure of a wanted type."""
        if structure.type in mentions or _is_named(structure.type, self.mention_type):
            contents.mentions.append(structure)
        elif sentence and _is_named(structure.type, sentence):
            contents.sentences.append(structure)
        elif structure.type == _SOFA:
            text = structure.features.get("sofaString")
            name = structure.features.get("sofaID")
            if isinstance(text, str) and isinstance(name, str):
                contents.texts[structure.number] = (name, text)

    # XMI -----------------------------------------------------------------------------------------

    def _read_xmi(self, path: Path, mention_types: Collection[str]) -> _Contents:
        contents = _Contents()
        for _, element in children(path):
            name = _type_name(element.tag)
            features = element.attrib
            if name == _VIEW:
                members = contents.members.setdefault(features.get("sofa", ""), set())
                members.update(features.get("members", "").split())
            else:
                structure = _Structure(name, features.get(_XMI_ID, ""), features)
                self._add(contents, structure, mention_types, self.sentence_type)
        return contents

    def _type_system(self, path: Path) -> Path | None:
        """Return the file with the type system of an XMI file, None if there is none.

        Raises:
            SourceError: The file named by the options does not exist.
        """
        file = packed_or_plain(path.parent / self.typesystem) if self.typesystem else None
        if file is None and self.typesystem not in ("", _TYPE_SYSTEM):
            raise SourceError(
                f"{path}: expected the type system '{self.typesystem}', relative to its folder, "
                f"found none; check [source] typesystem"
            )
        return file

    def _subtypes(self, supertypes: Mapping[str, str], name: str) -> set[str]:
        """Return the mention type and its subtypes in a type system.

        Raises:
            SourceError: The type system lacks the mention type.
        """
        types = {type_ for type_ in supertypes if _is_named(type_, self.mention_type)}
        if not types:
            raise SourceError(
                f"{name}: expected the type '{self.mention_type}' in the type system, found none; "
                f"set [source] mention_type to the type of your mentions"
            )
        return _with_subtypes(types, supertypes)

    # JSON ----------------------------------------------------------------------------------------

    def _read_json(self, path: Path) -> _Contents:
        try:
            root = msgspec.json.decode(read_bytes(path).removeprefix(BOM_UTF8))
        except JSON_ERRORS:
            raise RecordError("expected JSON, got other bytes; is the file whole?") from None

        top = _object(root)
        types = {
            name: str(_object(structure).get("%SUPER_TYPE", ""))
            for name, structure in _object(top.get("%TYPES", {})).items()
        }
        roots = {structure for structure in types if _is_named(structure, self.mention_type)}
        mention_types = _with_subtypes(roots, types)

        contents = _Contents()
        for structure in _structures(top.get("%FEATURE_STRUCTURES", [])):
            self._add(contents, structure, mention_types, self.sentence_type)
        for name, view in _object(top.get("%VIEWS", {})).items():
            # Only annotations in the index of the view are read.
            members = _object(view).get("%MEMBERS", [])
            if not isinstance(members, list):
                raise RecordError("expected a list of a view's members, got another value")
            contents.members[name] = set(map(str, members))
        return contents


def _is_standard_feature(feature: str) -> bool:
    """Return whether a feature is standard, found in every annotation."""
    has_namespace = " " in feature
    return (
        has_namespace
        or feature in ("begin", "end", "sofa", "_indexed")
        or feature.startswith(("@", "%"))
    )


def _is_json(path: Path) -> bool:
    """Return whether a file is JSON, not XML."""
    with opened(path) as file:
        return file.read(64).removeprefix(BOM_UTF8).lstrip().startswith((b"{", b"["))


def _is_named(name: str, expected: str) -> bool:
    """Return whether a type has a name, given with or without its package."""
    return name == expected or ("." not in expected and name.rpartition(".")[2] == expected)


def _with_subtypes(types: set[str], supertypes: Mapping[str, str]) -> set[str]:
    """Return types and all their subtypes."""
    derived: dict[str, list[str]] = {}
    for name, parent in supertypes.items():
        derived.setdefault(parent, []).append(name)

    result = set(types)
    to_do = list(types)
    while to_do:
        for name in derived.get(to_do.pop(), ()):
            if name not in result:
                result.add(name)
                to_do.append(name)
    return result


def _read_supertypes(path: Path) -> dict[str, str]:
    """Return type -> supertype of a type system.

    Raises:
        SourceError: The file is malformed, or cannot be read.
    """
    try:
        return {
            _child_text(element, "name"): _child_text(element, "supertypeName")
            for _, element in elements(path, "typeDescription")
        }
    except RecordError as error:
        raise SourceError(f"{path.name}:{error.line}: {error.reason}") from None


def _child_text(element: Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _type_name(tag: str) -> str:
    """Return the type of an element: `http:///a/b.ecore C` is `a.b.C`."""
    namespace, _, name = tag.rpartition(" ")
    namespace = namespace.removeprefix(_NAMESPACE_BEGINS).removesuffix(_NAMESPACE_ENDS)
    return f"{namespace.replace('/', '.')}.{name}".removeprefix(_NO_NAMESPACE)


def _structures(value: object) -> Iterator[_Structure]:
    """Yield the feature structures of JSON, given as a list or as an object by id."""
    if isinstance(value, list):
        numbered = [(_object(item).get("%ID"), item) for item in value]
    else:
        numbered = list(_object(value).items())
    for number, item in numbered:
        features = _object(item)
        yield _Structure(str(features.get("%TYPE", "")), str(number), features)


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RecordError("expected an object of JSON CAS, got another value")
    return value


def _offsets(structure: _Structure) -> tuple[int, int]:
    """Return begin and end of an annotation.

    Raises:
        RecordError: They are not integers.
    """
    values = [structure.features.get("begin"), structure.features.get("end")]
    numbers = [
        int(value)
        for value in values
        if type(value) is int or (isinstance(value, str) and _is_number(value))
    ]
    if len(numbers) != 2:
        raise RecordError("expected whole numbers as begin and end, got other values")
    return numbers[0], numbers[1]


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 18


def _value(structure: _Structure, feature: str) -> str:
    """Return the text of a feature, "" if it is missing.

    Raises:
        RecordError: The feature is not text.
    """
    value = structure.features.get(feature) if feature else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RecordError("expected text as label and as concept, got another value")
    return value.strip()
