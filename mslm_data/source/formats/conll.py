"""Reads CoNLL files of any dialect: a token and its tag a line, blank lines between sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.log import LOGGER, TO_KEEP, plain
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.reading import comments, marks, tagged_lines, tags
from mslm_data.source.reading.encodings import TextOptions, marked, to_utf8
from mslm_data.source.reading.files import LinesOfFile, read_head, stem
from mslm_data.source.reading.records import RecordError, may_be_cut
from mslm_data.source.reading.tagged_lines import BrokenLine, TagColumns, TaggedSentences
from mslm_data.source.reading.word_documents import make_line_documents

_LONE_BRACKET = Reason(
    "expected brackets that open and close in a sentence, got one of these alone"
)

MOST_COLUMNS = 1000
"""Columns that an option can name."""
_LAYER_LINES = 10_000
"""Lines that are looked through for nested layers, which may be rare."""
_FEW_BYTES = 1 << 12
"""How much of a file says that it is of another form."""
_SCHEME_BYTES = 1 << 20
"""How much of a file's beginning decides whether I opens mentions in it."""


@dataclass(frozen=True, kw_only=True)
class Conll(TextOptions, Source):
    """Files of one token a line.

    Columns are separated by a TAB, or by spaces in a line without one; there may be any number.
    Nothing is quoted. Every word is read as it stands, `NA` and `null` too. `-DOCSTART-`,
    `###MEDLINE:`, `# newdoc`, `#begin document` and `#doc ID` open a document, in every spelling,
    with the id they carry, or else `file:ordinal`. In a file without them each sentence is a
    document, `file:number`.

    A line such as `# sent_id = 4` or `# text = …` is a comment, and passed over. So is any other
    line that begins with `#` and a space and does not have a word and a tag, or with `#` alone in a
    file whose rows begin with numbers or tags. A first row that names the columns, one of them
    TOKEN, WORD or FORM, is passed over, and so is a row with a TAB before its tag O and nothing
    else.

    The beginning of a file decides which columns are read. Words stand in the first one. Where it
    numbers the rows of each sentence, they stand in the next that does not hold tags; columns with
    one value a sentence, such as a document's id, may come before the numbers. Where it holds tags,
    words stand in the only other column, or in the one that offsets before it measure; else the
    file is refused until `word_column` says which. Tags stand in the only column that holds some in
    most lines. Of several, those with labels of chunks alone (NP, VP …) are passed over, and those
    with nothing but O before the last one; if several are left, or chunks alone, the file is
    refused until `tag_column` says which.

    A mention that begins with I instead of B is read, and counted in `Document.adjusted`, unless
    that is the file's scheme (IOB1, IO), as its beginning says.

    BC2GM, BC5CDR, NCBI-disease and JNLPBA as distributed with Crichton et al. 2017 all read to
    their published numbers of sentences and mentions.
    """

    suffixes = (".tsv", ".txt", ".conll", ".iob", ".iob2", ".bio")
    by_content = True

    word_column: Annotated[
        int | None, Help("Column of the word, from 0. It is found if it is not set.")
    ] = None
    tag_column: Annotated[
        int | tuple[int, ...] | None,
        Help(
            'Column of the tag. It is found if it is not set; for "label" it is the last one. '
            "Several, as in `[2, 3]`, are layers: the mentions of all of them are read."
        ),
    ] = None
    word_prefix: Annotated[
        str,
        Help(
            "A prefix to take off words, such as `en:` in WikiANN; for words in the first column."
        ),
    ] = ""
    untyped: Annotated[str, Help("Label of mentions whose tag is a bare B or I.")] = "Entity"
    scheme: Annotated[
        Literal["auto", "label", "brackets"],
        Help(
            '"auto" for tags of IOB1, IOB2, IO, IOBES and BILOU; "label" where the tag is the '
            'label itself, so that equal neighbours are one mention; "brackets" for `(ORG*` and '
            "`*)`, as in CoNLL-2012, where names stand in column 10."
        ),
    ] = "auto"
    outside: Annotated[str, Help('The tag of words in no mention; for "label" only.')] = "O"

    def __post_init__(self) -> None:
        words = [] if self.word_column is None else [self.word_column]
        for name, columns in (("word_column", words), ("tag_column", self._tag_columns())):
            for column in columns:
                if column is not None and not 0 <= column < MOST_COLUMNS:
                    raise ValueError(f"expected {name} from 0 to {MOST_COLUMNS - 1}, got {column}")
        if self.word_column is not None and self.word_column in self._tag_columns():
            raise ValueError(
                f"expected word_column and tag_column to differ, got {self.word_column} for both"
            )

    def _tag_columns(self) -> Sequence[int | None]:
        return self.tag_column if isinstance(self.tag_column, tuple) else [self.tag_column]

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the lines say it
        """Return what speaks for lines of a token and a tag; see `Source.recognises`."""
        lines = _head_lines(head)
        try:
            columns = tagged_lines.find_columns(lines, word=None, tag=None, is_tag=tags.is_tag)
            if columns.are_in(lines):
                return "its lines hold a token and a tag"
        except RecordError:
            pass
        layers = tagged_lines.find_layers(_head_lines(head, max_lines=_LAYER_LINES))
        if layers:
            return f"its lines hold a token and {len(layers)} tags, of nested layers"
        labels = tagged_lines.find_labels(lines)
        if labels is None:
            return ""
        return f"its lines hold a token and a label, {labels.outside} outside of mentions"

    @classmethod
    def suggest_options(cls, path: Path, head: bytes) -> Mapping[str, Any]:  # noqa: ARG003
        """Return what lines say of layers, labels and a prefix; see `Source.suggest_options`."""
        lines = _head_lines(head)
        options: dict[str, Any] = {}
        more = _head_lines(head, max_lines=_LAYER_LINES)
        if tagged_lines.falls_short(lines) and (layers := tagged_lines.find_layers(more)):
            options["tag_column"] = layers
        elif labels := tagged_lines.find_labels(lines):
            options |= {"scheme": "label", "outside": labels.outside}
        if prefix := tagged_lines.find_prefix(lines):
            options["word_prefix"] = prefix
        return options

    @classmethod
    def falls_short(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the lines say it
        """Return what keeps the columns from being found; see `Source.falls_short`."""
        return tagged_lines.falls_short(_head_lines(head))

    def disowns(self, path: Path) -> str:
        """Return why a file is surely no such lines; see `Source.disowns`."""
        lines = _head_lines(read_head(path)[:_FEW_BYTES])
        tag = self._tag_columns()[0]
        is_other = tagged_lines.have_no_tags(lines, tag, _IS_TAG[self.scheme]) or (
            # Any word can be a label, so a list of names looks like words with labels.
            self.scheme == "label" and tagged_lines.are_names(lines, self.outside)
        )
        return "its lines hold no token and tag" if is_other else ""

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file at document marks if it has any, else between sentences; see `Source.cut`."""
        if self.is_one_part(Path(part.path)):
            return iter([part])
        if not may_be_cut(part, target_bytes):
            return iter([part])
        path = Path(part.path)
        columns = self.columns(path)
        return marks.cut(
            part,
            target_bytes=target_bytes,
            is_comment=columns.is_comment,
            header_bytes=columns.header_bytes(self.beginning(path, tagged_lines.HEAD_BYTES)),
        )

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the documents of a part, those that are set aside first; see `batches`."""
        for record in self.batches(part):
            if isinstance(record, SetAside):
                yield record
            else:
                yield from record

    def batches(self, part: Part) -> Iterator[Documents | SetAside]:
        """Read the documents of a part as one batch, without an object for each.

        A document with a broken line is set aside whole; all of these come before the batch.

        Raises:
            SourceError: Most lines of the file's beginning are not a token and a tag.
        """
        path = Path(part.path)
        file_stem = stem(path)
        columns = self.columns(path)
        data = tagged_lines.clean(self.utf8(path, part.start, part.stop), first=part.line)
        data = columns.without_header(data, first=part.line)
        if self.word_prefix:
            prefix = re.escape(self.word_prefix.encode())
            data = re.sub(rb"^%s(?=[^\s])" % prefix, b"", data, flags=re.MULTILINE)

        # Until the last step, comments are not counted as lines.
        uncommented = comments.take_out(data, columns.is_comment)
        documents, data = marks.divide(uncommented.data, first=part.line)
        layers = self._layers(columns)
        scans = [
            tagged_lines.scan(
                data, first=part.line, columns=layer_columns, keep_empty=len(layers) > 1
            )
            for layer_columns in layers
        ]
        sentences = scans[0]

        if documents:
            doc_ids = [document.id for document in documents]
            lines = np.array([max(document.line - 1, 1) for document in documents])
            firsts = np.searchsorted(sentences.lines, [document.line for document in documents])
            numbered = enumerate(doc_ids, start=part.first)
            ids = [doc_id or f"{file_stem}:{number}" for number, doc_id in numbered]
        else:
            lines = sentences.lines
            firsts = np.arange(len(lines))
            ids = [f"{file_stem}:{number}" for number in range(part.first, part.first + len(lines))]

        layer_mentions = []
        for layer_columns, layer in zip(scans, layers, strict=True):
            mentions = self._decode(layer_columns)
            if mentions.late.any() and self._opens_with_i(path, layer):
                mentions = self._decode(layer_columns, i_opens=True)
            layer_mentions.append(mentions)
        mentions = tags.united(layer_mentions)
        if len(scans) > 1:
            broken = [
                item for layer_columns in reversed(scans) for item in layer_columns.broken.items()
            ]
            sentences = replace(sentences, broken=dict(sorted(dict(broken).items())))
        lines = uncommented.number(lines, first=part.line)
        for sentence, at in sentences.broken.items():
            (line,) = uncommented.number(np.array([at.line]), first=part.line).tolist()
            sentences.broken[sentence] = at._replace(line=line)
        yield from make_line_documents(
            sentences, mentions, firsts, ids, LinesOfFile(path.name, lines)
        )

    def columns(self, path: Path) -> TagColumns:
        """Find a file's columns from its beginning, so that all its parts are read alike.

        Raises:
            SourceError: Most lines there are not a token and a tag.
        """
        beginning = self.beginning(path, tagged_lines.HEAD_BYTES)
        tag = self._tag_columns()[0]
        try:
            return _columns_in(beginning, self.word_column, tag, self.scheme)
        except RecordError as error:
            raise SourceError(f"{path.name}:{error.line}: {error}") from None

    def _layers(self, columns: TagColumns) -> list[TagColumns]:
        """Return the columns of each layer."""
        if not isinstance(self.tag_column, tuple):
            return [columns]
        return [replace(columns, tag=tag) for tag in self.tag_column]

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Warn of a prefix of words that nobody has named; see `Source.settle`."""
        lines = _head_lines(read_head(paths[0])) if paths else []
        prefix = "" if self.word_prefix else tagged_lines.find_prefix(lines)
        if prefix:
            LOGGER.warning(
                "source: nearly all words of %s begin with '%s'; set [source] word_prefix = '%s' "
                "if it does not belong to them",
                plain(paths[0].name),
                prefix,
                prefix,
                extra=TO_KEEP,
            )
        return {}

    def _decode(self, sentences: TaggedSentences, *, i_opens: bool = False) -> tags.TaggedMentions:
        if self.scheme == "brackets":
            return self._decode_brackets(sentences)
        return tags.decode_sentences(
            sentences.tags, sentences.offsets, self._meanings(sentences.names, i_opens=i_opens)
        )

    def _decode_brackets(self, sentences: TaggedSentences) -> tags.TaggedMentions:
        """Decode brackets; a sentence with one that has no other end is broken."""
        numbers, names, alone = tags.convert_brackets(
            sentences.tags, sentences.offsets, sentences.names
        )
        for word in alone:
            sentence = int(np.searchsorted(sentences.offsets, word, side="right")) - 1
            line = int(sentences.lines[sentence] + word - sentences.offsets[sentence])
            sentences.broken.setdefault(sentence, BrokenLine(line, _LONE_BRACKET))
        in_order = sorted(sentences.broken.items())
        sentences.broken.clear()
        sentences.broken.update(in_order)
        means = tags.meanings(tuple(names), untyped=self.untyped)
        return tags.decode_sentences(numbers, sentences.offsets, means)

    def _meanings(self, names: Sequence[str], *, i_opens: bool) -> tags.TagMeanings:
        if self.scheme == "label":
            return tags.make_label_meanings(names, outside=self.outside)
        return tags.meanings(tuple(names), untyped=self.untyped, i_opens=i_opens)

    def _opens_with_i(self, path: Path, columns: TagColumns) -> bool:
        """Return whether I opens mentions in a file.

        Its beginning decides, so that all its parts agree.
        """
        data = tagged_lines.clean(self.beginning(path, _SCHEME_BYTES))
        data = columns.without_header(data)
        data = comments.take_out(data, columns.is_comment).data
        _, data = marks.divide(data, first=1)
        mentions = self._decode(tagged_lines.scan(data, first=1, columns=columns))
        return tags.opens_with_i(mentions=len(mentions.spans), late=int(mentions.late.sum()))


def _head_lines(head: bytes, max_lines: int = tagged_lines.HEAD_LINES) -> list[tuple[int, str]]:
    """Return the whole lines of a file's beginning, with their numbers."""
    head = to_utf8(head, marked(head, "utf-8"))
    return tagged_lines.head(head[: head.rfind(b"\n") + 1] or head, max_lines=max_lines)


_IS_TAG: Mapping[str, Callable[[str], bool]] = {
    "auto": tags.is_tag,
    "label": bool,
    "brackets": tags.is_bracket,
}
"""Scheme -> whether a word can be a tag."""


@lru_cache(maxsize=4)
def _columns_in(beginning: bytes, word: int | None, tag: int | None, scheme: str) -> TagColumns:
    """Find the columns of a file in its beginning, once for all parts of the file.

    Raises:
        RecordError: Most lines are not a token and a tag.
    """
    head = tagged_lines.head(beginning)
    return tagged_lines.find_columns(head, word=word, tag=tag, is_tag=_IS_TAG[scheme])
