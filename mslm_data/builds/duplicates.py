"""Finds copies of documents, which `source.duplicates` counts or removes.

An *exact* copy has the same words as another document. A word is a run of letters and digits; case
and placeholders are ignored. A *near* copy has a Jaccard similarity of at least
`source.duplicate_similarity` to another document, over their shingles, runs of 5 words. MinHash
(Broder 1997) estimates the similarity, and LSH finds candidates by bands of the signatures, so a
copy near the threshold may be missed or taken wrongly.

The first of several copies is kept: documents of `validation` and `test` come first, and all of
them are kept; others follow in the order of the corpus. Documents are compared only with kept
documents. So each removed document is a copy of a kept one, and a chain of small changes cannot
remove more. Documents that `source.decontaminate` removes are removed before, and nothing is a copy
of them.

A build signs each work unit in a task. Then one task matches all signatures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data._optional import load
from mslm_data.annotate.terms.texts import find_document_words
from mslm_data.builds.decontaminate import find_contaminated
from mslm_data.builds.tasks import Match, Sign, WorkUnit
from mslm_data.data.document import SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.ragged import Array, count_up, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.io.files import make_folder, read_sealed, write_sealed
from mslm_data.kernels.hashing import hash_ngrams, hash_rows
from mslm_data.kernels.near_copies import GOES, MAY_STAY, PASSED_OVER, STAYS, thin
from mslm_data.pipeline import KEPT_WHOLE, Pipeline
from mslm_data.shard.pieces import hash_ids

EXACT = Reason("the document has the same words as another document, which is kept", is_rule=True)
NEAR = Reason("the document is nearly a copy of another document, which is kept", is_rule=True)
"""Reasons for documents set aside."""
KINDS = ("", "exact", "near")
"""Kinds of documents, by their number in the file of a unit: no copy, exact, near."""

WORDS = 5
"""Number of words in a shingle."""
PLACES = 128
"""Number of minima in a signature. The standard deviation of the estimated similarity is 0.035 at a
similarity of 0.8."""
_SEED = 1
_CERTAIN = 0.99
"""Minimum probability that a pair exactly at the threshold shares a band, and so is compared."""


class Signatures(NamedTuple):
    """The signatures of D documents, with B bands.

    Attributes:
        ids: uint64 `[D]`, hash of the id.
        words: int64 `[D]`, number of words; 0 for documents that are not compared.
        exact: uint64 `[D]`, hash of all words.
        bands: uint64 `[D, B]`, hash of each band of the signature.
        places: uint8 `[D, 128]`, low byte of each minimum of the signature.
    """

    ids: npt.NDArray[np.uint64]
    words: npt.NDArray[np.int64]
    exact: npt.NDArray[np.uint64]
    bands: npt.NDArray[np.uint64]
    places: npt.NDArray[np.uint8]


# Signatures of documents --------------------------------------------------------------------------


def choose_bands(similarity: float) -> tuple[int, int]:
    """Return the number of bands, and the number of minima per band.

    Bands are as wide as possible while two documents of this similarity share a band with a
    probability of at least 0.99. Wider bands give fewer candidates.
    """
    for width in range(PLACES, 1, -1):
        bands = PLACES // width
        # A band is equal with probability similarity ** width, all minima of it being equal.
        if 1 - (1 - similarity**width) ** bands >= _CERTAIN:
            return bands, width
    return PLACES, 1


def sign(documents: Documents, similarity: float) -> Signatures:
    """Compute the signatures of documents.

    Args:
        documents: D documents.
        similarity: Minimum similarity of near copies; 1 for exact copies only, which need no
            package.

    Raises:
        MissingExtraError: The package rensa is missing.
    """
    words, offsets = _words(documents)
    num = len(documents)
    exact = np.empty(num, np.uint64)
    hash_rows(words, offsets, exact)

    bands = np.empty((num, 0), np.uint64)
    places = np.empty((num, 0), np.uint8)
    if similarity < 1:
        minima = _minima(words, offsets)
        num_bands, width = choose_bands(similarity)
        bands = np.empty((num, num_bands), np.uint64)
        cut = np.ascontiguousarray(minima[:, : num_bands * width])
        hash_rows(cut.reshape(-1), np.arange(num * num_bands + 1) * width, bands.reshape(-1))
        places = minima.astype(np.uint8)
    return Signatures(hash_ids(documents.ids), np.diff(offsets), exact, bands, places)


def write_signatures(task: Sign, records: Iterable[Any], pipeline: Pipeline, out: Path) -> None:
    """Write the signatures of a work unit's documents, in reading order."""
    similarity = pipeline.duplicate_similarity
    parts = [sign(Documents.from_documents([]), similarity)]
    for _, record in records:
        if isinstance(record, Documents):
            signed = sign(record, similarity)
            # With 0 words, nothing is a copy of a document that is removed anyway.
            is_contaminated = find_contaminated(pipeline, task.unit.split, record)
            parts.append(signed._replace(words=np.where(is_contaminated, 0, signed.words)))
    all_signed = Signatures(*map(np.concatenate, zip(*parts, strict=True)))
    file = np.empty(len(all_signed.ids), _records(similarity))
    for name in Signatures._fields:
        file[name] = getattr(all_signed, name)
    _write(_signatures(out, task.unit.name), file.tobytes())


def _words(documents: Documents) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return word hashes, uint64 `[W]`, and the word offsets of documents, int64 `[D + 1]`."""
    texts = find_document_words(documents)
    starts, ends = texts.words[:, 0].astype(np.int64), texts.words[:, 1].astype(np.int64)
    # Keep words inside a document: the texts are concatenated, so others cross two of them.
    owners = np.searchsorted(documents.starts, starts, side="right") - 1
    is_word = (owners >= 0) & (ends <= np.append(documents.ends, 0)[owners])
    is_word &= texts.are_letters()

    # Gather the characters of all words without gaps, because the kernel needs rows.
    lengths = (ends - starts)[is_word]
    bounds = make_offsets(lengths)
    places = count_up(starts[is_word], lengths)
    hashes = np.empty(len(lengths), np.uint64)
    hash_rows(texts.folded[places], bounds, hashes)
    return hashes, make_offsets(np.bincount(owners[is_word], minlength=len(documents)))


def _minima(words: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64]) -> Array:
    """Return the signatures, uint32 `[D, 128]`, from word hashes and offsets."""
    rensa = load("rensa", wanted_by="source.duplicates with near copies")
    shingle_offsets = make_offsets(np.maximum(np.diff(offsets) - WORDS + 1, 0))
    shingles = np.empty(shingle_offsets[-1], np.uint64)
    hash_ngrams(words, offsets, WORDS, shingles)

    digests = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, shingle_offsets.astype(np.uint64), num_perm=PLACES, seed=_SEED
    )
    return np.array(digests.to_rows(), np.uint32).reshape(-1, PLACES)


# Matching -----------------------------------------------------------------------------------------


def match(task: Match, pipeline: Pipeline, out: Path) -> None:
    """Find the copies among all documents, and write the kinds of documents of each work unit.

    It needs about 600 bytes per document: 1.2 GB and 5 seconds for two million.

    Args:
        task: The task, with the names of the units.
        pipeline: The pipeline, with `duplicate_similarity`.
        out: The unfinished folder, with all units signed.
    """
    # Splits with all documents kept come first; the sort is stable, so others keep their order.
    units = sorted(task.units, key=lambda unit: unit[0] not in KEPT_WHOLE)
    signed = [_signed(_signatures(out, name), pipeline.duplicate_similarity) for _, name in units]
    sizes = [len(unit.ids) for unit in signed]
    splits = {split: number for number, split in enumerate(dict.fromkeys(s for s, _ in units))}
    split_numbers = np.repeat([splits[split] for split, _ in units], sizes).astype(np.int64)
    stays = np.repeat([split in KEPT_WHOLE for split, _ in units], sizes)

    all_signed = Signatures(*map(np.concatenate, zip(*signed, strict=True)))
    del signed  # half of the memory
    kinds = find_copies(all_signed, split_numbers, stays, pipeline.duplicate_similarity)

    bounds = make_offsets(np.array(sizes, np.int64))
    for (_, name), start, stop in zip(units, bounds[:-1], bounds[1:], strict=True):
        _write(_copies(out, name), kinds[start:stop].tobytes())


def find_copies(
    signed: Signatures,
    splits: npt.NDArray[np.int64],
    stays: npt.NDArray[np.bool_],
    similarity: float,
) -> npt.NDArray[np.uint8]:
    """Return the kind of each document, uint8 `[D]`, as an index of `KINDS`.

    Args:
        signed: Signatures of D documents, documents to prefer first.
        splits: int64 `[D]`, split of each document. Ids are compared within a split.
        stays: bool `[D]`, whether a document is kept in any case.
        similarity: Minimum similarity of near copies; 1 for exact copies only.
    """
    has_words = signed.words > 0
    is_new = _is_first(np.stack([splits.astype(np.uint64), signed.ids], axis=1))
    kinds = np.zeros(len(is_new), np.uint8)

    # Exact copies: an earlier document has the same hash of words. A document with a duplicate id
    # is set aside for its id, so it is no original.
    originals = np.flatnonzero(is_new & has_words)
    hashes, firsts = np.unique(signed.exact[originals], return_index=True)
    if len(hashes):
        places = np.minimum(np.searchsorted(hashes, signed.exact), len(hashes) - 1)
        is_known = hashes[places] == signed.exact
        comes_later = originals[firsts[places]] < np.arange(len(kinds))
        kinds[has_words & is_known & comes_later] = KINDS.index("exact")

    # Near copies: the kernel compares the remaining documents with those it has kept so far.
    if similarity < 1:
        is_compared = (kinds == 0) & (signed.words >= WORDS)
        roles = np.where(is_new, np.where(stays, STAYS, MAY_STAY), GOES)
        roles[~is_compared] = PASSED_OVER
        kinds[_near(signed, roles.astype(np.uint8), similarity)] = KINDS.index("near")
    kinds[stays] = 0
    return kinds


def _near(
    signed: Signatures, roles: npt.NDArray[np.uint8], similarity: float
) -> npt.NDArray[np.bool_]:
    """Return whether each document is a near copy, bool `[D]`, given its role in the kernel."""
    num, num_bands = signed.bands.shape
    buckets = np.full((num, num_bands), -1, np.int32)
    max_buckets = 1
    for band in range(num_bands):
        # Number the buckets of a band that have several documents; -1 for a document alone.
        hashes = signed.bands[:, band]
        _, inverse, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
        numbers = np.where(sizes > 1, np.cumsum(sizes > 1) - 1, -1)
        buckets[:, band] = numbers[inverse]
        max_buckets = max(max_buckets, int(numbers.max(initial=-1)) + 1)

    # Low bytes of different minima are equal by chance with a probability of 1/256.
    share = similarity + (1 - similarity) / 256
    copies = np.empty(num, np.uint8)
    thin(
        signed.places,
        buckets,
        roles,
        int(np.ceil(share * PLACES)),
        np.full((num_bands, max_buckets), -1, np.int32),
        np.full((num, num_bands), -1, np.int32),
        np.full(num, -1, np.int32),
        copies,
    )
    return copies > 0


def _is_first(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return whether each row of `[D, N]` is the first of its kind, bool `[D]`."""
    order = np.lexsort(rows.T)
    in_order = rows[order]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    first = np.empty(len(rows), np.bool_)
    first[order] = is_new
    return first


# Work units ---------------------------------------------------------------------------------------


def is_matched(out: Path, units: Iterable[WorkUnit]) -> bool:
    """Return whether the copies among the documents of these units are known."""
    return all(read_sealed(_copies(out, unit.name)) is not None for unit in units)


def is_signed(out: Path, unit: WorkUnit) -> bool:
    """Return whether a unit has signatures."""
    return read_sealed(_signatures(out, unit.name)) is not None


class Copies:
    """The copies among the documents of a work unit, in reading order.

    `source.duplicates` is "count" or "drop".
    """

    def __init__(self, pipeline: Pipeline, out: Path, name: str) -> None:
        """Load the kinds of a unit's documents.

        Args:
            pipeline: The pipeline, with `source.duplicates`.
            out: The unfinished folder.
            name: Name of the work unit.
        """
        self._counted: dict[tuple[str, str], str] = {}
        """Id and place of a copy that is kept -> its kind."""
        self._drops = pipeline.duplicates == "drop"
        self._kinds = np.frombuffer(_read(_copies(out, name)), np.uint8)
        self._num_read = 0

    def choose(self, documents: Documents) -> tuple[Documents, list[SetAside]]:
        """Return the documents to keep, and the copies to set aside.

        Args:
            documents: The next documents of the unit.
        """
        kinds = self._kinds[self._num_read : self._num_read + len(documents)]
        self._num_read += len(documents)
        copies = [
            (documents.ids[number], documents.places[number], KINDS[kinds[number]])
            for number in np.flatnonzero(kinds).tolist()
        ]
        if not self._drops:
            self._counted |= {(doc_id, place): kind for doc_id, place, kind in copies}
            return documents, []

        aside = [
            SetAside(doc_id, place, EXACT if kind == "exact" else NEAR)
            for doc_id, place, kind in copies
        ]
        return documents.take(np.flatnonzero(kinds == 0)), aside

    def count(self, set_aside: Iterable[SetAside]) -> Counter[str]:
        """Return `exact` and `near` -> number of copies that are kept.

        Args:
            set_aside: Documents of the unit that are set aside for any reason. They do not count.
        """
        aside = {(document.id, document.place) for document in set_aside}
        return Counter(kind for copy, kind in self._counted.items() if copy not in aside)


def _signatures(out: Path, name: str) -> Path:
    return out / ".build" / "signatures" / f"{name}"


def _copies(out: Path, name: str) -> Path:
    return out / ".build" / "copies" / f"{name}"


def _records(similarity: float) -> np.dtype[np.void]:
    """Return the dtype of a document's signatures in a file."""
    bands, places = (choose_bands(similarity)[0], PLACES) if similarity < 1 else (0, 0)
    return np.dtype(
        [
            ("ids", "<u8"),
            ("words", "<i8"),
            ("exact", "<u8"),
            ("bands", "<u8", (bands,)),
            ("places", "u1", (places,)),
        ]
    )


def _write(path: Path, data: bytes) -> None:
    make_folder(path.parent)
    write_sealed(path, data)


def _read(path: Path) -> bytes:
    """Read a file written by `_write`.

    Raises:
        BuildError: The file is missing or damaged.
    """
    data = read_sealed(path)
    if data is None:
        raise BuildError(f"{path}: the file is missing or damaged; run the same command again")
    return data


def _signed(path: Path, similarity: float) -> Signatures:
    records = np.frombuffer(_read(path), _records(similarity))
    return Signatures(*(records[name] for name in Signatures._fields))
