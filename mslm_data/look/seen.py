"""The terms of training text, to find rows with a mention that it never has."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.look.corpus import Corpus
from mslm_data.look.jobs import Progress
from mslm_data.shard.split import Split
from mslm_data.stats.corpus_counts import TRAINING, mention_hashes
from mslm_data.stats.overlap import NormalWords

_PATIENCE_S = 0.2


class SeenTerms:
    """The terms that training text has, as `stats.corpus_counts` tells them apart."""

    def __init__(self, hashes: npt.NDArray[np.uint64], words: NormalWords) -> None:
        """Keep them.

        Args:
            hashes: `[T]`, sorted.
            words: Makes terms of mentions.
        """
        self._hashes = hashes
        self._words = words
        self._lock = threading.Lock()

    def rows_with_others(self, examples: Examples) -> npt.NDArray[np.bool_]:
        """Return which rows have a mention whose term is not among them, `[N]`."""
        with self._lock:  # new words are added to a table
            found = mention_hashes(examples, self._words)
        places = np.searchsorted(self._hashes, found.hashes)
        is_seen = np.append(self._hashes, 0)[places] == found.hashes

        rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths)
        counts = np.bincount(rows[found.places[~is_seen]], minlength=len(examples))
        return counts > 0


def find_seen(corpus: Corpus) -> SeenTerms | None:
    """Return the terms of the training split; None while they are still being read.

    Where the folder has no training split, no term is seen.
    """
    job = corpus.jobs.get("seen", (), _reading(corpus), patience=_PATIENCE_S)
    seen: SeenTerms | None = job.result
    return seen


def _reading(corpus: Corpus) -> Callable[[Progress], SeenTerms]:
    """Return a function that reads the terms of the training split."""

    def read(progress: Progress) -> SeenTerms:
        split = corpus.shards.get(TRAINING)
        words = NormalWords(corpus.tokenizer, corpus.shards.manifest.token_ids)
        hashes = np.empty(0, np.uint64)
        if split is not None:
            own = Split(split.folder, split.name, split.manifest)
            done = 0
            for examples in own.chunks():
                progress(done, len(own))
                hashes = np.union1d(hashes, mention_hashes(examples, words).hashes)
                done += len(examples)
        return SeenTerms(hashes, words)

    return read
