"""The corpus without masks: labels, mentions, terms, data loss and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.builds.losses import Losses, count_losses
from mslm_data.data.examples import Examples
from mslm_data.draw.charts import Histogram, histogram
from mslm_data.look.background import Job, Progress
from mslm_data.look.corpus import Corpus
from mslm_data.look.gold import Alignment, GoldFolder
from mslm_data.look.reading import read_chunks, read_column
from mslm_data.look.seen import read_terms
from mslm_data.look.state import State
from mslm_data.look.term_shares import TermShares, count_term_shares
from mslm_data.metrics import CLASSES, MEMORISED, NEW, Matches, RecallOfUnseen
from mslm_data.stats.corpus_counts import (
    TOP,
    TRAINING,
    SplitCounts,
    TermCharacters,
    TermCount,
    TermCounts,
    count_corpus,
    term_hashes,
    term_texts,
)
from mslm_data.stats.overlap import WORDS, NormalWords, Overlap, overlap

TITLE = "Corpus"
TEMPLATE = "corpus_view.html"

MANY_ROWS = 1_000_000
"""Maximum number of rows of a folder that is counted without a sample first.

Of larger folders, a file shows the sample; the live page goes on to count all rows.
"""
_SAMPLE = 50_000
"""Number of rows sampled in each split on the live page."""
_LARGEST_CARD = 1 << 18
_SHARE_BINS = 20


class TermRow(NamedTuple):
    """A row of a table of terms."""

    text: str
    label: str
    mentions: int


class GoldTerms(NamedTuple):
    """The terms of a split that differ most often from gold, and the recall of gold mentions.

    Attributes:
        missed: Terms of gold mentions that were not found.
        wrong: Terms of mentions that gold does not have.
        recall: `memorised` and `new`, see `RecallOfUnseen.result`; empty for the training
            split, or if gold has none.
    """

    missed: tuple[TermCount, ...]
    wrong: tuple[TermCount, ...]
    recall: Mapping[str, Any]


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts of all splits."""
    background = corpus.background
    is_large = sum(map(len, corpus.shards.values())) > MANY_ROWS

    # A large folder is sampled first. The live page counts all rows while it shows the sample.
    job = shown = None
    if is_large:
        max_rows = _SAMPLE if background.live else MANY_ROWS
        job = shown = background.get("corpus-sample", (), _counting(corpus, max_rows))
    if shown is None or (background.live and shown.result is not None):
        job = background.get("corpus", (), _counting(corpus, None))
        if shown is None or job.result is not None:
            shown = job

    counts: Mapping[str, SplitCounts] | None = shown.result
    terms: TermShares | None = count_term_shares(corpus, state).result
    return {
        "job": job,
        "counts": counts,
        "tops": _tops(corpus, state.split, counts) if counts and corpus.shows_text else [],
        "density": None if terms is None else _draw_shares(terms, state),
        "gold": _gold(corpus, state.split),
        "losses": _losses(corpus),
        "training": TRAINING,
        **_overlaps(corpus, is_large=is_large),
        "words": WORDS,
        "card": _card(corpus.shards.place),
    }


def _counting(corpus: Corpus, max_rows: int | None) -> Callable[[Progress], dict[str, SplitCounts]]:
    """Return a job that counts all rows of each split, or a sample."""

    def count(progress: Progress) -> dict[str, SplitCounts]:
        characters = TermCharacters(corpus.tokenizer, corpus.shards.manifest.token_ids)
        return count_corpus(dict(corpus.shards), characters, max_rows=max_rows, progress=progress)

    return count


def _draw_shares(terms: TermShares, state: State) -> Histogram:
    """Return the histogram of documents by term share."""
    counts, _ = np.histogram(terms.shares, _SHARE_BINS, (0, 1))
    last = max(np.flatnonzero(counts).tolist(), default=0) + 1
    of = f"mentions of {state.label}" if state.label else "mentions"
    return histogram(
        [f"{k / _SHARE_BINS:.0%}" for k in range(last)],
        counts[:last].tolist(),
        title=f"Share of a document's tokens in {of}",
        caption=f"documents of {state.split}",
        x="share of the tokens, from",
        mean=float(terms.shares.mean()) * _SHARE_BINS - 0.5 if len(terms.shares) else None,
    )


def _tops(
    corpus: Corpus, split: str, counts: Mapping[str, SplitCounts]
) -> list[tuple[str, list[TermRow]]]:
    """Return the title and rows of each table: the most frequent terms, and the unseen ones."""
    tops = [(f"Most frequent in {split}", _term_rows(corpus, split, counts[split].top))]
    tops += [
        (
            f"In {name}, never seen in {TRAINING}",
            _term_rows(corpus, name, split_counts.unseen.top),
        )
        for name, split_counts in counts.items()
        if split_counts.unseen
    ]
    return [(title, terms) for title, terms in tops if terms]


def _term_rows(corpus: Corpus, split: str, terms: Sequence[TermCount]) -> list[TermRow]:
    """Return the rows of a table of terms."""
    texts = term_texts(corpus.shards[split], terms, corpus.tokenizer)
    return [
        TermRow(text, term.label + " and others" * term.is_ambiguous, term.mentions)
        for text, term in zip(texts, terms, strict=True)
    ]


def _gold(corpus: Corpus, split: str) -> dict[str, Any] | None:
    """Return the tables of missed and wrong terms; None without a gold folder."""
    if corpus.gold is None:
        return None
    alignment = corpus.align_gold(split) if corpus.shows_text else None
    result = {"is_aligned": alignment is not None, "rows": 0, "tops": [], "recall": {}, "job": None}
    if alignment is None:
        return result

    counting = _counting_gold(corpus, corpus.gold, split, alignment)
    job = corpus.background.get("gold-terms", split, counting)
    terms: GoldTerms | None = job.result
    if terms is None:
        return result | {"job": job}

    tops = [
        (f"Most often missed in {split}", _term_rows(corpus, split, terms.missed)),
        (f"Most often wrong in {split}", _term_rows(corpus, split, terms.wrong)),
    ]
    return result | {
        "rows": alignment.rows,
        "tops": [(title, rows) for title, rows in tops if rows],
        "recall": terms.recall,
    }


def _counting_gold(
    corpus: Corpus, gold: GoldFolder, split_name: str, alignment: Alignment
) -> Callable[[Progress], GoldTerms]:
    """Return a job that counts missed and wrong mentions by term, and the recall of new ones."""

    def count(progress: Progress) -> GoldTerms:
        characters = TermCharacters(corpus.tokenizer, corpus.shards.manifest.token_ids)
        split = corpus.shards[split_name]
        known = np.empty(0, np.uint64)
        if split_name != TRAINING and TRAINING in gold.shards:
            train = gold.shards[TRAINING]
            known = read_terms(train, characters, lambda *_: progress(0, len(split)))

        # Rows of documents that gold trains on would all be memorised.
        is_trained = alignment.rows_of_gold_split(TRAINING)
        missed, wrong = TermCounts(), TermCounts()
        recall = RecallOfUnseen()
        for start, examples in read_chunks(split):
            progress(start, len(split))
            comparison = alignment.compare(examples, slice(start, start + len(examples)))

            # Gold mentions stand in the rows of this split, so their text is decoded from it.
            terms = term_hashes(comparison.gold, characters)
            mentions = _stack_mentions(comparison.gold)
            own_mentions = _stack_mentions(examples)
            first = np.array([start, 0, 0, 0])
            is_missed = ~comparison.is_found
            missed.add(terms[is_missed], mentions[is_missed] + first)
            is_wrong = comparison.is_wrong
            wrong.add(term_hashes(examples, characters)[is_wrong], own_mentions[is_wrong] + first)

            if len(known):
                is_tested = comparison.is_compared & ~is_trained[start : start + len(examples)]
                is_gold = is_tested[mentions[:, 0]]
                matches = Matches(
                    _of_rows(mentions, is_tested),
                    _of_rows(own_mentions[comparison.is_known], is_tested),
                    comparison.is_found[is_gold],
                )
                classes = np.where(np.isin(terms[is_gold], known), MEMORISED, NEW)
                rows = start + np.flatnonzero(is_tested)
                recall.add(matches, classes, read_column(split, "doc_id", rows))

        result = recall.result()
        has_gold = any(result[CLASSES[kind]]["gold"] for kind in (MEMORISED, NEW))
        return GoldTerms(
            missed.top(TOP, gold.labels),
            wrong.top(TOP, split.labels),
            result if has_gold else {},
        )

    return count


def _of_rows(
    mentions: npt.NDArray[np.int64], is_chosen: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the mentions of the chosen rows, with numbers among these rows, `[S, 4]`."""
    chosen = mentions[is_chosen[mentions[:, 0]]]
    chosen[:, 0] = (np.cumsum(is_chosen) - 1)[chosen[:, 0]]
    return chosen


def _stack_mentions(examples: Examples) -> npt.NDArray[np.int64]:
    """Return row, start, end and label of each mention of some rows, `[S, 4]`."""
    columns = (
        np.repeat(np.arange(len(examples)), examples.span_starts.lengths),
        examples.span_starts.values,
        examples.span_ends.values,
        examples.span_labels.values,
    )
    return np.stack(columns, axis=1).astype(np.int64)


def _losses(corpus: Corpus) -> dict[str, Losses]:
    """Return the data loss of the build by reason; without documents for a remote folder."""
    records = corpus.shards.manifest.splits
    place = corpus.shards.place
    file = place / "set_aside.jsonl" if isinstance(place, Path) else None
    if file is None or not file.is_file():
        return count_losses(records, ())

    def count(_: Progress) -> dict[str, Losses]:
        with file.open("rb") as lines:
            return count_losses(records, lines)

    job = corpus.background.get("losses", (), count)
    losses: dict[str, Losses] | None = job.result
    return count_losses(records, ()) if losses is None else losses


def _overlaps(corpus: Corpus, *, is_large: bool) -> dict[str, Any]:
    """Return the overlap of each other split with the training split."""
    others = [name for name in corpus.shards if name != TRAINING]
    if is_large or not others or TRAINING not in corpus.shards:
        return {"overlap_job": None, "overlaps": {}, "overlap_left": is_large}

    def count(progress: Progress) -> dict[str, Overlap]:
        training = corpus.shards[TRAINING]
        words = NormalWords(corpus.tokenizer, corpus.shards.manifest.token_ids)
        overlaps = {}
        for number, name in enumerate(others):

            def step(done: int, whole: int, number: int = number) -> None:
                progress(number * whole + done, len(others) * whole)

            overlaps[name], _ = overlap(corpus.shards[name], training, words, words, progress=step)
        return overlaps

    job: Job = corpus.background.get("overlap", (), count)
    return {"overlap_job": job, "overlaps": job.result or {}, "overlap_left": False}


def _card(place: object) -> str:
    """Return the dataset card without its metadata; "" without a local card."""
    file = place / "README.md" if isinstance(place, Path) else None
    if file is None or not file.is_file() or file.stat().st_size > _LARGEST_CARD:
        return ""
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.startswith("---\n"):
        text = text.partition("\n---\n")[2]
    return text.strip()
