"""Reads CoNLL files of any dialect: a token and its tag per line, a blank line after sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.log import plain
from mslm_data.source import Guess, Sample
from mslm_data.source.reading import marks, tagged_lines, tags
from mslm_data.source.reading.columns import (
    FirstRows,
    are_names,
    falls_short,
    find_columns,
    find_labels,
    find_prefix,
    find_scheme,
    have_no_tags,
)
from mslm_data.source.reading.comments import take_out
from mslm_data.source.reading.encodings import Encoding, TextSource, marked, to_utf8
from mslm_data.source.reading.files import LinesOfFile, stem
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.splits import keep_only
from mslm_data.source.reading.tagged_lines import LAST, BrokenLine, TagColumns, TaggedSentences
from mslm_data.source.reading.word_documents import make_line_documents

_LONE_BRACKET = Reason(
    "expected brackets to open and close within a sentence, got an unmatched bracket"
)

MOST_COLUMNS = 1000
"""Upper limit of column options, exclusive."""
_Column = Annotated[int, Meta(ge=0, lt=MOST_COLUMNS)]
_TagColumn = Annotated[int, Meta(ge=LAST, lt=MOST_COLUMNS)]
_FEW_BYTES = 1 << 12
"""Number of bytes tested by `disowns`."""
_SCHEME_BYTES = 1 << 20
"""Number of bytes at a file's beginning from which its scheme is found."""


class Conll(TextSource, frozen=True, kw_only=True):
    """Files with one token per line. `ebm` reads its row files with it.

    Columns are separated by a TAB or, in lines without a TAB, by spaces. Quotes have no meaning,
    and words such as `NA` and `null` are words.

    `-DOCSTART-`, `###MEDLINE:`, `# newdoc`, `#begin document` and `#doc ID` open a document, in
    every spelling. Its id is the one in the mark, or else `file:ordinal`. In files without marks
    each sentence is a document, `file:number`.

    These lines are skipped:

    * comments such as `# sent_id = 4` or `# text = …`;
    * other lines that begin with `#` and a space and have no word and tag, and lines that begin
      with `#` in files whose rows begin with numbers or tags;
    * lines with one of the beginnings in `comments`;
    * the text of a sentence in a line above its words, in files where nearly all have one;
    * a header, which names a column TOKEN, WORD or FORM;
    * rows without a word, with the tag O or I-X.

    The columns are found from the beginning of the file, unless `word_column` and `tag_column` are
    set:

    * Words are in the column that a header names, else in the first one behind columns with one
      value per sentence, such as its number. If that column numbers the rows of each sentence,
      words are in the next one without tags. If it has tags, they are in the only other column with
      letters. Otherwise `word_column` is required.
    * Tags are in the only column that has tags in most lines, or in the last one if rows have
      different lengths. If several have, columns with chunk
      labels only (NP, VP …) are ignored, and so are columns with nothing but O before the last. If
      several columns remain, or only chunks, `tag_column` is required.

    A word with several tags, such as `B-LOC,B-ORG`, is in a mention of each label. They may also
    stand in further columns, in rows of different lengths; a word with two tags of one label is
    then an error of its sentence. I without a label continues any mention. With scheme "label", a
    file whose labels are tags is refused.

    A mention that begins with I instead of B is read and counted in `Document.adjusted`, unless the
    beginning of the file shows that its scheme is IOB1 or IO.

    BC2GM, BC5CDR, NCBI-disease and JNLPBA, as distributed with Crichton et al. 2017, give their
    published numbers of sentences and mentions.
    """

    suffixes = (".tsv", ".txt", ".conll", ".iob", ".iob2", ".bio")
    by_content = True

    word_column: Annotated[
        _Column | None,
        Meta(description="Column of the word, from 0. By default it is found from the file."),
    ] = None
    tag_column: Annotated[
        _TagColumn | tuple[_TagColumn, ...] | None,
        Meta(
            description="Column of the tag, from 0, or -1 for the last one. By default it is found "
            'from the file; with scheme "label" it is the last column. Several columns, such as '
            "`[2, 3]`, are layers: the mentions of all of them are read."
        ),
    ] = None
    word_prefix: Annotated[
        str | None,
        Meta(
            description="Prefix to remove from words, such as `en:` in WikiANN. Words must be in "
            'the first column. By default a build asks if nearly all words have one; "" keeps it.'
        ),
    ] = None
    untyped: Annotated[str, Meta(description="Label of mentions with bare tags B and I.")] = (
        "Entity"
    )
    scheme: Annotated[
        Literal["auto", "suffix", "label", "brackets"],
        Meta(
            description='"auto" for tags of IOB1, IOB2, IO, IOBES and BILOU; "suffix" for the same '
            'with the prefix at the end, such as `LOC-B` and `LOC_I`; "label" for labels without '
            'prefixes, of which equal neighbours form one mention; "brackets" for `(ORG*` and '
            "`*)`, as in CoNLL-2012, whose names are in column 10."
        ),
    ] = "auto"
    comments: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(description='Beginnings of lines to skip, such as `["##", ";"]`.'),
    ] = ()
    outside: Annotated[
        str, Meta(description='Label of words outside mentions, for scheme "label".')
    ] = "O"

    def __post_init__(self) -> None:
        if self.word_column is not None and self.word_column in self._tag_columns():
            raise ValueError(
                f"expected word_column and tag_column to differ, got {self.word_column} for both"
            )

    def _tag_columns(self) -> Sequence[int | None]:
        return self.tag_column if isinstance(self.tag_column, tuple) else [self.tag_column]

    def sniff(self, sample: Sample) -> Guess:
        """Recognise lines of a token and a tag, or a label; see `Source.sniff`."""
        rows = _first_rows(sample.head, self.encoding)
        with suppress(RecordError):
            columns = find_columns(rows, word=None, tag=None, is_tag=tags.is_tag)
            if rows.fit(columns):
                return Guess("its lines hold a token and a tag")

        labels = find_labels(rows)
        if labels is None:
            return Guess(problem=falls_short(rows))
        if not labels.is_certain:
            return Guess(
                problem="its lines hold a token and a label; if words outside mentions have the "
                f"label {labels.outside}, set [source] scheme = 'label' and outside = "
                f"'{labels.outside}'"
            )
        if labels.are_suffixed:
            why = "its lines hold a token and a tag that ends with its prefix"
            return Guess(why, {"scheme": "suffix"})
        why = f"its lines hold a token and a label, {labels.outside} outside of mentions"
        return Guess(why, {"scheme": "label", "outside": labels.outside})

    def disowns(self, path: Path) -> str:
        """Return why a file has no lines of a token and a tag; see `Source.disowns`."""
        rows = FirstRows.from_bytes(self.beginning(path, _FEW_BYTES))
        tag = self._tag_columns()[0]
        is_other = have_no_tags(rows, tag, _IS_TAG[self.scheme]) or (
            # Any word is a valid label, so a list of names looks like words with labels.
            self.scheme == "label" and are_names(rows, self.outside)
        )
        return "its lines hold no token and tag" if is_other else ""

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file at document marks if it has any, else between sentences; see `Source.cut`."""
        if not self.may_be_cut(part, target_bytes=target_bytes):
            return iter([part])
        path = Path(part.path)
        columns = self.columns(path)
        return marks.cut(
            part,
            target_bytes=target_bytes,
            is_comment=columns.is_comment,
            beginnings=columns.beginnings,
        )

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the documents of a part; see `batches`. Documents set aside come first."""
        for record in self.batches(part):
            if isinstance(record, SetAside):
                yield record
            else:
                yield from record

    def batches(self, part: Part) -> Iterator[Documents | SetAside]:
        """Read the documents of a part as one batch of arrays.

        A document with a broken line is set aside as a whole, before the batch. In a file without
        blank lines and marks, only the broken line is.

        Raises:
            SourceError: Most lines at the file's beginning are not a token and a tag.
        """
        path = Path(part.path)
        file_stem = stem(path)
        columns = self.columns(path)
        data = tagged_lines.clean(self.utf8(path, part.start, part.stop), first=part.line)
        if self.word_prefix:
            prefix = re.escape(self.word_prefix.encode())
            data = re.sub(rb"^%s(?=[^\s])" % prefix, b"", data, flags=re.MULTILINE)

        # Comments are removed, so line numbers are too small until `uncommented.number` below.
        uncommented = take_out(data, columns.is_comment, columns.beginnings)
        documents, data = marks.divide(uncommented.data, first=part.line)
        if columns.has_titles:
            data = tagged_lines.without_titles(data)
        layers = self._layers(columns)
        scans = [
            tagged_lines.scan(
                data,
                first=part.line,
                columns=layer_columns,
                keep_empty=len(layers) > 1,
                is_whole=part.stop < 0,
            )
            for layer_columns in layers
        ]
        sentences = scans[0]

        # Without marks, each sentence is a document.
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

        # IOB1 is decoded only if some mention begins with I, as finding the scheme costs a scan.
        layer_mentions = []
        for scan, layer in zip(scans, layers, strict=True):
            mentions = self._decode(scan)
            if mentions.late.any() and self._opens_with_i(path, layer):
                mentions = self._decode(scan, i_opens=True)
            layer_mentions.append(mentions)
        mentions = tags.united(layer_mentions)

        # A sentence is broken if it is in any layer. The first layer's reason is kept.
        if len(scans) > 1:
            broken = [item for scan in reversed(scans) for item in scan.broken.items()]
            sentences = replace(sentences, broken=dict(sorted(dict(broken).items())))

        lines = uncommented.number(lines, first=part.line)
        for sentence, at in sentences.broken.items():
            (line,) = uncommented.number(np.array([at.line]), first=part.line).tolist()
            sentences.broken[sentence] = at._replace(line=line)
        yield from make_line_documents(
            sentences, mentions, firsts, ids, LinesOfFile(path.name, lines)
        )

    def columns(self, path: Path) -> TagColumns:
        """Find the columns of a file from its beginning, so that all parts use the same columns.

        Raises:
            SourceError: Most lines at the beginning are not a token and a tag.
        """
        beginning = self.beginning(path, tagged_lines.HEAD_BYTES)
        tag = self._tag_columns()[0]
        try:
            return _columns_in(beginning, self.word_column, tag, self.scheme, self.comments)
        except RecordError as error:
            raise SourceError(f"{path.name}:{error.line}: {error}") from None

    def _layers(self, columns: TagColumns) -> list[TagColumns]:
        """Return the columns of each layer, one layer by default."""
        if not isinstance(self.tag_column, tuple):
            return [columns]
        return [replace(columns, tag=tag) for tag in self.tag_column]

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Ask about files that contradict the options or each other; see `Source.settle`.

        Raises:
            SourceError: With scheme "label", a file has tags such as B-X or X-B; nearly all words
                of a file have a prefix; or a file has no tags and others have. The message has the
                options.
        """
        schemes: dict[str, Path] = {}
        bare: list[Path] = []
        others: list[Path] = []
        for path in paths:
            rows = FirstRows.from_bytes(self.beginning(path, tagged_lines.HEAD_BYTES))
            prefix = find_prefix(rows) if self.word_prefix is None else ""
            if prefix:
                raise SourceError(
                    f"{plain(path.name)}: nearly all words begin with '{prefix}'; set [source] "
                    f"word_prefix = '{prefix}' to remove it, or word_prefix = '' to keep it"
                )
            if rows.numbers and have_no_tags(rows, self._tag_columns()[0], _IS_TAG[self.scheme]):
                bare.append(path)
                continue
            others.append(path)
            if self.scheme == "label":
                scheme = find_scheme(rows, self.columns(path), self.outside)
                if scheme:
                    schemes.setdefault(scheme, path)

        if others and bare:
            raise SourceError(
                f"{plain(bare[0].name)}: expected a token and a tag as in other files, got lines "
                f"without tags; {keep_only(others)}"
            )
        for scheme in ("auto", "suffix"):
            if scheme in schemes:
                raise _several_schemes(scheme, schemes)
        return {}

    def _decode(self, sentences: TaggedSentences, *, i_opens: bool = False) -> tags.TaggedMentions:
        if self.scheme == "brackets":
            return self._decode_brackets(sentences)
        if self.scheme == "label":
            means = tags.make_label_meanings(sentences.names, outside=self.outside)
            return tags.decode_sentences(sentences.tags, sentences.offsets, means)
        names = sentences.names
        if self.scheme == "suffix":
            names = [*map(tags.turn_suffix, names)]
        return tags.decode_tags(
            sentences.tags, sentences.offsets, names, untyped=self.untyped, i_opens=i_opens
        )

    def _decode_brackets(self, sentences: TaggedSentences) -> tags.TaggedMentions:
        """Decode brackets. A sentence with an unmatched bracket is broken."""
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

    def _opens_with_i(self, path: Path, columns: TagColumns) -> bool:
        """Return whether I opens mentions in a file.

        Decided from the beginning of the file, so that all parts agree.
        """
        data = tagged_lines.clean(self.beginning(path, _SCHEME_BYTES))
        data = take_out(data, columns.is_comment, columns.beginnings).data
        _, data = marks.divide(data, first=1)
        if columns.has_titles:
            data = tagged_lines.without_titles(data)
        mentions = self._decode(tagged_lines.scan(data, first=1, columns=columns))
        return tags.opens_with_i(mentions=len(mentions.spans), late=int(mentions.late.sum()))


def _first_rows(head: bytes, encoding: Encoding) -> FirstRows:
    """Return the rows of the whole lines at a file's beginning."""
    head = to_utf8(head, marked(head, encoding))
    return FirstRows.from_bytes(head[: head.rfind(b"\n") + 1] or head)


def _several_schemes(scheme: str, schemes: Mapping[str, Path]) -> SourceError:
    """Make the error for a file whose labels are tags, with the first file of each scheme."""
    got = "B-X and I-X" if scheme == "auto" else "X-B and X-I"
    tagged = plain(schemes[scheme].name)
    advice = f'set [source] scheme = "{scheme}"'
    if "label" in schemes:
        # Labels alone do not say where a mention begins, so nobody wants a mix of both.
        advice = (
            f"build the files of each scheme by themselves, with --input: {tagged} with scheme = "
            f'"{scheme}", {plain(schemes["label"].name)} with scheme = "label"'
        )
    return SourceError(
        f'{tagged}: expected labels without prefixes, as [source] scheme = "label" wants, got tags '
        f"such as {got}; {advice}"
    )


_IS_TAG: Mapping[str, Callable[[str], bool]] = {
    "auto": tags.is_tag,
    "suffix": tags.is_suffixed,
    "label": bool,
    "brackets": tags.is_bracket,
}
"""Scheme -> whether a word is a valid tag."""


@lru_cache(maxsize=4)
def _columns_in(
    beginning: bytes, word: int | None, tag: int | None, scheme: str, comments: tuple[str, ...]
) -> TagColumns:
    """Find the columns of a file from its beginning. Cached, for all parts of the file.

    Raises:
        RecordError: Most lines are not a token and a tag.
    """
    lines = [line for line in tagged_lines.head(beginning) if not line[1].startswith(comments)]
    rows = FirstRows.from_lines(lines)
    columns = find_columns(rows, word=word, tag=tag, is_tag=_IS_TAG[scheme])
    return replace(columns, comments=comments, has_titles=rows.has_titles)
