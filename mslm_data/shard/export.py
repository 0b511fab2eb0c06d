"""Exports a built folder for trainers and tools that do not read Arrow.

Parquet, MDS and JSON Lines have all columns. GLiNER, spaCy and CoNLL files have words and mentions;
they need a folder built with `encode.keep_text`.

An export is written to a temporary folder, which is renamed when complete. So a folder with
`export.json` is complete. The next export in the same place removes temporary folders left by
killed processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import pyarrow as pa

from mslm_data import _optional
from mslm_data.data.columns import FORMAT
from mslm_data.errors import CallError, ExportError
from mslm_data.io.files import (
    canonical_json,
    hash_file,
    make_folder,
    making_folder,
    writing_whole,
)
from mslm_data.registry import did_you_mean
from mslm_data.shard import mds
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.row_words import RowWords, words_in_row
from mslm_data.shard.split import Split

NAME = "export.json"
"""File name of the record of an export."""
_CONLL_MARK = b"-DOCSTART- -X- O O\n\n"
"""Document separator of CoNLL-2003, the only one that spaCy supports."""
_ROWS_AT_ONCE = 1024
"""Number of rows converted to Python objects at once."""
Bytes = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """Describe a file of an export.

    Attributes:
        file: File name, in the folder of the split.
        rows: Number of rows.
        bytes: Size of the file.
        sha256: Digest of the file.
    """

    file: str
    rows: Bytes
    bytes: Bytes
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Export:
    """Describe an export; the content of `export.json`.

    Attributes:
        to: Format of the files: `parquet`, `mds`, `jsonl`, `gliner`, `docbin` or `conll`.
        format: Version of the format of the built folder, which FORMAT.md specifies.
        name: Name of the pipeline.
        plan: SHA-256 of inputs, pipeline, tokenizer, versions and work units of the build.
        about: Table `[about]` of the pipeline; `protected` marks patients' text.
        tokenizer: SHA-256 and special ids of the tokenizer.
        labels: Label names, indexed by `span_labels`.
        tags: Tag names, indexed by `bio`.
        doc_labels: Document label names, indexed by `doc_label`; None without this column.
        splits: Name -> files, in order.
    """

    to: str
    format: int
    name: str
    plan: str
    about: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    doc_labels: tuple[str, ...] | None
    splits: Mapping[str, tuple[ExportedFile, ...]]

    @property
    def has_words(self) -> bool:
        """Whether the files have words instead of columns."""
        return self.to in OF_WORDS

    @property
    def protected(self) -> bool:
        """Whether the rows are patients' text."""
        return bool(self.about.get("protected", False))


def export(
    splits: Mapping[str, Split],
    manifest: Manifest,
    tokenizer: Path,
    *,
    to: str,
    out: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Export:
    """Write splits in another format, with one shard in memory at a time.

    Args:
        splits: Name -> split.
        manifest: Manifest of the built folder.
        tokenizer: Tokenizer file, which is copied to the export.
        to: Format, one of `WRITERS`.
        out: Folder to write. If it already has an export of the same rows, this is checked and
            returned.
        progress: Callback with the number of rows written, and of all rows.

    Raises:
        CallError: `to` is unknown, or there are no splits.
        ExportError: `out` has other files or a damaged export, or the format needs text and the
            built folder has none.
        ShardError: A shard is missing or damaged.
        FetchError: A remote shard is unreachable.
        MissingExtraError: `to` is `docbin` and spaCy is not installed.
    """
    if to not in WRITERS:
        raise CallError(
            f"to: expected one of {', '.join(WRITERS)}, got '{to}'{did_you_mean(to, WRITERS)}"
        )
    if not splits:
        raise CallError("splits: expected one or more names, got none")
    if to in OF_WORDS and not manifest.pipeline["encode"]["keep_text"]:
        raise ExportError(
            f"{out}: --to {to} needs the text of the rows, which the folder does not keep; build "
            "it with --set encode.keep_text=true"
        )
    existing = _already(out, to, manifest, splits)
    if existing is not None:
        return existing

    total = sum(map(len, splits.values()))
    with making_folder(out, taken=_occupied(out)) as temporary:
        done = 0
        files: dict[str, tuple[ExportedFile, ...]] = {}
        for name, split in splits.items():
            make_folder(temporary / name)
            written = []
            for file in WRITERS[to](split, temporary / name):
                written.append(file)
                done += file.rows
                progress(done, total)
            files[name] = tuple(written)

        exported = _described(to, manifest, files)
        _write(temporary / "tokenizer.json", tokenizer.read_bytes())
        _write(temporary / "README.md", _page(exported).encode())
        _write(temporary / NAME, canonical_json(asdict(exported)))
    return exported


# The folder ---------------------------------------------------------------------------------------


def _already(out: Path, to: str, manifest: Manifest, splits: Mapping[str, Split]) -> Export | None:
    """Return the finished export in a folder, or None if the folder is free.

    Raises:
        ExportError: The folder has other files, another export or a damaged one.
    """
    if not out.exists() and not out.is_symlink():
        return None
    if not out.is_dir() or (any(out.iterdir()) and not (out / NAME).is_file()):
        raise _occupied(out)
    if not (out / NAME).is_file():
        return None

    try:
        existing = msgspec.json.decode((out / NAME).read_bytes(), type=Export)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _occupied(out) from None

    requested_rows = {name: len(split) for name, split in splits.items()}
    rows = {name: sum(file.rows for file in files) for name, files in existing.splits.items()}
    if (existing.to, existing.plan, rows) != (to, manifest.plan, requested_rows):
        raise ExportError(
            f"{out}: expected a new folder, got an export to {existing.to} of "
            f"{', '.join(existing.splits)} that differs from the one requested; choose another "
            "--out, or remove the folder"
        )
    _check_export(out, existing)
    return replace(existing, splits={name: existing.splits[name] for name in splits})


def _check_export(out: Path, existing: Export) -> None:
    """Check that the files of an export exist and are unchanged.

    Raises:
        ExportError: A file is missing or has changed.
    """
    digests = {
        f"{split}/{file.file}": file.sha256
        for split, files in existing.splits.items()
        for file in files
    }
    beside = ["tokenizer.json"]
    if existing.to == "mds":
        beside += [f"{split}/index.json" for split in existing.splits]

    for name in (*beside, *digests):
        path = out / name
        is_there = path.is_file()
        if not is_there or digests.get(name) not in (None, hash_file(path)):
            got = "other bytes" if is_there else "none"
            raise ExportError(
                f"{path}: expected the file listed in {NAME}, got {got}; remove "
                f"{out} and run the same command again"
            )


def _occupied(out: Path) -> ExportError:
    return ExportError(
        f"{out}: expected a new or empty folder, got other files; choose another --out"
    )


def _described(
    to: str, manifest: Manifest, files: Mapping[str, tuple[ExportedFile, ...]]
) -> Export:
    return Export(
        to=to,
        format=FORMAT,
        name=manifest.name,
        plan=manifest.plan,
        about=manifest.about,
        tokenizer=manifest.tokenizer,
        labels=manifest.labels,
        tags=manifest.tags,
        doc_labels=manifest.doc_labels,
        splits=files,
    )


def _page(exported: Export) -> str:
    """Return the README of the export."""
    how = "" if exported.has_words else ": token ids can be turned back into it"
    protected = (
        f"**Patients' text{how}. Treat this folder as you treat the notes.**\n\n"
        if exported.protected
        else ""
    )
    split = next(iter(exported.splits))
    return (
        "# Rows of a folder built by mslm-data\n\n"
        f"{protected}"
        f"```python\n{_READ[exported.to].format(split=split)}\n```\n\n"
        f"`{NAME}` has the labels and tags of each index, the special ids, and the digest of every "
        "file.\nmslm-data's FORMAT.md says what the columns mean.\n"
    )


_READ = {
    "parquet": "from datasets import load_dataset\n"
    'rows = load_dataset("parquet", data_files="this folder/{split}/*.parquet")',
    "jsonl": "import json\n"
    'with open("this folder/{split}/FILE.jsonl") as file:\n'
    "    rows = [json.loads(line) for line in file]",
    "mds": "from streaming import StreamingDataset\n"
    'rows = StreamingDataset(local="this folder", split="{split}", batch_size=32)',
    "gliner": "import json\n"
    'with open("this folder/{split}/FILE.json") as file:\n'
    "    rows = json.load(file)  # training data for GLiNER",
    "docbin": "import spacy\n"
    "from spacy.tokens import DocBin\n"
    'docs = DocBin().from_disk("this folder/{split}/FILE.spacy").get_docs(spacy.blank("en").vocab)',
    "conll": "from spacy.training.converters import conll_ner_to_docs\n"
    'with open("this folder/{split}/FILE.conll") as file:\n'
    '    docs = list(conll_ner_to_docs(file.read().replace("\\t", " ")))',
}
"""Format -> Python code that reads its files, for the README."""


def _write(path: Path, data: bytes) -> None:
    with writing_whole(path) as file:
        file.write(data)


# The files ----------------------------------------------------------------------------------------


def _parquet(split: Split, folder: Path) -> Iterator[ExportedFile]:
    """Write a Parquet file per shard."""
    # Imported here, since it takes 0.1 s.
    from pyarrow import parquet

    for name, batch in _shards(split, "parquet"):
        with writing_whole(folder / name) as file:
            parquet.write_table(pa.Table.from_batches([batch]), file)
        yield _written(folder / name, batch.num_rows)


def _jsonl(split: Split, folder: Path) -> Iterator[ExportedFile]:
    """Write a JSON Lines file per shard, with keys as decimal strings.

    Many JSON parsers convert integers above 2**53 to floats, which would round keys.
    """
    encode = msgspec.json.encode
    for name, batch in _shards(split, "jsonl"):
        with writing_whole(folder / name) as file:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                rows = batch.slice(start, _ROWS_AT_ONCE).to_pylist()
                for row in rows:
                    row["key"] = str(row["key"])
                file.writelines(encode(row) + b"\n" for row in rows)
        yield _written(folder / name, batch.num_rows)


def _mds(split: Split, folder: Path) -> Iterator[ExportedFile]:
    """Write MDS files of at most 64 MiB, and an index."""
    index: list[tuple[str, int, mds.MdsFile]] = []
    for batch in split.batches():
        for file in mds.make_files(batch):
            name = mds.file_name(len(index))
            with writing_whole(folder / name) as sink:
                for piece in file.pieces:
                    sink.write(piece)
            written = _written(folder / name, file.rows)
            index.append((name, written.bytes, file._replace(pieces=())))
            yield written
    _write(folder / "index.json", mds.make_index(index))


def _gliner(split: Split, folder: Path) -> Iterator[ExportedFile]:
    """Write a JSON list of `{"tokenized_text", "ner"}` per shard; ends in `ner` are inclusive."""
    for name, batch in _shards(split, "json"):
        with writing_whole(folder / name) as file:
            before = b"[\n"
            for row in _words(batch, split):
                ner = [[first, stop - 1, label] for first, stop, label in row.mentions]
                record = {"tokenized_text": row.words, "ner": ner}
                file.write(before + msgspec.json.encode(record))
                before = b",\n"
            file.write(b"\n]\n" if before != b"[\n" else b"[]\n")
        yield _written(folder / name, batch.num_rows)


def _conll(split: Split, folder: Path) -> Iterator[ExportedFile]:
    """Write a CoNLL file per shard, with a TAB-separated word and tag per line."""
    for name, batch in _shards(split, "conll"):
        doc_id = None
        with writing_whole(folder / name) as file:
            for row in _words(batch, split):
                if row.doc_id != doc_id:
                    doc_id = row.doc_id
                    file.write(_CONLL_MARK)
                rows = zip(row.words, row.tags(), strict=True)
                lines = "".join(f"{word}\t{tag}\n" for word, tag in rows)
                file.write(f"{lines}\n".encode())
        yield _written(folder / name, batch.num_rows)


def _docbin(split: Split, folder: Path) -> Iterator[ExportedFile]:
    """Write a DocBin per shard, with a `Doc` per row, and mentions as entities."""
    spacy = _optional.load("spacy", wanted_by="export to docbin")
    vocab = spacy.vocab.Vocab()
    for name, batch in _shards(split, "spacy"):
        docs = spacy.tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"])
        for row in _words(batch, split):
            docs.add(_doc(spacy, vocab, row))
        with writing_whole(folder / name) as file:
            file.write(docs.to_bytes())
        yield _written(folder / name, batch.num_rows)


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


def _words(batch: pa.RecordBatch, split: Split) -> Iterator[RowWords]:
    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        for row in batch.slice(start, _ROWS_AT_ONCE).to_pylist():
            yield words_in_row(row, split.manifest.labels)


def _shards(split: Split, suffix: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the file name and the rows of each shard."""
    # `strict` requests another batch at the end: `batches` then checks that no file has changed.
    for record, batch in zip(split.record.shards, split.batches(), strict=True):
        yield f"{Path(record.file).stem}.{suffix}", batch


def _written(path: Path, rows: int) -> ExportedFile:
    return ExportedFile(
        file=path.name, rows=rows, bytes=path.stat().st_size, sha256=hash_file(path)
    )


Writer: TypeAlias = Callable[[Split, Path], Iterator[ExportedFile]]
WRITERS: Mapping[str, Writer] = {
    "parquet": _parquet,
    "mds": _mds,
    "jsonl": _jsonl,
    "gliner": _gliner,
    "docbin": _docbin,
    "conll": _conll,
}
"""Format -> function that writes a split to a folder."""
OF_WORDS = ("gliner", "docbin", "conll")
"""Formats with words instead of columns."""
