"""Decides which documents are dropped: held-out texts, repeated ids and copies.

Each work unit hashes the ids and texts of its documents. `find_drops` compares the hashes of all
units, and gives each document a *kind*. In order, the kinds are:

1. *Held out*: the document shares text with a folder of `source.decontaminate`; see
   `decontaminate`. Only training documents are.
2. *Repeated id*: an earlier document of the split, in the same file, has the same id.
3. *Exact copy*: an earlier document has the same words. A word is a run of letters and digits; case
   and placeholders are ignored.
4. *Near copy*: a document has a Jaccard similarity of at least `source.duplicate_similarity` to an
   earlier one, over their shingles, runs of 5 words. MinHash (Broder 1997) estimates the
   similarity, and LSH finds candidates by bands of the signatures, so a copy near the threshold may
   be missed or taken wrongly.

A document is compared only with documents that are kept, so one is dropped only if it is a copy of
one that is kept. Documents of `validation` and `test` come first, and none of their copies is
dropped; others follow in the order of the corpus. Copies are looked for with `source.duplicates`
only.

`find_drops` also counts *equal texts*: sentences where the source has sentences, otherwise
documents.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data._optional import load
from mslm_data.annotate.terms.texts import find_document_words
from mslm_data.builds.decontaminate import HELD_EXACT, HELD_NEAR, find_contaminated
from mslm_data.builds.folder import Unfinished
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import FindDrops, Unit
from mslm_data.data.documents import Documents, hash_ids
from mslm_data.data.ragged import count_up, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.kernels.hashing import hash_ngrams, hash_ranges, hash_rows
from mslm_data.kernels.near_copies import MAY_STAY, PASSED_OVER, STAYS, thin
from mslm_data.log import LOGGER, TO_KEEP, plain
from mslm_data.pipeline import KEPT_WHOLE, Pipeline
from mslm_data.source.reading.records import NAME_THE_ID

Numbers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DUPLICATE_ID = Reason(
    "expected an id that no document before it has",
    advice=NAME_THE_ID
    | {"ids": "{set} source.ids=line if they are different documents with one id"},
)
EXACT = Reason("the document has the same words as another document, which is kept", is_rule=True)
NEAR = Reason("the document is nearly a copy of another document, which is kept", is_rule=True)

KINDS: tuple[Reason | None, ...] = (None, HELD_EXACT, HELD_NEAR, DUPLICATE_ID, EXACT, NEAR)
"""The reason of each kind of document; kind 0 is kept."""
COPIES = {KINDS.index(EXACT): "exact", KINDS.index(NEAR): "near"}
"""Kinds of copies, with their names in counts. They stay unless `source.duplicates` is "drop"."""
_ID = KINDS.index(DUPLICATE_ID)
_EXACT = KINDS.index(EXACT)
_NEAR = KINDS.index(NEAR)

WORDS = 5
"""Number of words in a shingle."""
PLACES = 128
"""Number of minima in a signature. The standard deviation of the estimated similarity is 0.035 at a
similarity of 0.8."""
_MOST = 0.5
"""A question is asked above this share of equal texts in a file or a split."""
_ENOUGH = 20
"""Minimum number of texts of a file or a split for the question."""
_TRIFLE = 0.01
"""Equal texts are reported above this share of a split."""
_SHOWN = 5
"""Maximum number of files and splits in the question."""
_SEED = 1
_CERTAIN = 0.99
"""Minimum probability that a pair exactly at the threshold shares a band, and so is compared."""


class Hashes(NamedTuple):
    """The hashes of D documents and their T texts, with B bands.

    `words`, `exact`, `bands` and `places` have no rows unless copies are looked for.

    Attributes:
        ids: uint64 `[D]`, hash of the id.
        kinds: uint8 `[D]`, kind of held-out documents, 0 for others.
        texts: uint64 `[T]`, hash of each sentence, or of a document without sentences.
        words: int64 `[D]`, number of words.
        exact: uint64 `[D]`, hash of all words.
        bands: uint64 `[D, B]`, hash of each band of the signature.
        places: uint8 `[D, 128]`, low byte of each minimum of the signature.
    """

    ids: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint8]
    texts: npt.NDArray[np.uint64]
    words: Numbers
    exact: npt.NDArray[np.uint64]
    bands: npt.NDArray[np.uint64]
    places: npt.NDArray[np.uint8]


# The hashes of a work unit ------------------------------------------------------------------------


def hash_documents(documents: Documents, pipeline: Pipeline, split: str) -> Hashes:
    """Hash documents, and find those that share text with held-out folders.

    Args:
        documents: D documents of a split.
        pipeline: The pipeline, with `source.decontaminate` and `source.duplicates`.
        split: Their split.

    Raises:
        ShardError: A shard of a held-out folder is missing or damaged.
        MissingExtraError: The package rensa is missing, and near copies are looked for.
    """
    ids = hash_ids(documents.ids)
    kinds = find_contaminated(pipeline, split, documents)
    texts = _hash_texts(documents)
    if not looks_for_copies(pipeline):
        no_words = np.empty(0, np.int64)
        no_hashes = np.empty(0, np.uint64)
        no_bands = np.empty((0, 0), np.uint64)
        no_places = np.empty((0, 0), np.uint8)
        return Hashes(ids, kinds, texts, no_words, no_hashes, no_bands, no_places)

    words, offsets = _words(documents)
    exact = np.empty(len(documents), np.uint64)
    hash_rows(words, offsets, exact)
    bands, places = sign(words, offsets, pipeline.source.duplicate_similarity)
    return Hashes(ids, kinds, texts, np.diff(offsets), exact, bands, places)


def looks_for_copies(pipeline: Pipeline) -> bool:
    """Return whether copies of documents are looked for, by their words."""
    return pipeline.source.duplicates in ("count", "drop")


def load_rensa() -> Any:
    """Load the package that finds near copies.

    Raises:
        MissingExtraError: It is missing.
    """
    advice = "exact copies need none: --set source.duplicate_similarity=1"
    return load("rensa", wanted_by=f"source.duplicates with near copies ({advice})")


def _hash_texts(documents: Documents) -> npt.NDArray[np.uint64]:
    """Hash each sentence of the source, and each document without sentences: uint64 `[T]`."""
    has_none = documents.sentences.counts == 0
    starts = np.concatenate([documents.sentences.starts, documents.starts[has_none]])
    ends = np.concatenate([documents.sentences.ends, documents.ends[has_none]])
    hashes = np.empty(len(starts), np.uint64)
    hash_ranges(documents.codes(), starts, ends, hashes)
    return hashes


def _words(documents: Documents) -> tuple[npt.NDArray[np.uint64], Numbers]:
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


def sign(
    words: npt.NDArray[np.uint64], offsets: Numbers, similarity: float
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Return the bands and the low bytes of the signatures of D documents.

    Args:
        words: uint64 `[W]`, hashes of words.
        offsets: int64 `[D + 1]`, offsets of the documents' words.
        similarity: Minimum similarity of near copies; 1 for exact copies only, which need no
            signatures and no package.

    Returns:
        uint64 `[D, B]` and uint8 `[D, 128]`, or without columns.

    Raises:
        MissingExtraError: The package rensa is missing.
    """
    num = len(offsets) - 1
    if similarity == 1:
        return np.empty((num, 0), np.uint64), np.empty((num, 0), np.uint8)

    rensa = load_rensa()
    shingle_offsets = make_offsets(np.maximum(np.diff(offsets) - WORDS + 1, 0))
    shingles = np.empty(shingle_offsets[-1], np.uint64)
    hash_ngrams(words, offsets, WORDS, shingles)
    digests = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, shingle_offsets.astype(np.uint64), num_perm=PLACES, seed=_SEED
    )
    minima = np.array(digests.to_rows(), np.uint32).reshape(-1, PLACES)

    num_bands, width = choose_bands(similarity)
    bands = np.empty((num, num_bands), np.uint64)
    cut = np.ascontiguousarray(minima[:, : num_bands * width])
    hash_rows(cut.reshape(-1), np.arange(num * num_bands + 1) * width, bands.reshape(-1))
    return bands, minima.astype(np.uint8)


class UnitHashes:
    """Collects the hashes of a work unit's documents, batch by batch."""

    def __init__(self, unit: Unit, pipeline: Pipeline) -> None:
        """Begin with no documents."""
        self._unit = unit
        self._pipeline = pipeline
        empty = Documents.from_documents([])
        self._batches = [hash_documents(empty, pipeline, unit.split)]

    def add(self, documents: Documents) -> None:
        """Hash the next documents of the unit."""
        self._batches.append(hash_documents(documents, self._pipeline, self._unit.split))

    def save(self, folder: Unfinished, per_part: Sequence[tuple[int, int]]) -> None:
        """Write the hashes into the unfinished folder.

        Args:
            folder: The folder.
            per_part: Number of documents and of texts of each part of the unit.
        """
        arrays = Hashes(*map(np.concatenate, zip(*self._batches, strict=True)))
        buffer = io.BytesIO()
        np.savez(
            buffer,
            per_part=np.array(per_part, np.int64).reshape(-1, 2),
            **arrays._asdict(),
        )
        folder.write_hashes(self._unit.name, buffer.getvalue())


def count_texts(documents: Documents) -> int:
    """Return the number of texts: sentences of the source, and documents without sentences."""
    counts = documents.sentences.counts
    return int(counts.sum() + (counts == 0).sum())


# All work units -----------------------------------------------------------------------------------


class SplitTexts(NamedTuple):
    """Equal texts of a split.

    Attributes:
        texts: Number of texts.
        within: Number of texts that an earlier text of the split equals.
        elsewhere: Number of texts that any other text of the corpus equals.
        also_in: Other split -> number of texts that are also there.
    """

    texts: int
    within: int
    elsewhere: int
    also_in: dict[str, int]

    def to_counts(self) -> dict[str, int]:
        """Return the numbers for the manifest: equal texts within the split, and in others."""
        within = {"within the split": self.within} if self.within else {}
        return within | {f"in {other}": texts for other, texts in self.also_in.items()}


class FileTexts(NamedTuple):
    """Number of texts of a file, and of those that any other text of the corpus equals."""

    path: str
    texts: int
    elsewhere: int


class Found(NamedTuple):
    """The documents to drop and the equal texts of a corpus, from the hashes of all work units.

    Attributes:
        kinds: Unit -> the kind of each document as a byte, for units with a kind other than 0.
        splits: Split -> its equal texts.
        files: Files with equal texts, most equal first.
    """

    kinds: dict[str, bytes]
    splits: dict[str, SplitTexts]
    files: list[FileTexts]


def find_drops(task: FindDrops, pipeline: Pipeline, folder: Unfinished) -> Found:
    """Find the kind of each document, and equal texts, from the hashes of all work units.

    The hashes of a unit are read several times, so that 16 bytes for each document or text are in
    memory. With near copies, it is about 600 bytes for each document.

    Args:
        task: The task, with all units in order.
        pipeline: The pipeline, with `source.duplicates`.
        folder: The unfinished folder, with the hashes of all units.

    Raises:
        BuildError: Documents of different files have the same id, or hashes are missing.
    """
    # Splits with all documents kept come first; the sort is stable, so others keep their order.
    in_order = sorted(task.units, key=lambda unit: unit.split not in KEPT_WHOLE)
    units = [UnitRecord(unit, folder) for unit in in_order]
    for split in dict.fromkeys(unit.split for unit in in_order):
        _mark_repeated_ids([record for record in units if record.unit.split == split])
    if looks_for_copies(pipeline):
        _mark_copies(units, pipeline.source.duplicate_similarity)

    kinds = {record.unit.name: record.kinds.tobytes() for record in units if record.kinds.any()}
    return Found(kinds, *_find_equal(units))


class UnitRecord:
    """The hashes of a work unit in the unfinished folder, which are read when they are asked for.

    Attributes:
        unit: The work unit.
        kinds: uint8 `[D]`, kind of each document.
        per_part: int64 `[P, 2]`, number of documents and of texts of each part.
    """

    def __init__(self, unit: Unit, folder: Unfinished) -> None:
        """Read the kinds of held-out documents."""
        self.unit = unit
        self._folder = folder
        arrays = self._arrays()
        self.kinds: npt.NDArray[np.uint8] = arrays["kinds"]
        self.per_part: Numbers = arrays["per_part"]

    def read(self, name: str) -> npt.NDArray[Any]:
        """Read an array of `Hashes`."""
        values: npt.NDArray[Any] = self._arrays()[name]
        return values

    def parts(self, column: int) -> Numbers:
        """Return the part of each document (column 0) or of each text (column 1)."""
        return np.repeat(np.arange(len(self.per_part)), self.per_part[:, column])

    def _arrays(self) -> Any:
        data = self._folder.read_hashes(self.unit.name)
        return np.load(io.BytesIO(data), allow_pickle=False)


def _mark_repeated_ids(units: Sequence[UnitRecord]) -> None:
    """Mark the documents of a split whose id an earlier document has.

    Raises:
        BuildError: Documents of different files have the same id. Within a file, all but the first
            are set aside. Between files this could silently lose a whole file.
    """
    repeated = _find_repeated(record.read("ids")[record.kinds == 0] for record in units)
    if not len(repeated):
        return

    first_path: dict[int, str] = {}
    clashes: Counter[tuple[str, str]] = Counter()
    for record in units:
        ids = record.read("ids")
        parts = record.parts(0)
        for number in np.flatnonzero((record.kinds == 0) & _are_in(repeated, ids)).tolist():
            path = record.unit.parts[parts[number]].path
            before = first_path.get(int(ids[number]))
            if before is None:
                first_path[int(ids[number])] = path
            elif before == path:
                record.kinds[number] = _ID
            else:
                clashes[path, before] += 1
    for (path, before), number in clashes.items():
        raise BuildError(
            f"{path}: {number:,} of its document ids are also in {before}; remove one of the files "
            "if they have the same documents, or build them separately"
        )


def _mark_copies(units: Sequence[UnitRecord], similarity: float) -> None:
    """Mark the documents that are exact or near copies of an earlier document that is kept.

    Args:
        units: The units, documents to prefer first.
        similarity: Minimum similarity of near copies; 1 for exact copies only.
    """
    kinds = np.concatenate([record.kinds for record in units])
    words = np.concatenate([record.read("words") for record in units])
    exact = np.concatenate([record.read("exact") for record in units])
    sizes = [len(record.kinds) for record in units]
    stays = np.repeat([record.unit.split in KEPT_WHOLE for record in units], sizes)

    # An exact copy has the words of an earlier document that is kept.
    originals = np.flatnonzero((kinds == 0) & (words > 0))
    order = originals[np.argsort(exact[originals], kind="stable")]
    is_exact = np.zeros(len(kinds), np.bool_)
    is_exact[order[1:]] = exact[order[1:]] == exact[order[:-1]]
    kinds[is_exact & ~stays] = _EXACT

    # The kernel compares the remaining documents with those that it has kept so far.
    if similarity < 1:
        bands = np.concatenate([record.read("bands") for record in units])
        places = np.concatenate([record.read("places") for record in units])
        roles = np.where(stays, STAYS, MAY_STAY)
        is_compared = (kinds == 0) & ~is_exact & (words >= WORDS)
        roles[~is_compared] = PASSED_OVER
        is_near = _find_near(bands, places, roles.astype(np.uint8), similarity)
        kinds[is_near & ~stays] = _NEAR

    for record, marked in zip(units, np.split(kinds, np.cumsum(sizes)[:-1]), strict=True):
        record.kinds = marked


def _find_repeated(hashes: Iterable[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Return the values that occur more than once, sorted and unique."""
    values = np.concatenate([np.empty(0, np.uint64), *hashes])
    values.sort()
    return np.unique(values[1:][values[1:] == values[:-1]])


def _are_in(known: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> Bools:
    """Return whether each hash is in a sorted array."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return known[places] == hashes  # type: ignore[no-any-return]


def _find_near(
    bands: npt.NDArray[np.uint64],
    places: npt.NDArray[np.uint8],
    roles: npt.NDArray[np.uint8],
    similarity: float,
) -> Bools:
    """Return whether each document is a near copy, bool `[D]`, given its role in the kernel."""
    num, num_bands = bands.shape
    buckets = np.full((num, num_bands), -1, np.int32)
    max_buckets = 1
    for band in range(num_bands):
        # Number the buckets of a band that have several documents; -1 for a document alone.
        _, inverse, sizes = np.unique(bands[:, band], return_inverse=True, return_counts=True)
        numbers = np.where(sizes > 1, np.cumsum(sizes > 1) - 1, -1)
        buckets[:, band] = numbers[inverse]
        max_buckets = max(max_buckets, int(numbers.max(initial=-1)) + 1)

    # Low bytes of different minima are equal by chance with a probability of 1/256.
    share = similarity + (1 - similarity) / 256
    copies = np.empty(num, np.uint8)
    thin(
        places,
        buckets,
        roles,
        int(np.ceil(share * PLACES)),
        np.full((num_bands, max_buckets), -1, np.int32),
        np.full((num, num_bands), -1, np.int32),
        np.full(num, -1, np.int32),
        copies,
    )
    return copies > 0


# Equal texts --------------------------------------------------------------------------------------


def _find_equal(units: Sequence[UnitRecord]) -> tuple[dict[str, SplitTexts], list[FileTexts]]:
    """Count the texts that another text of the corpus equals, by split and by file."""
    repeated = _find_repeated(record.read("texts") for record in units)
    names = [*dict.fromkeys(record.unit.split for record in units)]

    # How often each repeated text is in each split.
    counts = {name: np.zeros(len(repeated), np.int64) for name in names}
    totals: Counter[str] = Counter()
    all_texts: Counter[str] = Counter()
    equal_texts: Counter[str] = Counter()
    for record in units:
        texts = record.read("texts")
        is_equal = _are_in(repeated, texts)
        totals[record.unit.split] += len(texts)
        np.add.at(counts[record.unit.split], np.searchsorted(repeated, texts[is_equal]), 1)
        per_part = np.bincount(record.parts(1)[is_equal], minlength=len(record.per_part))
        for part, number, equal in zip(
            record.unit.parts, record.per_part[:, 1].tolist(), per_part.tolist(), strict=True
        ):
            all_texts[part.path] += number
            equal_texts[part.path] += equal

    splits = {}
    for name, mine in counts.items():
        also_in = {
            other: int(mine[theirs > 0].sum())
            for other, theirs in counts.items()
            if other != name and mine[theirs > 0].any()
        }
        within = int(mine.sum() - (mine > 0).sum())
        splits[name] = SplitTexts(totals[name], within, int(mine.sum()), also_in)
    files = [
        FileTexts(path, all_texts[path], equal) for path, equal in equal_texts.items() if equal
    ]
    return splits, sorted(files, key=lambda file: -file.elsewhere / file.texts)


def check_equal_texts(found: Found, inputs: Inputs) -> None:
    """Report the texts that are in the corpus twice; ask if they are most of a file or a split.

    Args:
        found: From `find_drops`.
        inputs: The input files, with the pipeline.

    Raises:
        BuildError: Most texts of a file or a split stand elsewhere too, and `source.duplicates`
            does not say what to do.
    """
    doubled = [
        f"{plain(inputs.name(Path(file.path)))}: {file.elsewhere:,} of {file.texts:,} texts"
        for file in found.files
        if _is_most(file.elsewhere, file.texts)
    ]
    for name, split in found.splits.items():
        for other, number in split.also_in.items():
            if number > _TRIFLE * split.texts:
                LOGGER.warning(
                    "%s: %s of %s texts are also in %s; `mslm-data overlap` lists them",
                    *(name, f"{number:,}", f"{split.texts:,}", other),
                    extra=TO_KEEP,
                )
        if split.within > _TRIFLE * split.texts:
            LOGGER.warning(
                "%s: %s of %s texts equal an earlier text of the split",
                *(name, f"{split.within:,}", f"{split.texts:,}"),
                extra=TO_KEEP,
            )
        if _is_most(split.elsewhere, split.texts):
            doubled.append(f"split '{name}': {split.elsewhere:,} of {split.texts:,} texts")

    if doubled and inputs.pipeline.source.duplicates == "ask":
        shown = "\n".join(f"  {line}" for line in doubled[:_SHOWN])
        more = f"\n  and {len(doubled) - _SHOWN} more" if len(doubled) > _SHOWN else ""
        raise BuildError(
            f"pipeline '{inputs.pipeline.name}': most texts of these stand elsewhere in the corpus "
            f"too:\n{shown}{more}\nleave out a copy, as with [source] splits; or accept them with "
            "--set source.duplicates=keep, or drop them from training splits with "
            "--set source.duplicates=drop"
        )


def _is_most(equal: int, texts: int) -> bool:
    return texts >= _ENOUGH and equal > _MOST * texts
