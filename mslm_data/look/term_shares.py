"""Term shares of the documents of a split, to find rows by them and to draw their distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.term_share import term_shares
from mslm_data.look.background import Job, Progress
from mslm_data.look.corpus import Corpus
from mslm_data.look.reading import read_chunks
from mslm_data.look.state import State
from mslm_data.shard.split import Split
from mslm_data.shard.subset import hash_documents


class TermShares(NamedTuple):
    """The term share of each document: the share of its tokens that are in mentions.

    Attributes:
        shares: float64 `[D]`.
        documents: int64 `[N]`, the document of each row.
    """

    shares: npt.NDArray[np.float64]
    documents: npt.NDArray[np.int64]


def count_term_shares(corpus: Corpus, state: State) -> Job:
    """Count the term shares of a split in the background; only mentions of `state.label` if set."""
    split = corpus.shards[state.split]
    key = state.split, state.label
    return corpus.background.get("term-shares", key, _counting(split, state.label))


def _counting(split: Split, label: str) -> Callable[[Progress], TermShares]:
    """Return a job that counts the shares."""

    def count(progress: Progress) -> TermShares:
        def chunks() -> Iterator[Examples]:
            for start, examples in read_chunks(split):
                progress(start, len(split))
                yield examples

        _, documents = hash_documents(split)
        number = split.labels.index(label) if label else None
        return TermShares(term_shares(chunks(), documents, label=number), documents)

    return count
