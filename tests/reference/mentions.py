"""Slow twins of `mslm_data.metrics`: one row at a time, in lists, sets and exact fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

Mention = tuple[int, int, int]
"""First word, word after the last, label."""


def words_of(tags: Sequence[int], word_ids: Sequence[int]) -> list[int]:
    """Return each word's tag: that of its first sub-word."""
    found, last = [], -1
    for tag, word in zip(tags, word_ids, strict=True):
        if word >= 0 and word != last:
            found.append(tag)
        last = word
    return found


def mentions_of(tags: Sequence[int]) -> set[Mention]:
    """Return the mentions of a row of words."""
    found: list[list[int]] = []
    open_label = None
    for w, tag in enumerate(tags):
        label = None if tag == 0 else (tag - 1) // 2
        if label is not None and tag % 2 == 0 and label == open_label:
            found[-1][1] = w + 1
        elif label is not None:
            found.append([w, w + 1, label])
        open_label = label
    return {(start, stop, label) for start, stop, label in found}


def names_of(tags: Sequence[int], labels: Sequence[str]) -> list[str]:
    """Return tags as their names, as they are."""
    return [
        "O" if tag == 0 else f"{'B' if tag % 2 else 'I'}-{labels[(tag - 1) // 2]}" for tag in tags
    ]


def repaired(tags: Sequence[int], labels: Sequence[str]) -> list[str]:
    """Return the names of tags in IOB2, each I that cannot go on made B."""
    names = ["O"] * len(tags)
    for start, stop, label in mentions_of(tags):
        names[start:stop] = [f"B-{labels[label]}"] + [f"I-{labels[label]}"] * (stop - start - 1)
    return names


def scores(
    rows: Iterable[tuple[Sequence[int], Sequence[int]]], labels: Sequence[str]
) -> dict[str, Any]:
    """Return the scores of rows of words: gold and predicted tags."""
    gold, found = set(), set()
    for number, (true, predicted) in enumerate(rows):
        gold |= {(number, *mention) for mention in mentions_of(true)}
        found |= {(number, *mention) for mention in mentions_of(predicted)}
    hits = gold & found
    types = []
    for label in range(len(labels)):
        both = sum(mention[3] == label for mention in [*gold, *found])
        if both:
            types.append(Fraction(2 * sum(mention[3] == label for mention in hits), both))
    return {
        "hits": len(hits),
        "gold": len(gold),
        "predicted": len(found),
        "recall": float(Fraction(len(hits), len(gold))) if gold else 0.0,
        "precision": float(Fraction(len(hits), len(found))) if found else 0.0,
        "micro_f1": float(Fraction(2 * len(hits), len(gold) + len(found)))
        if gold or found
        else 0.0,
        "macro_f1": float(sum(types) / len(types)) if types else 0.0,
    }


def class_of(mention: tuple[str, str], train: Iterable[tuple[str, str]]) -> str:
    """Return the class of a gold mention, text and concept, by looking at all training mentions."""
    text, concept = mention
    for other, _ in train:
        if "".join(text.split()).casefold() == "".join(other.split()).casefold():
            return "memorised"
    for _, other in train:
        for one in concept.replace("+", "|").split("|"):
            if one and one in other.replace("+", "|").split("|"):
                return "synonym"
    return "new"


def by_class(
    rows: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]],
    classes: Sequence[Sequence[int]],
) -> list[tuple[int, int]]:
    """Return gold mentions and hits of each of three classes.

    Args:
        rows: Gold tags, predicted tags and words of sub-words.
        classes: Of each sub-word; that of a mention stands at its first word's first.
    """
    counts = [[0, 0] for _ in range(3)]
    for (gold, predicted, words), of_row in zip(rows, classes, strict=True):
        of_words = words_of(of_row, words)
        found = mentions_of(words_of(predicted, words))
        for mention in mentions_of(words_of(gold, words)):
            count = counts[of_words[mention[0]]]
            count[0] += 1
            count[1] += mention in found
    return [(gold, hits) for gold, hits in counts]


def released_exact_match(
    gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]], batch: int = 8
) -> float:
    """Return what the paper's released code calls exact match, of sub-words.

    Only the tags inside a gold mention are compared, so that a prediction may run on behind it and others are free;
    the mean over batches, those without a gold mention left out.
    """
    means = []
    for first in range(0, len(gold), batch):
        hits = []
        for true, found in zip(
            gold[first : first + batch], predicted[first : first + batch], strict=True
        ):
            hits += [
                list(true[start:stop]) == list(found[start:stop])
                for start, stop, _ in mentions_of(true)
            ]
        if hits:
            means.append(sum(hits) / len(hits))
    return sum(means) / len(means)
