"""Exports a built folder for tools that do not read Arrow.

Parquet and JSON Lines have all columns. GLiNER, spaCy and CoNLL files have words and mentions; they
need a folder built with `encode.keep_text`.

An export is written to a temporary folder, which is renamed when complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import pyarrow as pa

from mslm_data import _optional
from mslm_data.errors import CallError, ExportError
from mslm_data.io.files import (
    canonical_json,
    make_folder,
    making_folder,
    write_whole,
    writing_whole,
)
from mslm_data.registry import did_you_mean
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.row_words import RowWords, words_in_row
from mslm_data.shard.split import Split

NAME = "export.json"
"""File name of the labels of an export."""
_CONLL_MARK = b"-DOCSTART- -X- O O\n\n"
"""Document separator of CoNLL-2003, the only one that spaCy supports."""
_ROWS_AT_ONCE = 1024
"""Number of rows converted to Python objects at once."""


@dataclass(frozen=True)
class ExportedSplit:
    """The size of an exported split.

    Attributes:
        rows: Number of rows.
        files: Number of files.
        bytes: Size of the files.
    """

    rows: int
    files: int
    bytes: int


def export(
    splits: Mapping[str, Split],
    manifest: Manifest,
    tokenizer: Path,
    *,
    to: str,
    out: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, ExportedSplit]:
    """Write splits in another format, with one shard in memory at a time.

    Args:
        splits: Name -> split.
        manifest: Manifest of the built folder.
        tokenizer: Tokenizer file, which is copied to the export.
        to: Format, one of `FORMATS`.
        out: Folder to write: a new or an empty one.
        progress: Callback with the number of rows written, and of all rows.

    Returns:
        Name -> size of the exported split.

    Raises:
        CallError: `to` is unknown, or there are no splits.
        ExportError: `out` has files, or the format needs text and the built folder has none.
        ShardError: A shard is missing or damaged.
        FetchError: A remote shard is unreachable.
        MissingExtraError: `to` is `docbin` and spaCy is not installed.
    """
    if to not in FORMATS:
        raise CallError(
            f"to: expected one of {', '.join(FORMATS)}, got '{to}'{did_you_mean(to, FORMATS)}"
        )
    if not splits:
        raise CallError("splits: expected one or more names, got none")
    if FORMATS[to].has_words and not manifest.keeps_text:
        raise ExportError(
            f"{out}: --to {to} needs the text of the rows, which the folder does not keep; build "
            "it with --set encode.keep_text=true"
        )
    occupied = ExportError(
        f"{out}: expected a new or empty folder, got other files; choose another --out"
    )
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise occupied

    total = sum(map(len, splits.values()))
    done = 0
    sizes: dict[str, ExportedSplit] = {}
    with making_folder(out, taken=occupied) as temporary:
        for name, split in splits.items():
            make_folder(temporary / name)
            size = 0
            for record, batch in zip(split.record.shards, split.batches(), strict=True):
                path = temporary / name / f"{Path(record.file).stem}.{FORMATS[to].suffix}"
                with writing_whole(path) as file:
                    FORMATS[to].write(batch, manifest.labels, file)
                size += path.stat().st_size
                done += batch.num_rows
                progress(done, total)
            sizes[name] = ExportedSplit(len(split), len(split.record.shards), size)

        about = {
            "to": to,
            "name": manifest.name,
            "about": manifest.about,
            "tokenizer": manifest.tokenizer,
            "labels": manifest.labels,
            "tags": manifest.tags,
            "doc_labels": manifest.doc_labels or (),
        }
        write_whole(temporary / "tokenizer.json", [tokenizer.read_bytes()])
        write_whole(temporary / NAME, [canonical_json(msgspec.to_builtins(about))])
    return sizes


def _write_parquet(batch: pa.RecordBatch, _labels: Sequence[str], file: BinaryIO) -> None:
    """Write a Parquet file."""
    # Imported here, since it takes 0.1 s.
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_batches([batch]), file)


def _write_jsonl(batch: pa.RecordBatch, _labels: Sequence[str], file: BinaryIO) -> None:
    """Write a JSON object per line, with keys as decimal strings.

    Many JSON parsers convert integers above 2**53 to floats, which would round keys.
    """
    for row in _iter_rows(batch):
        row["key"] = str(row["key"])
        file.write(msgspec.json.encode(row) + b"\n")


def _write_gliner(batch: pa.RecordBatch, labels: Sequence[str], file: BinaryIO) -> None:
    """Write a JSON list of `{"tokenized_text", "ner"}`; ends in `ner` are inclusive."""
    before = b"[\n"
    for row in _iter_words(batch, labels):
        ner = [[first, stop - 1, label] for first, stop, label in row.mentions]
        record = {"tokenized_text": row.words, "ner": ner}
        file.write(before + msgspec.json.encode(record))
        before = b",\n"
    file.write(b"\n]\n" if before != b"[\n" else b"[]\n")


def _write_conll(batch: pa.RecordBatch, labels: Sequence[str], file: BinaryIO) -> None:
    """Write a TAB-separated word and tag per line."""
    doc_id = None
    for row in _iter_words(batch, labels):
        if row.doc_id != doc_id:
            doc_id = row.doc_id
            file.write(_CONLL_MARK)
        rows = zip(row.words, row.tags(), strict=True)
        lines = "".join(f"{word}\t{tag}\n" for word, tag in rows)
        file.write(f"{lines}\n".encode())


def _write_docbin(batch: pa.RecordBatch, labels: Sequence[str], file: BinaryIO) -> None:
    """Write a DocBin with a `Doc` per row, and mentions as entities."""
    spacy = _optional.load("spacy", wanted_by="export to docbin")
    vocab = spacy.vocab.Vocab()
    docs = spacy.tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"])
    for row in _iter_words(batch, labels):
        docs.add(_doc(spacy, vocab, row))
    file.write(docs.to_bytes())


def _doc(spacy: Any, vocab: Any, row: RowWords) -> Any:
    """Convert a row to a spaCy `Doc` with the same text."""
    tokens: list[str] = []
    spaces: list[bool] = []
    places = []  # index of the token of each word

    # spaCy stores a single space after a token as a flag. Any other white space becomes a token.
    for word, gap in zip(["", *row.words], row.gaps, strict=True):
        has_space = bool(word) and gap.startswith(" ")
        if word:
            places.append(len(tokens))
            tokens.append(word)
            spaces.append(has_space)
        if len(gap) > has_space:
            tokens.append(gap[has_space:])
            spaces.append(False)
    doc = spacy.tokens.Doc(vocab, words=tokens, spaces=spaces)
    doc.set_ents(
        [
            spacy.tokens.Span(doc, places[first], places[stop - 1] + 1, label=label)
            for first, stop, label in row.mentions
        ]
    )
    return doc


def _iter_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        yield from batch.slice(start, _ROWS_AT_ONCE).to_pylist()


def _iter_words(batch: pa.RecordBatch, labels: Sequence[str]) -> Iterator[RowWords]:
    return (words_in_row(row, labels) for row in _iter_rows(batch))


class Format(NamedTuple):
    """A format of exported files.

    Attributes:
        suffix: Suffix of the files.
        write: Function that writes the rows of a shard to a file. Its arguments are the rows, the
            label names, and the file.
        has_words: Whether rows are words and mentions instead of columns. Default: False.
    """

    suffix: str
    write: Callable[[pa.RecordBatch, Sequence[str], BinaryIO], None]
    has_words: bool = False


FORMATS: Mapping[str, Format] = {
    "parquet": Format("parquet", _write_parquet),
    "jsonl": Format("jsonl", _write_jsonl),
    "gliner": Format("json", _write_gliner, has_words=True),
    "docbin": Format("spacy", _write_docbin, has_words=True),
    "conll": Format("conll", _write_conll, has_words=True),
}
"""Name -> format."""
