"""Terms of the training split, to find rows with a mention that training lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.look.background import Progress
from mslm_data.look.corpus import Corpus
from mslm_data.look.reading import read_chunks, rows_with
from mslm_data.shard.split import Split
from mslm_data.stats.corpus_counts import TRAINING, TermCharacters, term_hashes


class SeenTerms:
    """Terms of the training split: texts of mentions without case and white space."""

    def __init__(self, hashes: npt.NDArray[np.uint64], characters: TermCharacters) -> None:
        """Keep the terms.

        Args:
            hashes: `[T]`, sorted.
            characters: Made the hashes.
        """
        self._hashes = hashes
        self._characters = characters
        self._lock = threading.Lock()

    def rows_with_others(self, examples: Examples) -> npt.NDArray[np.bool_]:
        """Return which rows have a mention of any other term, `[N]`."""
        # `TermCharacters` adds new words to its table.
        with self._lock:
            hashes = term_hashes(examples, self._characters)
        places = np.searchsorted(self._hashes, hashes)
        is_seen = np.append(self._hashes, 0)[places] == hashes
        return rows_with(examples.span_starts, ~is_seen)


def find_seen(corpus: Corpus) -> SeenTerms | None:
    """Return the terms of the training split, none without such a split.

    Returns:
        None while they are being read.
    """
    job = corpus.background.get("seen", (), _reading(corpus))
    seen: SeenTerms | None = job.result
    return seen


def _reading(corpus: Corpus) -> Callable[[Progress], SeenTerms]:
    """Return a job that reads the terms of the training split."""

    def read(progress: Progress) -> SeenTerms:
        characters = TermCharacters(corpus.tokenizer, corpus.shards.manifest.token_ids)
        hashes = np.empty(0, np.uint64)
        if TRAINING in corpus.shards:
            hashes = read_terms(corpus.shards[TRAINING], characters, progress)
        return SeenTerms(hashes, characters)

    return read


def read_terms(
    split: Split, characters: TermCharacters, progress: Progress
) -> npt.NDArray[np.uint64]:
    """Return the hashes of a split's terms, sorted.

    Args:
        split: The split.
        characters: Makes the hashes.
        progress: Called with the number of rows read and the number to read.
    """
    hashes = np.empty(0, np.uint64)
    for start, examples in read_chunks(split):
        progress(start, len(split))
        hashes = np.union1d(hashes, term_hashes(examples, characters))
    return hashes
