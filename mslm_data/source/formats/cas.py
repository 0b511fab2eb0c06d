"""Reads UIMA CAS, as written by INCEpTION, WebAnno and DKPro: XMI with a type system, or JSON."""

from __future__ import annotations

from abc import abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple
from xml.etree.ElementTree import Element

import msgspec
from msgspec import Meta

from mslm_data.data.document import Sentence
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io.files import JSON_ERRORS
from mslm_data.source import Guess, Sample, Source
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.reading import standoff
from mslm_data.source.reading.candidates import NO_FEATURE, choose_layer, is_user_layer
from mslm_data.source.reading.elements import children, elements
from mslm_data.source.reading.files import IdFrom, document_id, opened, packed_or_plain, read_bytes
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation

_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_SENTENCE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"
_SOFA = "uima.cas.Sofa"
_VIEW = "uima.cas.View"
_TYPE_SYSTEM = "TypeSystem.xml"

CTAKES = (b"org/apache/ctakes/typesystem", b"org.apache.ctakes.typesystem")
"""Marks of a CAS with the types of cTAKES, in XMI and in JSON."""

_XMI_ID = "http://www.omg.org/XMI id"
_NAMESPACE_BEGINS = "http:///"
_NAMESPACE_ENDS = ".ecore"
_NO_NAMESPACE = "uima.noNamespace."


class Structure(NamedTuple):
    """A feature structure: an object with a type, an id and features."""

    type: str
    number: str
    features: Mapping[str, Any]


class CasFiles(FormSource, Source, frozen=True, kw_only=True):
    """Base class of sources of UIMA CAS files, one document each: XMI 2.0, or JSON (JSON CAS 0.4).

    Attributes:
        referenced: Last parts of the types to which mentions refer.
    """

    suffixes = (".xmi", ".json")
    by_content = True
    container = WholeFile()
    referenced: ClassVar[Collection[str]] = ()

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

    @abstractmethod
    def find_types(self, supertypes: Mapping[str, str]) -> Collection[str]:
        """Return the types of mentions in a type system, given as type -> supertype."""

    @abstractmethod
    def is_mention(self, structure: Structure, mention_types: Collection[str]) -> bool:
        """Return whether a structure is a mention, or counts as one that is left out.

        Args:
            structure: The structure.
            mention_types: From `find_types`.
        """

    @abstractmethod
    def read_mention(
        self,
        mention: Structure,
        mention_types: Collection[str],
        referenced: Mapping[str, Structure],
    ) -> tuple[str, str] | Reason:
        """Return the label and concept of a mention, or why it is left out.

        Args:
            mention: The mention.
            mention_types: From `find_types`.
            referenced: Id -> structure, of the types `referenced`.

        Raises:
            RecordError: A value has another type.
        """

    def files(self, path: Path) -> list[Path]:
        """Return a file, and the type system of an XMI file."""
        types = None if _is_json(path) else self._type_system(path)
        return [path, types] if types else [path]

    def understand(self, record: Record, found: Findings) -> None:
        """Read the text of the view, and its mentions and sentences.

        Raises:
            RecordError: The file is malformed, or lacks the view's text.
            SourceError: The type system cannot be read.
        """
        found.id = document_id(record.path, self.id_from)
        supertypes, structures = self.open_file(record.path)
        mention_types = self.find_types(supertypes)

        texts: dict[str, tuple[str, str]] = {}  # id of a text -> its view and the text
        members: dict[str, set[str]] = {}  # a view, or the id of its text -> ids of its members
        mentions: list[Structure] = []
        sentences: list[Structure] = []
        referenced: dict[str, Structure] = {}
        for structure in structures:
            type_, number, features = structure
            if self.is_mention(structure, mention_types):
                mentions.append(structure)
            elif self.sentence_type and is_named(type_, self.sentence_type):
                sentences.append(structure)
            elif type_ == _SOFA:
                texts[number] = (
                    _string(features.get("sofaID")),
                    _string(features.get("sofaString")),
                )
            elif type_ == _VIEW:
                view = _string(features.get("sofa"))
                members.setdefault(view, set()).update(_members(features))
            elif type_.rpartition(".")[2] in self.referenced:
                referenced[number] = structure

        number, found.text = next(
            (
                (number, text)
                for number, (view, text) in texts.items()
                if text and view == self.view
            ),
            ("", ""),
        )
        if not found.text:
            raise RecordError(
                f"expected a text in the view '{self.view}', found none; check [source] view"
            )

        # Only annotations in the index of the view are read. XMI names a view by the id of its
        # text, JSON by its name.
        in_view = members.get(self.view, set()) | members.get(number, set())
        at = standoff.in_characters(found.text, unit="utf-16")
        for mention in mentions:
            if mention.number in in_view:
                begin, end = _offsets(mention)
                read = self.read_mention(mention, mention_types, referenced)
                if isinstance(read, Reason):
                    found.left_out[read] += 1
                    continue
                label, concept = read
                found.mentions.append(Annotation([(at(begin), at(end))], label, concept=concept))
        ranges = [_offsets(sentence) for sentence in sentences if sentence.number in in_view]
        found.sentences = _sentences(ranges, at) or None

    def open_file(self, path: Path) -> tuple[Mapping[str, str], Iterator[Structure]]:
        """Return type -> supertype, and the feature structures of a file.

        Raises:
            RecordError: A JSON file is malformed. The iterator may raise it too.
            SourceError: The type system of an XMI file cannot be read.
        """
        if _is_json(path):
            root = _read_json(path)
            return _supertypes_in_json(root), _structures_in_json(root)
        types = self._type_system(path)
        return _read_supertypes(types) if types else {}, _structures_in_xmi(path)

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


class Cas(CasFiles, frozen=True, kw_only=True):
    """Files of UIMA CAS, one document each: XMI 2.0, or JSON (JSON CAS 0.4).

    Mentions are the annotations of a type and its subtypes that are in the index of the view.
    Subtypes are found in the type system: within JSON files, or in `TypeSystem.xml` beside XMI
    files. Without a type system only the type itself is read. Offsets count UTF-16 code units, as
    in Java. Sentences are DKPro's, if the file has any. Malformed files are set aside.

    Annotation tools write a file for each annotator and document, usually in a folder named after
    the document. Each file is a document here, so select the files of one annotator or the curated
    ones, as in `splits = { train = ["*/CURATION_USER.xmi"] }`, and set `id_from = "folder"`.
    """

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

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a CAS, but not that of cTAKES, which has its own source; see `Source.sniff`."""
        if any(mark in sample.head for mark in CTAKES):
            return Guess()
        if b"http://www.omg.org/XMI" in sample.head and b"http:///uima/cas.ecore" in sample.head:
            return Guess("its root is XMI with UIMA's namespace")
        if b'"%TYPES"' in sample.head or b'"%FEATURE_STRUCTURES"' in sample.head:
            return Guess("it has the fields %TYPES or %FEATURE_STRUCTURES")
        return Guess()

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Choose the only user-defined type if no file has the default; see `Source.settle`.

        Raises:
            SourceError: There are several types or features, or a type named by the user is in no
                file.
        """
        return choose_layer(
            "mention_type",
            map(self._layers, paths),
            expected=self.mention_type,
            may_take=self.mention_type == _NAMED_ENTITY and not self.label,
        )

    def list_columns(self, path: Path) -> list[str]:
        """Return the user-defined types of a file's annotations; see `Source.list_columns`."""
        return [name for name in self._layers(path) or () if is_user_layer(name)]

    def _layers(self, path: Path) -> dict[str, dict[str, None]] | None:
        """Return type of annotations -> its text features; None if it has the mention type.

        Empty for a file that cannot be read. Reading reports it.
        """
        layers: dict[str, dict[str, None]] = {}
        try:
            supertypes, structures = self.open_file(path)
            mention_types = self.find_types(supertypes)
            for structure in structures:
                if self.is_mention(structure, mention_types):
                    return None
                type_, _, features = structure
                if "begin" in features and "end" in features:
                    layers.setdefault(type_, {}).update(
                        (feature, None)
                        for feature, value in features.items()
                        if isinstance(value, str) and not _is_standard_feature(feature)
                    )
        except (RecordError, SourceError):
            return {}
        return layers

    def find_types(self, supertypes: Mapping[str, str]) -> Collection[str]:
        """Return the type of mentions and its subtypes; see `CasFiles.find_types`."""
        return with_subtypes(self.mention_type, supertypes)

    def is_mention(self, structure: Structure, mention_types: Collection[str]) -> bool:
        """Return whether a structure has the type of mentions; see `CasFiles.is_mention`."""
        return structure.type in mention_types or is_named(structure.type, self.mention_type)

    def read_mention(
        self,
        mention: Structure,
        mention_types: Collection[str],  # noqa: ARG002 - all have the same features
        referenced: Mapping[str, Structure],  # noqa: ARG002 - the concept is a feature
    ) -> tuple[str, str] | Reason:
        """Return the values of the features of label and concept; see `CasFiles.read_mention`."""
        label = self.label or text_value(mention, self.label_feature)
        concept = text_value(mention, self.concept_feature)
        return (label, concept) if label else NO_FEATURE


def _sentences(ranges: Sequence[tuple[int, int]], at: Callable[[int], int]) -> list[Sentence]:
    """Return sentences in order. A CAS has them in any.

    Raises:
        RecordError: They overlap, or are outside the text.
    """
    sentences = [Sentence(at(begin), at(end)) for begin, end in sorted(ranges) if begin < end]
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
    return sentences


# XMI ----------------------------------------------------------------------------------------------


def _structures_in_xmi(path: Path) -> Iterator[Structure]:
    for _, element in children(path):
        yield Structure(_type_name(element.tag), element.get(_XMI_ID, ""), element.attrib)


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


# JSON ---------------------------------------------------------------------------------------------


def _is_json(path: Path) -> bool:
    """Return whether a file is JSON, not XML."""
    with opened(path) as file:
        return file.read(64).removeprefix(BOM_UTF8).lstrip().startswith((b"{", b"["))


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        return _object(msgspec.json.decode(read_bytes(path).removeprefix(BOM_UTF8)))
    except JSON_ERRORS:
        raise RecordError("expected JSON, got other bytes; is the file whole?") from None


def _supertypes_in_json(root: Mapping[str, Any]) -> dict[str, str]:
    """Return type -> supertype."""
    types = _object(root.get("%TYPES", {}))
    return {name: str(_object(type_).get("%SUPER_TYPE", "")) for name, type_ in types.items()}


def _structures_in_json(root: Mapping[str, Any]) -> Iterator[Structure]:
    """Yield the feature structures, given as a list or as an object by id, and the views."""
    value = root.get("%FEATURE_STRUCTURES", [])
    if isinstance(value, list):
        numbered = [(_object(item).get("%ID"), item) for item in value]
    else:
        numbered = list(_object(value).items())
    for number, item in numbered:
        features = _object(item)
        yield Structure(str(features.get("%TYPE", "")), str(number), features)
    for name, view in _object(root.get("%VIEWS", {})).items():
        features = {"sofa": name, "members": _object(view).get("%MEMBERS", [])}
        yield Structure(_VIEW, "", features)


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RecordError("expected an object of JSON CAS, got another value")
    return value


# Types and features -----------------------------------------------------------------------------


def is_named(name: str, expected: str) -> bool:
    """Return whether a type has a name, given with or without its package."""
    return name == expected or ("." not in expected and name.rpartition(".")[2] == expected)


def with_subtypes(expected: str, supertypes: Mapping[str, str]) -> set[str]:
    """Return the types with a name, and all their subtypes."""
    derived: dict[str, list[str]] = {}
    for name, parent in supertypes.items():
        derived.setdefault(parent, []).append(name)

    result = {name for name in supertypes if is_named(name, expected)}
    to_do = [*result]
    while to_do:
        for name in derived.get(to_do.pop(), ()):
            if name not in result:
                result.add(name)
                to_do.append(name)
    return result


def _is_standard_feature(feature: str) -> bool:
    """Return whether a feature is standard, found in every annotation."""
    has_namespace = " " in feature
    return (
        has_namespace
        or feature in ("begin", "end", "sofa", "_indexed")
        or feature.startswith(("@", "%"))
    )


def _members(view: Mapping[str, Any]) -> list[str]:
    """Return the ids of a view's members: a list in JSON, text in XMI."""
    members = view.get("members", "")
    if isinstance(members, str):
        return members.split()
    if not isinstance(members, list):
        raise RecordError("expected a list of a view's members, got another value")
    return [str(number) for number in members]


def _offsets(structure: Structure) -> tuple[int, int]:
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


def references(structure: Structure, feature: str) -> list[str]:
    """Return the ids in a feature: in JSON an id or a list of them, in XMI text.

    Features that refer to others begin with `@` in JSON.
    """
    value = structure.features.get(feature, structure.features.get(f"@{feature}"))
    if value is None:
        return []
    ids = value if isinstance(value, list) else str(value).split()
    return [str(number) for number in ids]


def text_value(structure: Structure, feature: str) -> str:
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


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
