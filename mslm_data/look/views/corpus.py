"""The corpus without masks: lengths, labels, mentions, terms, data loss and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.builds.losses import Losses, count_losses
from mslm_data.data.examples import Examples
from mslm_data.draw.charts import Histogram, cut_tail, histogram, name_bins
from mslm_data.look.corpus import Corpus
from mslm_data.look.gold import Alignment, GoldFolder
from mslm_data.look.jobs import Job, Progress
from mslm_data.look.reading import read_chunks, read_column
from mslm_data.look.seen import read_terms
from mslm_data.look.state import State
from mslm_data.metrics import CLASSES, MEMORISED, NEW, Matches, RecallOfUnseen
from mslm_data.stats.corpus_counts import (
    LONGEST_MENTION,
    MAX_MENTIONS,
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
_BINS = 24
_LARGEST_CARD = 1 << 18
_PATIENCE_S = 0.3


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


class Pair(NamedTuple):
    """The overlap of a split with the training split."""

    name: str
    overlap: Overlap


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts of all splits, and charts of the chosen split."""
    splits = dict(corpus.shards)
    is_large = sum(map(len, splits.values())) > MANY_ROWS
    is_live = corpus.jobs.in_background

    # A large folder is sampled first. The live page counts all rows meanwhile.
    shown = job = None
    if not is_large or is_live:
        job = corpus.jobs.get("corpus", (), _counting(corpus, None), patience=_PATIENCE_S)
        shown = job
    if is_large and (job is None or not job.is_ready):
        max_rows = _SAMPLE if is_live else MANY_ROWS
        shown = corpus.jobs.get(
            "corpus-sample", (), _counting(corpus, max_rows), patience=_PATIENCE_S
        )

    counts: Mapping[str, SplitCounts] | None = shown.result if shown else None
    return {
        "job": job,
        "counts": counts,
        "charts": _charts(counts[state.split]) if counts else [],
        "tops": _tops(corpus, state.split, counts) if counts and corpus.shows_text else [],
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


def _charts(counts: SplitCounts) -> list[Histogram]:
    """Return the histograms of a split."""
    by_words = [
        sum(label_counts)
        for label_counts in zip(*(label.by_words for label in counts.labels.values()), strict=True)
    ]
    return [
        _lengths(counts),
        _chart("Mentions in a row", "rows", counts.mentions_per_row, 0, MAX_MENTIONS),
        _chart("Words in a mention", "mentions", by_words[1:], 1, LONGEST_MENTION),
    ]


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
    job = corpus.jobs.get("gold-terms", split, counting, patience=_PATIENCE_S)
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
        is_trained = alignment.is_in(TRAINING)
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


def _lengths(counts: SplitCounts) -> Histogram:
    """Return the histogram of row lengths, in bins of equal width."""
    lengths = cut_tail(counts.row_lengths)
    # The last entry of `lengths` also counts longer rows, and so does the last bin.
    width = next(
        size
        for unit in (10**power for power in range(9))
        for size in (unit, 2 * unit, 5 * unit)
        if size * _BINS >= len(lengths)
    )
    values = [sum(lengths[first : first + width]) for first in range(0, len(lengths), width)]
    mean = counts.tokens / counts.rows if counts.rows else None
    return histogram(
        name_bins(0, len(values), width=width, open_end=len(lengths) < len(counts.row_lengths)),
        values,
        title="Tokens in a row",
        caption="rows; the line is the average",
        x=f"tokens, special ones included, in steps of {width}",
        mean=None if mean is None else mean / width - 0.5,
    )


def _chart(
    title: str, unit: str, values: tuple[int, ...] | list[int], first: int, last: int
) -> Histogram:
    """Return a histogram of counts by size; entry `last`, if present, also counts larger sizes."""
    bins = cut_tail(values)
    is_open = len(bins) < len(values) or first + len(values) > last
    return histogram(
        name_bins(first, len(bins), open_end=is_open),
        bins,
        title=title,
        caption=unit,
        x=title.lower(),
    )


def _losses(corpus: Corpus) -> dict[str, Losses]:
    """Return the data loss of the build by reason; without documents for a remote folder."""
    records = corpus.shards.manifest.splits
    place = corpus.shards.place
    file = place / "set_aside.jsonl" if isinstance(place, Path) else None
    if file is None or not file.is_file():
        return count_losses(records, ())

    def count(progress: Progress) -> dict[str, Losses]:
        size = file.stat().st_size
        done = 0

        def lines() -> Any:
            nonlocal done
            with file.open("rb") as opened:
                for line in opened:
                    done += len(line)
                    progress(done, size)
                    yield line

        return count_losses(records, lines())

    job = corpus.jobs.get("losses", (), count, patience=_PATIENCE_S)
    losses: dict[str, Losses] | None = job.result
    return count_losses(records, ()) if losses is None else losses


def _overlaps(corpus: Corpus, *, is_large: bool) -> dict[str, Any]:
    """Return the overlap of each other split with the training split."""
    others = [name for name in corpus.shards if name != TRAINING]
    if is_large or not others or TRAINING not in corpus.shards:
        return {"overlap_job": None, "overlaps": [], "overlap_left": is_large}

    def count(progress: Progress) -> list[Pair]:
        training = corpus.shards[TRAINING]
        words = NormalWords(corpus.tokenizer, corpus.shards.manifest.token_ids)
        pairs = []
        for number, name in enumerate(others):

            def step(done: int, whole: int, number: int = number) -> None:
                progress(number * whole + done, len(others) * whole)

            shared, _ = overlap(corpus.shards[name], training, words, words, progress=step)
            pairs.append(Pair(name, shared))
        return pairs

    job: Job = corpus.jobs.get("overlap", (), count, patience=_PATIENCE_S)
    return {"overlap_job": job, "overlaps": job.result or [], "overlap_left": False}


def _card(place: object) -> str:
    """Return the dataset card without its metadata; "" without a local card."""
    file = place / "README.md" if isinstance(place, Path) else None
    if file is None or not file.is_file() or file.stat().st_size > _LARGEST_CARD:
        return ""
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.startswith("---\n"):
        text = text.partition("\n---\n")[2]
    return text.strip()
