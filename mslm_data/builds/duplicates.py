"""Finds documents that are copies of others, which `source.duplicates` counts or leaves out.

A copy is *exact* if it has the words of another document: runs of letters and digits in small
letters, placeholders left out. It is *near* if at least `source.duplicate_similarity` of the runs
of 5 words (shingles) that one of the two has stand in both (Jaccard's similarity). That share
is estimated by MinHash (Broder 1997), and candidates are found by bands of the signatures (LSH), so
a copy near the bound may be missed or taken.

Of documents that are copies of each other the first stays: first those of `validation` and `test`,
which keep all of theirs, then in the order of the corpus. A document is compared with those that
stay, so each one left out is a copy of one that stays, and no chain of small changes takes more.
Documents that `source.decontaminate` removes are removed first: no document is a copy of one.

A build signs its work units first, each by a task, then one task matches all signatures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data._optional import load
from mslm_data.annotate.terms.texts import find_text_words, taken_out
from mslm_data.builds.decontaminate import find_contaminated
from mslm_data.builds.tasks import Match, Sign, WorkUnit
from mslm_data.data.document import SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.ragged import Array, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.io.files import make_folder, read_sealed, write_sealed
from mslm_data.kernels.hashing import hash_ngrams, hash_rows
from mslm_data.kernels.near_copies import GOES, MAY_STAY, PASSED_OVER, STAYS, thin
from mslm_data.pipeline import KEPT_WHOLE, Pipeline
from mslm_data.shard.pieces import hash_ids

EXACT = Reason("expected a text of its own, got that of a document that stays", is_rule=True)
NEAR = Reason("expected a text of its own, got nearly that of a document that stays", is_rule=True)
"""Why documents are set aside."""
KINDS = ("", "exact", "near")
"""The number of each kind of document in the file of its unit: no copy, or one of these."""

WORDS = 5
"""Words of a shingle."""
PLACES = 128
"""Minima of a signature: their equal share is off by 0.035 (one standard deviation) at 0.8."""
_SEED = 1
_CERTAIN = 0.99
"""Least share of the copies just at the bound that share a band and so are compared at all."""


class Signatures(NamedTuple):
    """Identify the D documents of a work unit, and sum their words up.

    Attributes:
        ids: uint64 `[D]`, a hash of each id.
        words: int64 `[D]`, number of words; 0 for a document that is compared with none.
        exact: uint64 `[D]`, a hash of the words.
        bands: uint64 `[D, B]`, a hash of each band of the signature.
        places: uint8 `[D, 128]`, the signature, of each minimum the low byte.
    """

    ids: npt.NDArray[np.uint64]
    words: npt.NDArray[np.int64]
    exact: npt.NDArray[np.uint64]
    bands: npt.NDArray[np.uint64]
    places: npt.NDArray[np.uint8]


# The first pass: signatures -----------------------------------------------------------------------


def choose_bands(similarity: float) -> tuple[int, int]:
    """Return the number of bands, and the minima of each.

    Bands are as wide as can be while documents of this similarity share one with a chance of 0.99.
    """
    for width in range(PLACES, 1, -1):
        bands = PLACES // width
        if 1 - (1 - similarity**width) ** bands >= _CERTAIN:
            return bands, width
    return PLACES, 1


def sign(documents: Documents, similarity: float) -> Signatures:
    """Return the signatures of documents.

    Args:
        documents: D documents.
        similarity: That of near copies; 1 for exact copies alone, which need no package.

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
    """Sign a work unit's documents, in the order in which they are read."""
    similarity = pipeline.duplicate_similarity
    parts = [sign(Documents.from_documents([]), similarity)]
    for _, record in records:
        if isinstance(record, Documents):
            signed = sign(record, similarity)
            goes = find_contaminated(pipeline, task.unit.split, record)
            parts.append(signed._replace(words=np.where(goes, 0, signed.words)))
    together = Signatures(*map(np.concatenate, zip(*parts, strict=True)))
    file = np.empty(len(together.ids), _records(similarity))
    for name in Signatures._fields:
        file[name] = getattr(together, name)
    _write(_signatures(out, task.unit.name), file.tobytes())


def _words(documents: Documents) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return a hash of each word, uint64 `[W]`, and the words of each document, `[D + 1]`."""
    texts = find_text_words(documents.codes(), documents.starts, taken_out(documents))
    starts, ends = texts.words[:, 0].astype(np.int64), texts.words[:, 1].astype(np.int64)
    owners = np.searchsorted(documents.starts, starts, side="right") - 1
    is_word = (owners >= 0) & (ends <= np.append(documents.ends, 0)[owners])
    is_word &= texts.are_letters()

    # The characters of the words side by side, as the kernel wants them.
    lengths = (ends - starts)[is_word]
    bounds = make_offsets(lengths)
    places = np.arange(bounds[-1]) + np.repeat(starts[is_word] - bounds[:-1], lengths)
    hashes = np.empty(len(lengths), np.uint64)
    hash_rows(texts.folded[places], bounds, hashes)
    return hashes, make_offsets(np.bincount(owners[is_word], minlength=len(documents)))


def _minima(words: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64]) -> Array:
    """Return the signatures of documents, uint32 `[D, 128]`, of the hashes of their words."""
    rensa = load("rensa", wanted_by="source.duplicates with near copies")
    shingle_offsets = make_offsets(np.maximum(np.diff(offsets) - WORDS + 1, 0))
    shingles = np.empty(shingle_offsets[-1], np.uint64)
    hash_ngrams(words, offsets, WORDS, shingles)

    made = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, shingle_offsets.astype(np.uint64), num_perm=PLACES, seed=_SEED
    )
    return np.array(made.to_rows(), np.uint32).reshape(-1, PLACES)


# The second pass: which documents are copies ------------------------------------------------------


def match(task: Match, pipeline: Pipeline, out: Path) -> None:
    """Find the copies among all documents, and write which documents of each unit they are.

    It holds about 600 bytes a document: 1.2 GB for two million, which take 5 seconds.

    Args:
        task: Names the units.
        pipeline: Says how similar copies are.
        out: The unfinished folder, in which every unit is signed.
    """
    # Stable: in the order of the corpus, after the splits that keep theirs.
    units = sorted(task.units, key=lambda unit: unit[0] not in KEPT_WHOLE)
    signed = [_signed(_signatures(out, name), pipeline.duplicate_similarity) for _, name in units]
    sizes = [len(unit.ids) for unit in signed]
    splits = {split: number for number, split in enumerate(dict.fromkeys(s for s, _ in units))}
    of_splits = np.repeat([splits[split] for split, _ in units], sizes).astype(np.int64)
    stays = np.repeat([split in KEPT_WHOLE for split, _ in units], sizes)

    together = Signatures(*map(np.concatenate, zip(*signed, strict=True)))
    del signed
    kinds = find_copies(together, of_splits, stays, pipeline.duplicate_similarity)

    bounds = make_offsets(np.array(sizes, np.int64))
    for (_, name), start, stop in zip(units, bounds[:-1], bounds[1:], strict=True):
        _write(_copies(out, name), kinds[start:stop].tobytes())


def find_copies(
    signed: Signatures,
    splits: npt.NDArray[np.int64],
    stays: npt.NDArray[np.bool_],
    similarity: float,
) -> npt.NDArray[np.uint8]:
    """Return what each document is, `[D]`, as a place in `KINDS`.

    Args:
        signed: The documents' signatures, in the order in which they are preferred.
        splits: The split of each; ids are compared within one.
        stays: Whether each is one that stays in any case.
        similarity: That of near copies.
    """
    has_words = signed.words > 0
    is_new = _is_first(np.stack([splits.astype(np.uint64), signed.ids], axis=1))
    kinds = np.zeros(len(is_new), np.uint8)

    # A document whose id came before is set aside for that, so nothing is a copy of it.
    originals = np.flatnonzero(is_new & has_words)
    hashes, firsts = np.unique(signed.exact[originals], return_index=True)
    if len(hashes):
        places = np.minimum(np.searchsorted(hashes, signed.exact), len(hashes) - 1)
        is_known = hashes[places] == signed.exact
        comes_later = originals[firsts[places]] < np.arange(len(kinds))
        kinds[has_words & is_known & comes_later] = KINDS.index("exact")

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
    """Return which documents are near copies, `[D]`, by their roles as the kernel has them."""
    num, num_bands = signed.bands.shape
    buckets = np.full((num, num_bands), -1, np.int32)
    most = 1
    for band in range(num_bands):
        _, of, sizes = np.unique(signed.bands[:, band], return_inverse=True, return_counts=True)
        numbers = np.where(sizes > 1, np.cumsum(sizes > 1) - 1, -1)
        buckets[:, band] = numbers[of]
        most = max(most, int(numbers.max(initial=-1)) + 1)

    # The low bytes of two different minima are equal by chance once in 256.
    share = similarity + (1 - similarity) / 256
    copies = np.empty(num, np.uint8)
    thin(
        signed.places,
        buckets,
        roles,
        int(np.ceil(share * PLACES)),
        np.full((num_bands, most), -1, np.int32),
        np.full((num, num_bands), -1, np.int32),
        np.full(num, -1, np.int32),
        copies,
    )
    return copies > 0


def _is_first(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which rows, `[D, N]`, equal none before them."""
    order = np.lexsort(rows.T)
    in_order = rows[order]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    first = np.empty(len(rows), np.bool_)
    first[order] = is_new
    return first


# Work units ---------------------------------------------------------------------------------------


def is_matched(out: Path, units: Iterable[WorkUnit]) -> bool:
    """Return whether it is known which documents of these units are copies."""
    return all(read_sealed(_copies(out, unit.name)) is not None for unit in units)


def is_signed(out: Path, unit: WorkUnit) -> bool:
    """Return whether a unit has left its signatures."""
    return read_sealed(_signatures(out, unit.name)) is not None


class Copies:
    """The copies of one work unit, as it is read.

    Attributes:
        counts: `exact` and `near` -> documents that are copies and stay, where copies are counted.
    """

    def __init__(self, pipeline: Pipeline, out: Path, name: str) -> None:
        """Read which documents of a unit are copies.

        Args:
            pipeline: Says what becomes of them.
            out: The unfinished folder.
            name: The unit's name.
        """
        self.counts = Counter[str]()
        self._drops = pipeline.duplicates == "drop"
        self._kinds: npt.NDArray[np.uint8] | None = None
        self._num_read = 0
        if pipeline.duplicates != "keep":
            self._kinds = np.frombuffer(_read(_copies(out, name)), np.uint8)

    def choose(self, documents: Documents) -> tuple[Documents, list[SetAside]]:
        """Return the documents to keep, and the copies that are set aside.

        Args:
            documents: The next documents of the unit, as its parts have them.
        """
        if self._kinds is None:
            return documents, []

        kinds = self._kinds[self._num_read : self._num_read + len(documents)]
        self._num_read += len(documents)
        if not self._drops:
            counts = np.bincount(kinds, minlength=len(KINDS)).tolist()
            self.counts += Counter(dict(zip(KINDS[1:], counts[1:], strict=True)))
            return documents, []

        aside = [
            SetAside(
                documents.ids[number],
                documents.places[number],
                EXACT if KINDS[kinds[number]] == "exact" else NEAR,
            )
            for number in np.flatnonzero(kinds).tolist()
        ]
        return documents.take(np.flatnonzero(kinds == 0)), aside


def _signatures(out: Path, name: str) -> Path:
    return out / ".build" / "signatures" / f"{name}"


def _copies(out: Path, name: str) -> Path:
    return out / ".build" / "copies" / f"{name}"


def _records(similarity: float) -> np.dtype[np.void]:
    """Return the type of a document's signatures as a file of them has it."""
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
    """Return what `_write` wrote.

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
