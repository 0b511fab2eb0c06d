"""Leaves documents out of training that share text with folders of `source.leave_out`.

A document goes as a whole, as leaving a sentence out would tear its text. It goes if it has the
normal words of a sentence of such a folder, or if one of its sentences of 8 or more has, or if 13
normal words stand side by side in both; `stats.overlap` says what normal words are. Documents are
tokenised as those folders were, so both sides have lost the same.

The splits `validation` and `test` keep all of their documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.builds.stages import OURS, segmenter_of
from mslm_data.data.document import SetAside
from mslm_data.data.documents import Documents, Mentions, Ranges, one_by_one
from mslm_data.data.ragged import Ragged
from mslm_data.data.reason import Reason
from mslm_data.encode.layout import lay_out
from mslm_data.encode.tokenizer import load
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import ShardError
from mslm_data.io.files import hash_file
from mslm_data.pipeline import KEPT_WHOLE, Pipeline
from mslm_data.shard.manifest import NAME

if TYPE_CHECKING:  # imported late, as most builds need nothing of it
    from mslm_data.shard.built_folder import BuiltFolder
    from mslm_data.stats.overlap import Fingerprints, NormalWords

Bools = npt.NDArray[np.bool_]

EXACT = Reason("expected no sentence that a folder of source.leave_out has", is_rule=True)
NEAR = Reason(
    "expected no 13 words side by side that a folder of source.leave_out has", is_rule=True
)
"""Why documents are set aside, and their mentions left out."""


def record_of(folders: Sequence[str]) -> list[dict[str, Any]]:
    """Return what folders hold, as plain values without their paths.

    Raises:
        ShardError: One of them is not a built folder, nor a split of one.
    """
    from mslm_data.shard.built_folder import load_splits

    # A build begins: this process may have read other folders of the same paths for another one.
    _LOADED.clear()

    record = []
    for folder in folders:
        try:
            shards, splits = load_splits(folder)
        except ShardError as error:
            raise ShardError(f"[source] leave_out: {error}") from None
        digest = hash_file(Path(str(shards.folder)) / NAME)
        record.append({"name": shards.manifest.name, "splits": list(splits), "manifest": digest})
    return record


class _Known(NamedTuple):
    """Hold what is known of folders of one tokenizer."""

    table: WordTable
    words: NormalWords
    fingerprints: Fingerprints


LEAST = 8
"""Normal words of a sentence for which a longer document goes, as Radford et al. 2019 compare runs
of 8. Shorter ones that corpora share are phrases such as `A case report.`."""
_LOADED: dict[tuple[str, ...], list[_Known]] = {}
"""The folders that this process looked at last: one key."""


def shared_with(pipeline: Pipeline, documents: Documents, sentences: Ranges) -> tuple[Bools, Bools]:
    """Return which documents share a sentence, and which share 13 words, `[D]` each.

    Args:
        pipeline: Names the folders.
        documents: D documents.
        sentences: Their sentences.

    Raises:
        ShardError: A shard of the folders is missing or damaged.
    """
    from mslm_data.stats.overlap import has_any

    exact = np.zeros(len(documents), np.bool_)
    near = np.zeros(len(documents), np.bool_)
    for of_tokenizer in known(pipeline.leave_out):
        layout = lay_out(documents, sentences, of_tokenizer.table)
        ids = Ragged(layout.ids.astype(np.int32), layout.offsets)
        words = of_tokenizer.words.hashes(ids, layout.words.astype(np.int32))
        is_shared = of_tokenizer.fingerprints.sentence_places(words) >= 0
        exact[layout.sentence_documents[is_shared & (words.lengths >= LEAST)]] = True

        # 13 words may go on from one sentence to the next, as sentences may end elsewhere there.
        whole = Ragged(words.values, words.offsets[sentences.offsets])
        places = of_tokenizer.fingerprints.find(whole)
        exact |= places.sentences >= 0
        near |= has_any(places.grams)
    return exact, near


def will_go(pipeline: Pipeline, split: str, documents: Documents) -> Bools:
    """Return which documents of a split will be set aside, `[D]`, before they are annotated.

    A sentence that a mention joins with the next is two here, so a document that shares one of them
    alone may be told wrong.

    Args:
        pipeline: Names the folders.
        split: The split of the documents.
        documents: D documents; their mentions do not matter.

    Raises:
        ShardError: A shard of the folders is missing or damaged.
    """
    none = np.zeros(len(documents), np.bool_)
    if not pipeline.leave_out or split in KEPT_WHOLE or not len(documents):
        return none

    bare = documents.with_mentions(Mentions.of([()] * len(documents), documents.starts))
    try:
        sentences = segmenter_of(pipeline).sentences(bare)
    except OURS:
        raise
    except Exception:  # noqa: BLE001 - the build finds out which document it is
        if len(documents) == 1:
            return none
        each = [will_go(pipeline, split, one) for one in one_by_one(documents)]
        return np.concatenate(each)
    exact, near = shared_with(pipeline, bare, sentences)
    return exact | near


def choose(
    pipeline: Pipeline, split: str, documents: Documents, sentences: Ranges
) -> tuple[Documents, Ranges, list[SetAside], Counter[Reason]]:
    """Set aside the documents of a training split that folders of `source.leave_out` have.

    Args:
        pipeline: Names the folders.
        split: The split of the documents.
        documents: Documents with flat mentions.
        sentences: Their sentences.

    Returns:
        The other documents with their sentences, those set aside, and reason -> their mentions.

    Raises:
        ShardError: A shard of the folders is missing or damaged.
    """
    left_out = Counter[Reason]()
    if not pipeline.leave_out or split in KEPT_WHOLE:
        return documents, sentences, [], left_out

    exact, near = shared_with(pipeline, documents, sentences)
    mentions = np.diff(documents.mentions.offsets)
    aside = []
    for number in np.flatnonzero(exact | near).tolist():
        reason = EXACT if exact[number] else NEAR
        aside.append(SetAside(documents.ids[number], documents.places[number], reason))
        left_out[reason] += int(mentions[number])

    kept = np.flatnonzero(~(exact | near))
    return documents.take(kept), sentences.take(kept), aside, +left_out


def known(folders: tuple[str, ...]) -> list[_Known]:
    """Return what folders hold, by tokenizer; this process reads them once.

    Raises:
        ShardError: A shard of the folders is missing or damaged.
    """
    from mslm_data.shard.built_folder import load_splits

    if folders not in _LOADED:
        _LOADED.clear()
        of_tokenizers: dict[str, list[tuple[BuiltFolder, tuple[str, ...]]]] = {}
        for shards, splits in map(load_splits, folders):
            digest = shards.manifest.tokenizer["sha256"]
            of_tokenizers.setdefault(digest, []).append((shards, splits))
        _LOADED[folders] = [_read(opened) for opened in of_tokenizers.values()]
    return _LOADED[folders]


def _read(opened: Sequence[tuple[BuiltFolder, tuple[str, ...]]]) -> _Known:
    """Read folders of one tokenizer."""
    from mslm_data.stats.overlap import Fingerprints, NormalWords, words_of_rows

    first, _ = opened[0]
    tokenizer = load(str(first.tokenizer))
    words = NormalWords(tokenizer.core, first.manifest.token_ids)

    def rows() -> Iterator[Ragged]:
        for shards, splits in opened:
            for split in splits:
                for _, sentences in words_of_rows(shards[split], words):
                    yield sentences

    return _Known(WordTable(tokenizer), words, Fingerprints(rows()))
