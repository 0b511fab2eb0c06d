"""Finds training documents that share text with the folders of `source.decontaminate`.

A document is dropped if

* its whole text equals a sentence of a folder,
* one of its sentences of at least 8 words does, or
* it shares 13 consecutive words with a folder.

Documents are dropped as a whole, because removing single sentences would tear their text. The
splits `validation` and `test` keep all documents.

Words are compared in the normal form of `stats.overlap`. Documents are tokenised with the tokenizer
of each folder, so that both sides lose the same characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.builds.stages import OURS, make_segmenter
from mslm_data.data.documents import Documents, Mentions, Ranges, split_documents
from mslm_data.data.ragged import Ragged
from mslm_data.data.reason import Reason
from mslm_data.encode.layout import lay_out
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import ShardError
from mslm_data.io.files import hash_file
from mslm_data.pipeline import KEPT_WHOLE, Pipeline
from mslm_data.shard.manifest import NAME

if TYPE_CHECKING:  # imported late, as most builds need nothing of it
    from mslm_data.shard.built_folder import BuiltFolder
    from mslm_data.stats.overlap import Fingerprints, NormalWords

Bools = npt.NDArray[np.bool_]

HELD_EXACT = Reason(
    "the document shares a sentence with a folder of source.decontaminate", is_rule=True
)
HELD_NEAR = Reason(
    "the document shares 13 consecutive words with a folder of source.decontaminate", is_rule=True
)
"""Reasons why documents are set aside."""


def describe_folders(folders: Sequence[str]) -> list[dict[str, Any]]:
    """Return the name, splits and manifest digest of each folder, for the manifest.

    Raises:
        ShardError: A folder is neither a built folder nor a split of one.
    """
    from mslm_data.shard.built_folder import load_splits

    # The cache key is a path, and the folder may have changed since an earlier build.
    _LOADED.clear()

    record = []
    for folder in folders:
        try:
            shards, splits = load_splits(folder)
        except ShardError as error:
            raise ShardError(f"[source] decontaminate: {error}") from None
        digest = hash_file(Path(str(shards.folder)) / NAME)
        record.append({"name": shards.manifest.name, "splits": list(splits), "manifest": digest})
    return record


class _HeldOut(NamedTuple):
    """The text of all folders with the same tokenizer."""

    table: WordTable
    words: NormalWords
    fingerprints: Fingerprints


MIN_SENTENCE_WORDS = 8
"""Minimum number of words in a shared sentence. Radford et al. 2019 compare runs of 8 words;
shorter sentences are often phrases: `METHODS.` alone removed 40 of 1,693 abstracts."""
_LOADED: dict[tuple[str, ...], list[_HeldOut]] = {}
"""Cache of the last loaded folders: at most one key."""


def find_shared(pipeline: Pipeline, documents: Documents, sentences: Ranges) -> tuple[Bools, Bools]:
    """Find documents that share a sentence, and documents that share 13 words: bool `[D]` each.

    Args:
        pipeline: The pipeline, with the folders.
        documents: D documents.
        sentences: Their sentences.

    Raises:
        ShardError: A shard of a folder is missing or damaged.
    """
    exact = np.zeros(len(documents), np.bool_)
    near = np.zeros(len(documents), np.bool_)
    for held_out in load_folders(pipeline.source.decontaminate):
        layout = lay_out(documents, sentences, held_out.table)
        ids = Ragged(layout.ids.astype(np.int32), layout.offsets)
        words = held_out.words.hashes(ids, layout.words.astype(np.int32))
        is_shared = held_out.fingerprints.has_sentences(words)
        exact[layout.sentence_documents[is_shared & (words.lengths >= MIN_SENTENCE_WORDS)]] = True

        # Compare whole documents too: the folder may have other sentence boundaries, so 13 words
        # may cross the end of a sentence.
        whole = Ragged(words.values, words.offsets[sentences.offsets])
        exact |= held_out.fingerprints.has_sentences(whole)
        near |= held_out.fingerprints.has_grams(whole)
    return exact, near


def find_contaminated(
    pipeline: Pipeline, split: str, documents: Documents
) -> npt.NDArray[np.uint8]:
    """Find training documents that share text with the folders: uint8 `[D]`.

    1 for documents that share a sentence, 2 for those that share 13 words, 0 for others. It is
    decided before annotation, so that a slow annotator never sees these documents. Mentions do not
    count, though a segmenter joins two sentences that share one.

    Args:
        pipeline: The pipeline, with the folders.
        split: Split of the documents.
        documents: D documents. Their mentions are ignored.

    Raises:
        ShardError: A shard of a folder is missing or damaged.
    """
    kinds = np.zeros(len(documents), np.uint8)
    if not pipeline.source.decontaminate or split in KEPT_WHOLE or not len(documents):
        return kinds

    bare = documents.with_mentions(Mentions.from_rows([()] * len(documents), documents.starts))
    try:
        sentences = make_segmenter(pipeline).sentences(bare)
    except OURS:
        raise
    except Exception:  # noqa: BLE001 - the work unit sets the document aside later
        if len(documents) == 1:
            return kinds
        singles = split_documents(documents)
        return np.concatenate([find_contaminated(pipeline, split, single) for single in singles])

    exact, near = find_shared(pipeline, bare, sentences)
    kinds[near] = 2
    kinds[exact] = 1
    return kinds


def load_folders(folders: tuple[str, ...]) -> list[_HeldOut]:
    """Load the folders, grouped by tokenizer; cached.

    Raises:
        ShardError: A shard of a folder is missing or damaged.
    """
    from mslm_data.shard.built_folder import load_splits

    if folders not in _LOADED:
        _LOADED.clear()
        by_tokenizer: dict[str, list[tuple[BuiltFolder, tuple[str, ...]]]] = {}
        for shards, splits in map(load_splits, folders):
            digest = shards.manifest.tokenizer.sha256
            by_tokenizer.setdefault(digest, []).append((shards, splits))
        _LOADED[folders] = [_read(group) for group in by_tokenizer.values()]
    return _LOADED[folders]


def _read(folders: Sequence[tuple[BuiltFolder, tuple[str, ...]]]) -> _HeldOut:
    """Read folders with the same tokenizer."""
    from mslm_data.stats.overlap import Fingerprints, NormalWords, hash_sentences

    first, _ = folders[0]
    tokenizer = load_tokenizer(str(first.tokenizer))
    words = NormalWords(tokenizer.core, first.manifest.token_ids)

    def rows() -> Iterator[Ragged]:
        for shards, splits in folders:
            for split in splits:
                for _, sentences in hash_sentences(shards[split], words):
                    yield sentences

    return _HeldOut(WordTable(tokenizer), words, Fingerprints(rows()))
