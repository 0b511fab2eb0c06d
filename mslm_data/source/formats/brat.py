"""Reads BRAT stand-off: a text NAME.txt with its mentions in NAME.ann, or NAME.a1 and NAME.a2.

A mention is a line `T1<TAB>Type start end[;start end]<TAB>words`. Its concepts are in lines
`N1<TAB>Reference T1 MESH:D006073<TAB>gout` or `N1<TAB>MeSH Annotation:T1 Referent:D006073`.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.reason import Reason
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.reading.files import ends_with, lines, packed_or_plain, stem
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource

ANNOTATIONS = (".ann", ".a1", ".a2")
"""Suffixes of files of annotations, named like their text."""

_MENTION = re.compile(
    r"(T[^\t]*)\t(\S+) ([0-9]{1,18} [0-9]{1,18}(?:;[0-9]{1,18} [0-9]{1,18})*)(?:\t(.*))?\Z",
    re.DOTALL,
)
_CONCEPT = re.compile(
    r"N[^\t]*\t\S+ (?:Annotation:)?(T\S*) (?:Referent:)?(\S+)(?:\t.*)?\Z", re.DOTALL
)
TEXT_ALONE = Reason(
    "expected a file of annotations (.ann) beside the text, found none",
    advice={
        "without_annotations": "{set} source.without_annotations=empty if such texts have no "
        "mentions"
    },
)
_ANNOTATIONS_ALONE = Reason("expected a text (.txt) beside the file of annotations, found none")
"""Reasons for a text without annotations, and for annotations without a text."""
_FOLDER = re.compile(r"(?:text|txt|raw|doc(?:ument)?|ann(?:otation)?)s?|brat|gold", re.IGNORECASE)
"""Names of folders of texts, or of annotations."""
_MOST_FOLDERS = 50
"""Maximum number of folders that are searched for the annotations of texts."""
_MENTION_LINE = re.compile(rb"^T\d+\t\S+ \d+ \d+", re.MULTILINE)


class Brat(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """Folders of BRAT stand-off, or of BioNLP shared tasks. Each text is a document.

    The document id is the name of the text without suffix. Mentions are read from NAME.ann or, if
    it does not exist, from NAME.a1 (given by the shared task) and NAME.a2 (to be predicted,
    including event triggers). Use `annotate.labels` to select labels.

    Text-bound annotations (`T`) are read, with their normalisations (`N`) as concepts, joined by
    `|`. Line ends of the text are unchanged, because offsets count them. Texts without annotations
    are set aside by default, since lost annotations look the same. Annotations without a text are
    set aside. Annotations may be in a folder beside that of the texts, such as `ann` beside `text`,
    if neither has files of the other kind.
    """

    # Texts and annotations have different suffixes, and are not two forms of the same documents.
    suffixes = (".txt", *ANNOTATIONS)
    annotations = ANNOTATIONS
    one_form = False
    segmenter = "clinical"
    container = WholeFile()

    without_annotations: Annotated[
        Literal["set_aside", "empty"],
        Meta(
            description='Treatment of a text without a file of annotations: "empty" reads it as a '
            'document without mentions, "set_aside" sets it aside.'
        ),
    ] = "set_aside"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise BRAT; see `Source.sniff`."""
        has_text = ends_with(sample.path, ANNOTATIONS) and _sibling(sample.path, ".txt")
        if has_text and _MENTION_LINE.search(sample.head):
            return Guess("it has lines of mentions as in T1 Type 0 4, and a text has its name")
        return Guess()

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find texts, and annotations without a text, of each split; see `Source.find`."""
        by_split = super().find(inputs)
        return {
            split: [
                path
                for path in paths
                if not ends_with(path, ANNOTATIONS)
                or (_sibling(path, ".txt") is None and _annotations(path)[0] == path)
            ]
            for split, paths in by_split.items()
        }

    def files(self, path: Path) -> list[Path]:
        """Return the text and its existing files of annotations."""
        return list(dict.fromkeys([path, *_annotations(path)]))

    def understand(self, record: Record, found: Findings) -> None:
        """Read a text, and its text-bound annotations with their concepts."""
        path: Path = record.content
        annotations = _annotations(path)
        if not annotations and self.without_annotations == "set_aside":
            raise RecordError(TEXT_ALONE)
        contents = {file: self.utf8(file) for file in annotations}
        found.lost = sum(len(_MENTION_LINE.findall(data)) for data in contents.values())
        if ends_with(path, ANNOTATIONS):
            raise RecordError(_ANNOTATIONS_ALONE)

        found.text = decode_utf8(self.utf8(path))
        found.is_file = True
        mentions: list[tuple[str, Annotation]] = []
        concepts: dict[str, list[str]] = defaultdict(list)
        for file, data in contents.items():
            found.file = file.name
            mentions += _read_mentions(data, concepts)

        # Only now: a normalisation may stand before its mention, or in another file.
        found.mentions = [
            mention._replace(concept="|".join(concepts[name])) for name, mention in mentions
        ]


def _read_mentions(data: bytes, concepts: dict[str, list[str]]) -> list[tuple[str, Annotation]]:
    """Read the text-bound annotations of a file, each with its id.

    Args:
        data: UTF-8.
        concepts: Mention id -> concepts; normalisations in the file are added, malformed ones
            ignored.

    Raises:
        RecordError: A text-bound annotation is malformed, or a line is not valid UTF-8.
    """
    mentions = []
    for line in lines(data):
        if not line.data.startswith((b"T", b"N")):
            continue
        content = decode_utf8(line.data, line=line.number)
        if content.startswith("N"):
            if found := _CONCEPT.match(content):
                concepts[found[1]].append(found[2])
            continue

        match = _MENTION.match(content)
        if match is None:
            raise RecordError(
                "expected ID, TAB, type, start and end, TAB, text, got a line of another form",
                line=line.number,
            )
        pairs = [pair.split(" ") for pair in match[3].split(";")]
        fragments = [(int(start), int(end)) for start, end in pairs]
        mentions.append((match[1], Annotation(fragments, label=match[2], words=match[4])))
    return mentions


def _annotations(path: Path) -> list[Path]:
    """Return a document's files of annotations: its .ann, or else its .a1 and .a2."""
    siblings = [_sibling(path, suffix) for suffix in ANNOTATIONS]
    ann, *parts = siblings
    return [ann] if ann else [sibling for sibling in parts if sibling]


def _sibling(path: Path, suffix: str) -> Path | None:
    """Return the document's file with another suffix, plain or `.gz`, None if there is none.

    It is beside the file, or in the folder beside that of the file with all files of that suffix.
    """
    name = f"{stem(path)}{suffix}"
    beside = packed_or_plain(path.with_name(name))
    if beside:
        return beside
    parent = path.absolute().parent
    folder = _folder_beside(parent, suffix, parent.stat().st_mtime_ns) if parent.is_dir() else None
    return packed_or_plain(folder / name) if folder else None


@functools.lru_cache(maxsize=256)
def _folder_beside(folder: Path, suffix: str, mtime_ns: int) -> Path | None:  # noqa: ARG001 - part of the cache key
    """Return the only folder beside another that has its annotations, or its texts.

    It has files with the suffix, which the other folder has not, and none of the other kind, and
    one of the two says in its name what it has.
    """
    other_kind = ANNOTATIONS if suffix == ".txt" else (".txt",)
    folders = [one for one in sorted(folder.parent.iterdir()) if one.is_dir()]
    if len(folders) > _MOST_FOLDERS or _has_files(folder, (suffix,)):
        return None
    is_named = _FOLDER.fullmatch(folder.name) is not None
    found = [
        one
        for one in folders
        if (is_named or _FOLDER.fullmatch(one.name))
        and _has_files(one, (suffix,))
        and not _has_files(one, other_kind)
    ]
    return found[0] if len(found) == 1 else None


def _has_files(folder: Path, suffixes: Sequence[str]) -> bool:
    try:
        return any(ends_with(path, suffixes) for path in folder.iterdir())
    except OSError:
        return False
