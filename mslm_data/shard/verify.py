"""Checks a built folder against FORMAT.md and its own manifest.

First the files and their checksums are checked, then schema, counts and values of the rows. For
each rule, only the first violation is reported. Problems never contain text of the corpus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mslm_data.data.bio import OUTSIDE, paint
from mslm_data.data.context import FLAGS
from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import ShardError
from mslm_data.io import json_once
from mslm_data.io.arrow import IN_MEMORY, numbers
from mslm_data.io.files import canonical_json, hash_file
from mslm_data.shard.manifest import NAME, Manifest, read_manifest
from mslm_data.shard.read import Shard

_USUAL = {"mask": ("[MASK]", "<mask>"), "pad": ("[PAD]", "<pad>"), "unk": ("[UNK]", "<unk>")}
"""Usual names of special tokens."""


class Problem(NamedTuple):
    """A violation.

    A row::

        place                                  what
        train/data-00000-of-00001.arrow row 7  expected sorted mentions that do not overlap; 1 ...

    Row 7 of the shard is the first with overlapping mentions.

    Attributes:
        place: File, with the row if the problem is in a row.
        what: Expected and actual state, without text of the corpus.
    """

    place: str
    what: str


def verify(folder: Path) -> tuple[Manifest, list[Problem]]:
    """Check all files and rows of a built folder.

    Files not written by the build are ignored, such as `cache-*.arrow` of `datasets`.

    Returns:
        The manifest, and a list of problems, empty for a valid folder.

    Raises:
        ShardError: The manifest is missing, damaged or inconsistent, or has another format.
    """
    manifest = read_manifest(folder)
    problems = list(_beside(folder, manifest))
    for split, record in manifest.splits.items():
        keys: list[Array] = []
        documents = 0
        for shard_record in record.shards:
            # `labels=None`: rules of ids and labels are checked below, where the row is known.
            path = folder / split / shard_record.file
            in_memory = record.bytes <= IN_MEMORY
            shard = Shard(path, shard_record, manifest.token_ids, None, in_memory)
            shard_problems = list(_shard(shard, manifest))
            problems += [
                Problem(f"{split}/{path.name}{place}", what) for place, what in shard_problems
            ]
            if not shard_problems:
                keys.append(shard.flat("key"))
                documents += _documents(shard)

        # Rules across shards. Documents can only be counted if all shards are readable.
        problems += _keys(split, keys)
        if len(keys) == len(record.shards) and documents != record.written:
            problems.append(
                Problem(split, f"expected rows of {record.written} documents, got {documents}")
            )
        problems += _names(folder, split, manifest)
    return manifest, problems


def find_other_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return the sorted names of files not written by the build.

    For example, `datasets` writes a `cache-*.arrow` for each `map`, `filter` or `shuffle`. Remains
    of interrupted builds and unknown shards are not included: `verify` reports them.
    """
    left = {problem.place for problem in _left(folder, manifest)}
    names = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and (folder / ".build") not in path.parents
    }
    unknown = {
        name for split in manifest.splits for name in _unknown_shards(folder, split, manifest)
    }
    return sorted(names - left - unknown - set(manifest.files()))


# Files -------------------------------------------------------------------------------------------


def _names(folder: Path, split: str, manifest: Manifest) -> Iterator[Problem]:
    """Check that the shards of a split are numbered in order, and that there are no others."""
    known = [shard.file for shard in manifest.splits[split].shards]
    numbered = [f"data-{number:05d}-of-{len(known):05d}.arrow" for number in range(len(known))]
    if known != numbered:
        yield Problem(f"{split}", "expected shards numbered from 0 in the manifest's order")

    for name in _unknown_shards(folder, split, manifest):
        yield Problem(name, "expected no shard that the manifest does not name")


def _unknown_shards(folder: Path, split: str, manifest: Manifest) -> list[str]:
    """Return the shard files of a split that are not in the manifest."""
    known = {shard.file for shard in manifest.splits[split].shards}
    files = {path.name for path in (folder / split).glob("data-*.arrow")}
    return [f"{split}/{name}" for name in sorted(files - known)]


def _beside(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check all files except the shards."""
    yield from _tokenizer(folder / "tokenizer.json", manifest)
    yield from _set_aside(folder, manifest)
    if not (folder / "README.md").is_file():
        yield Problem("README.md", "expected a dataset card, found no file")

    splits = _json(folder / "dataset_dict.json", "splits")
    if not isinstance(splits, list) or sorted(map(str, splits)) != sorted(manifest.splits):
        yield Problem("dataset_dict.json", "expected the manifest's splits")
    else:
        yield from _canonical(folder, "dataset_dict.json")
    yield from _canonical(folder, NAME)

    metadata = manifest.schema.metadata
    features = msgspec.json.decode(metadata[b"huggingface"])["info"]["features"]
    for split, record in manifest.splits.items():
        files = [{"filename": shard.file} for shard in record.shards]
        state, info = f"{split}/state.json", f"{split}/dataset_info.json"
        if _json(folder / state, "_data_files") != files:
            yield Problem(state, "expected the manifest's shards")
        elif _json(folder / state, "_split") != split:
            yield Problem(state, "expected the split's name")
        else:
            yield from _canonical(folder, state)

        if _json(folder / info, "features") != features:
            yield Problem(info, "expected the features of the shards' columns")
        else:
            yield from _canonical(folder, info)

    yield from _left(folder, manifest)


def _left(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Find remains of an interrupted build."""
    left = [path for split in ("", *manifest.splits) for path in (folder / split).glob(".*.tmp")]
    if (folder / ".build").exists():
        left.append(folder / ".build")

    for name in sorted(str(path.relative_to(folder)) for path in left):
        yield Problem(
            name,
            "expected nothing left of an unfinished build; the same build command removes it",
        )


def _canonical(folder: Path, name: str) -> Iterator[Problem]:
    """Check that a JSON file is canonical."""
    data = (folder / name).read_bytes()
    if canonical_json(msgspec.json.decode(data)) != data:
        yield Problem(name, "expected JSON with sorted keys, one space of indent and a newline")


def _tokenizer(path: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check the digest of the tokenizer, and the special ids in the manifest."""
    if not path.is_file() or hash_file(path) != manifest.tokenizer["sha256"]:
        yield Problem(path.name, "expected the tokenizer that the manifest names")
        return

    try:
        value = json_once.decode(path.read_bytes())
        vocabulary = _vocabulary(value)
        added = {token["id"] for token in value.get("added_tokens") or () if token["special"]}
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        yield Problem(path.name, "expected a tokenizer that can be read")
        return

    if value.get("truncation") is not None or value.get("padding") is not None:
        yield Problem(path.name, "expected truncation and padding switched off")
    for what in _wrong_ids(manifest.token_ids, vocabulary, added, value.get("post_processor")):
        yield Problem(NAME, f"tokenizer.ids: {what}, as tokenizer.json has it")
    yield from _tokenizer_config(path.parent, manifest.token_ids, vocabulary)


def _tokenizer_config(
    folder: Path, ids: TokenIds, vocabulary: Mapping[str, int]
) -> Iterator[Problem]:
    """Check the names of special tokens in `tokenizer_config.json`."""
    name = "tokenizer_config.json"
    if not (folder / name).is_file():
        yield Problem(name, "expected the names of the tokenizer's special tokens, found no file")
        return
    for kind in _USUAL:
        token = _json(folder / name, f"{kind}_token")
        id_ = getattr(ids, kind)
        if (vocabulary.get(token) if isinstance(token, str) else -1) != id_:
            yield Problem(name, f"expected {kind}_token to be the token of {id_}")
            return
    yield from _canonical(folder, name)


def _vocabulary(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Return token -> id from the content of a `tokenizer.json`."""
    pieces = tokenizer["model"]["vocab"]
    if isinstance(pieces, list):  # a Unigram model, with a list of pieces and scores
        vocabulary = {piece: number for number, (piece, _) in enumerate(pieces)}
    else:
        vocabulary = dict(pieces)

    for token in tokenizer.get("added_tokens") or ():
        vocabulary[token["content"]] = token["id"]
    if not all(isinstance(id_, int) for id_ in vocabulary.values()):
        raise TypeError("an id is not a whole number")
    return vocabulary


def _wrong_ids(
    ids: TokenIds, vocabulary: Mapping[str, int], added: set[int], post_processor: Any
) -> Iterator[str]:
    """Yield the differences between tokenizer and special ids in the manifest.

    Args:
        ids: Special ids in the manifest.
        vocabulary: Token -> id.
        added: Ids of the special tokens in `added_tokens`.
        post_processor: Post-processor of the tokenizer, which adds special tokens to a row.
    """
    size = max(vocabulary.values(), default=-1) + 1
    if ids.size != size:
        yield f"expected a size of {size}, got {ids.size}"

    named = {kind: getattr(ids, kind) for kind in _USUAL}
    for kind, id_ in named.items():
        usual = [vocabulary[token] for token in _USUAL[kind] if token in vocabulary]
        if id_ not in added and id_ not in (usual[:1] or [-1]):
            yield f"expected {kind} to be a special token's id, got {id_}"

    # [CLS] and [SEP] may be missing from `added_tokens`; the post-processor has their ids then.
    at_least = added | {id_ for id_ in named.values() if id_ >= 0}
    at_most = at_least | _integers_in(post_processor)
    if not at_least <= set(ids.special) <= at_most or list(ids.special) != sorted(set(ids.special)):
        yield "expected special to be the rising ids of all special tokens"


def _integers_in(value: Any) -> set[int]:
    """Return all integers in a JSON value."""
    if isinstance(value, dict):
        return set().union(*map(_integers_in, value.values()))
    if isinstance(value, list):
        return set().union(*map(_integers_in, value))
    return {value} if isinstance(value, int) else set()


class _Aside(msgspec.Struct, forbid_unknown_fields=True):
    """A line of `set_aside.jsonl`."""

    split: str
    id: str
    place: str
    reason: str


def _set_aside(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check the lines of `set_aside.jsonl`, and their number per split."""
    name = "set_aside.jsonl"
    if not (folder / name).is_file():
        yield Problem(name, "expected the documents set aside, found no file")
        return

    decoder = msgspec.json.Decoder(_Aside)
    counts = Counter[str]()
    broken = 0
    with (folder / name).open("rb") as file:
        for line in file:
            try:
                counts[decoder.decode(line).split] += 1
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken += 1

    broken += sum(count for split, count in counts.items() if split not in manifest.splits)
    if broken:
        yield Problem(
            name, f"expected split, id, place and reason in each line, got {broken} others"
        )

    for split, record in manifest.splits.items():
        if counts[split] != record.set_aside:
            yield Problem(
                name, f"expected {record.set_aside} documents of {split}, got {counts[split]}"
            )


def _json(path: Path, key: str) -> Any:
    """Return the value of a key in a JSON file; None if it is missing."""
    try:
        value = msgspec.json.decode(path.read_bytes()) if path.is_file() else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value.get(key) if isinstance(value, dict) else None


# Shards ------------------------------------------------------------------------------------------


def _shard(shard: Shard, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Check a shard. Stop at the first problem after which reading on is not safe."""
    try:
        if shard.path.is_file() and hash_file(shard.path) != shard.record.sha256:
            yield "", "expected the manifest's checksum: bytes have changed"
            return
        examples = shard.examples(0, len(shard))
    except (ShardError, OSError) as error:
        yield "", str(error).removeprefix(f"{shard.path}: ")
        return

    if not shard.batch.schema.equals(manifest.schema, check_metadata=True):
        yield "", "expected the schema that the manifest's labels and options give"
    if not _has_footer(shard.path):
        yield "", "expected an Arrow file's footer behind the stream"
    if any(buffer.address % 8 for buffer in _buffers(shard.batch)):
        yield "", "expected buffers aligned to 8 bytes"

    for what, got, expected in (
        ("tokens", len(examples.input_ids.values), shard.record.tokens),
        ("mentions", len(examples.span_starts.values), shard.record.mentions),
    ):
        if got != expected:
            yield "", f"expected {expected} {what}, got {got}"

    # The other laws index by ids, words and mentions, and need valid ones.
    broken = list(_rows(_basic_laws(examples, len(manifest.labels))))
    if not broken:
        max_tokens = manifest.pipeline["encode"].get("max_tokens")
        limit = int(max_tokens or len(examples.input_ids.values))
        broken = [*_rows(_laws(examples, limit)), *_tags(examples), *_rows(_texts(shard, examples))]
    yield from broken
    yield from _weak(shard, examples)
    yield from _contexts(shard)
    yield from _doc_labels(examples, len(manifest.doc_labels or ()))


def _has_footer(path: Path) -> bool:
    """Return whether a shard can be opened as an Arrow file, which is read from its footer."""
    try:
        with pa.memory_map(str(path)) as file:
            return bool(pa.ipc.open_file(file).num_record_batches == 1)
    except (pa.ArrowException, OSError, ValueError):
        return False


def _buffers(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    for column in batch.columns:
        yield from (buffer for buffer in column.buffers() if buffer is not None)


class _Law(NamedTuple):
    """A law that holds for all rows.

    Attributes:
        column: Column with N rows and T values.
        breaks: bool `[T]` or `[N]`, whether a value or a row breaks the law.
        what: Expected state.
    """

    column: Ragged
    breaks: Array
    what: str


def _rows(laws: Iterator[_Law]) -> Iterator[tuple[str, str]]:
    """Yield the first row that breaks each law, and the number of violations."""
    for law in laws:
        violations = np.flatnonzero(law.breaks)
        if len(violations):
            row = int(violations[0])
            if len(law.breaks) != len(law.column):  # the index of a value
                row = int(np.searchsorted(law.column.offsets, row, side="right")) - 1
            yield f" row {row}", f"expected {law.what}; {len(violations)} are not"


def _basic_laws(examples: Examples, labels: int) -> Iterator[_Law]:
    """Yield the laws of ids, words and mentions required by all others."""
    ids, words, bio = examples.input_ids, examples.word_ids.values, examples.bio.values
    yield _Law(ids, (ids.values < 0) | (ids.values >= examples.ids.size), "ids of the tokenizer")
    yield _Law(ids, words < -1, "word numbers of at least -1")
    yield _Law(ids, _falls(examples), "word numbers that never fall")
    yield _Law(ids, (words == -1) & (bio != OUTSIDE), "O on special tokens")

    starts, span_labels = examples.span_starts, examples.span_labels.values
    yield _Law(starts, (span_labels < 0) | (span_labels >= labels), "labels of the manifest")

    row = np.repeat(np.arange(len(examples)), starts.lengths)
    follows = np.diff(row, prepend=-1) == 0
    before = np.append(0, examples.span_ends.values[:-1])
    overlap = follows & (starts.values < before)
    yield _Law(starts, overlap, "sorted mentions that do not overlap")


def _laws(examples: Examples, max_tokens: int) -> Iterator[_Law]:
    """Yield the laws of special tokens, words and row length."""
    ids, words = examples.input_ids, examples.word_ids.values
    yield _Law(ids, ids.lengths > max_tokens, f"rows of at most {max_tokens} tokens")

    # Text is never encoded as a special token except [UNK]. A tokenizer without [UNK] may encode
    # text as any token, so there is no law.
    special = np.isin(ids.values, np.array(examples.ids.special, np.int64))
    if examples.ids.unk >= 0:
        around = special & (ids.values != examples.ids.unk)
        yield _Law(ids, around & (words != -1), "no words on special tokens")
    yield _Law(ids, ~special & (words == -1), "a word for each token that is not special")

    # A row is the tokenizer's prefix, a window of words, and its suffix.
    real = words >= 0
    row = np.repeat(np.arange(len(ids)), ids.lengths)
    counts = np.bincount(row[real], minlength=len(ids))
    yield _Law(ids, counts == 0, "rows with a word")
    if not len(ids) or (counts == 0).any():
        return

    places = np.flatnonzero(real)
    first = places[np.cumsum(counts) - counts]
    last = places[np.cumsum(counts) - 1]
    yield _Law(ids, words[first] != 0, "rows that begin with word 0")

    before = first - ids.offsets[:-1]
    behind = ids.offsets[1:] - 1 - last
    different = (before != before[0]) | (behind != behind[0]) | (last - first + 1 != counts)
    if not different.any():
        # Compare the special tokens of all rows with those of the first row.
        for place in range(int(before[0])):
            different |= ids.values[ids.offsets[:-1] + place] != ids.values[place]
        for place in range(1, int(behind[0]) + 1):
            different |= ids.values[ids.offsets[1:] - place] != ids.values[ids.offsets[1] - place]
    yield _Law(ids, different, "the same special tokens around each row")
    yield from _sentences(examples, before)


def _sentences(examples: Examples, before: Array) -> Iterator[_Law]:
    """Yield the laws of `sentence_starts`.

    Args:
        examples: Rows, each with at least a word.
        before: `[N]`, number of tokens before the first word of each row.
    """
    starts = examples.sentence_starts
    if starts is None:
        return

    is_first = np.zeros(len(starts.values), np.bool_)
    counts = starts.lengths
    is_first[starts.offsets[:-1][counts > 0]] = True
    yield _Law(starts, counts == 0, "a sentence in each row")
    falls = ~is_first & (np.diff(starts.values, prepend=0) <= 0)
    yield _Law(starts, falls, "sentences that begin one after the other")
    late = is_first & (starts.values != np.repeat(before, counts))
    yield _Law(starts, late, "a first sentence that begins at the first token of the text")

    # `Shard` has checked that sentences start within their rows, so indexing is safe.
    places = starts.values + np.repeat(examples.input_ids.offsets[:-1], counts)
    words = examples.word_ids.values
    continues = ~is_first & (words[places] == words[places - 1])
    inside = (words[places] < 0) | continues
    yield _Law(starts, inside, "sentences that begin where a word begins")


def _falls(examples: Examples) -> Array:
    """Return whether each token has a lower word number than the word before it in the row."""
    words = examples.word_ids
    row = np.repeat(np.arange(len(examples)), words.lengths)
    inside = np.flatnonzero(words.values >= 0)

    falls = np.zeros(len(words.values), np.bool_)
    falls[inside[1:]] = (np.diff(words.values[inside]) < 0) & (np.diff(row[inside]) == 0)
    return falls


def _tags(examples: Examples) -> Iterator[tuple[str, str]]:
    """Check that tags match mentions."""
    offsets = examples.bio.offsets
    expected = paint(examples.span_starts, examples.span_ends, examples.span_labels, offsets)
    different = np.flatnonzero(expected != examples.bio.values)
    if len(different):
        row = int(np.searchsorted(offsets, different[0], side="right")) - 1
        yield (
            f" row {row}",
            f"expected the tags that the mentions give; {len(different)} tokens have others",
        )


def _texts(shard: Shard, examples: Examples) -> Iterator[_Law]:
    """Yield the laws of `text`, `token_starts` and `token_ends`."""
    starts, ends = examples.token_starts, examples.token_ends
    if starts is None or ends is None:
        return

    special = examples.word_ids.values == -1
    none = (starts.values == -1) & (ends.values == -1)
    yield _Law(starts, special != none, "characters for each word, -1 on special tokens")

    sizes = numbers(pc.utf8_length(shard.batch.column("text")))
    within = (
        (starts.values >= 0)
        & (starts.values < ends.values)
        & (ends.values <= np.repeat(sizes, starts.lengths))
    )
    yield _Law(starts, ~special & ~within, "characters within the row's text")

    # A text starts with the first character of its tokens, and ends with the last.
    last_ends = np.zeros(len(starts), np.int64)
    first_starts = sizes.astype(np.int64)
    row = np.repeat(np.arange(len(starts)), starts.lengths)
    np.maximum.at(last_ends, row[~special], ends.values[~special])
    np.minimum.at(first_starts, row[~special], starts.values[~special])
    is_longer = (first_starts != 0) | (last_ends != sizes)
    yield _Law(starts, is_longer, "texts that their tokens span")


def _weak(shard: Shard, examples: Examples) -> Iterator[tuple[str, str]]:
    """Check `span_concepts` and `span_scores`, if the shard has them."""
    if "span_concepts" not in shard.batch.schema.names:
        return

    concepts = numbers(shard.batch.column("span_concepts").offsets)
    if not np.array_equal(np.diff(concepts), examples.span_starts.lengths):
        yield "", "span_concepts: expected one for each mention"

    scores = shard.ragged("span_scores", 0, len(shard))
    outside = ~((scores.values >= 0) & (scores.values <= 1))  # True for NaN
    yield from _rows(iter([_Law(scores, outside, "confidences from 0 to 1")]))


def _contexts(shard: Shard) -> Iterator[tuple[str, str]]:
    """Check `span_contexts`, if the shard has it."""
    if not shard.has("span_contexts"):
        return

    contexts = shard.ragged("span_contexts", 0, len(shard))
    outside = (contexts.values < 0) | (contexts.values >= 1 << len(FLAGS))
    yield from _rows(iter([_Law(contexts, outside, f"contexts of {len(FLAGS)} flags")]))


def _doc_labels(examples: Examples, known: int) -> Iterator[tuple[str, str]]:
    """Check `doc_label`, if the shard has it."""
    labels = examples.doc_labels
    if labels is not None and ((labels < -1) | (labels >= known)).any():
        yield "", f"doc_label: expected -1, or labels from 0 to {known - 1}"


def _documents(shard: Shard) -> int:
    """Count the documents of a shard. The rows of a document are contiguous, in one shard."""
    ids = shard.batch.column("doc_id")
    if not len(ids):
        return 0
    return 1 + int(pc.sum(pc.not_equal(ids[1:], ids[:-1])).as_py() or 0)


def _keys(split: str, keys: list[Array]) -> Iterator[Problem]:
    """Check that the keys of a split are unique."""
    all_keys = np.concatenate(keys) if keys else np.empty(0, np.uint64)
    duplicates = len(all_keys) - len(np.unique(all_keys))
    if duplicates:
        yield Problem(split, f"expected a unique key for each row, got {duplicates} duplicates")
