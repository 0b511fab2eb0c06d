"""Tokenize a tagged corpus like `run_ner`, the token classification example of transformers.

`python -m benchmarks.script --train train.tsv --vocab vocab.txt --out aligned --cache cache`

This is the peer of `mslm-data build` in `benchmarks.build`: a generator of sentences,
`datasets.map` with a fast tokenizer, `is_split_into_words=True` and `word_ids()`, and
`save_to_disk`. `benchmarks.encode` times the function that it passes to `map`. The second and later
sub-words of a word get the I- tag, as with `label_all_tokens`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as List
from transformers import BertTokenizer


def main(arguments: Sequence[str] | None = None) -> int:
    """Tokenize the corpus, and save ids and labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True, help="File with a word, TAB and tag per line.")
    parser.add_argument("--vocab", required=True, help="A BERT vocabulary.")
    parser.add_argument("--out", required=True, help="Output folder.")
    parser.add_argument("--cache", required=True, help="Cache folder of datasets.")
    parser.add_argument("--workers", type=int, default=1, help="Processes of `map` (default: 1).")
    parser.add_argument("--lower", action="store_true", help="Lower-case all words.")
    options = parser.parse_args(arguments)

    names = label_names(options.train)
    features = Features(
        {"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=names))}
    )
    sentences = Dataset.from_generator(
        read_sentences,
        gen_kwargs={"path": options.train, "numbers": {name: i for i, name in enumerate(names)}},
        features=features,
        cache_dir=options.cache,
    )

    tokenizer = BertTokenizer(vocab=options.vocab, do_lower_case=options.lower)
    aligned = sentences.map(
        tokenize_and_align_labels,
        batched=True,
        fn_kwargs={"tokenizer": tokenizer, "continued": continued_labels(names)},
        num_proc=options.workers if options.workers > 1 else None,
        remove_columns=sentences.column_names,
    )
    aligned.save_to_disk(options.out)
    return 0


def tokenize_and_align_labels(
    examples: dict[str, list[Any]], tokenizer: Any, continued: Sequence[int]
) -> Any:
    """Tokenize a batch of words, and align tags: the function that `run_ner` passes to `map`.

    Args:
        examples: Columns `tokens` and `ner_tags`.
        tokenizer: A fast tokenizer.
        continued: Result of `continued_labels`.
    """
    tokenized = tokenizer(examples["tokens"], is_split_into_words=True)
    labels = []
    for i, label in enumerate(examples["ner_tags"]):
        previous = None
        label_ids = []
        for word in tokenized.word_ids(batch_index=i):
            if word is None:
                label_ids.append(-100)
            elif word != previous:
                label_ids.append(label[word])
            else:
                label_ids.append(continued[label[word]])
            previous = word
        labels.append(label_ids)
    tokenized["labels"] = labels
    return tokenized


def label_names(path: str | Path) -> list[str]:
    """Return the sorted tags of a file, with an I- tag for each B- tag. Their order is the ids."""
    with open(path, encoding="utf-8") as file:
        tags = {line.rstrip("\n").split("\t")[1] for line in file if line.strip()}
    return sorted(tags | {"I-" + tag[2:] for tag in tags if tag.startswith("B-")})


def read_sentences(path: str, numbers: dict[str, int]) -> Iterator[dict[str, list[Any]]]:
    """Yield words and tag ids of each sentence."""
    tokens: list[str] = []
    ner_tags: list[int] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                token, tag = line.rstrip("\n").split("\t")
                tokens.append(token)
                ner_tags.append(numbers[tag])
            elif tokens:
                yield {"tokens": tokens, "ner_tags": ner_tags}
                tokens = []
                ner_tags = []
    if tokens:
        yield {"tokens": tokens, "ner_tags": ner_tags}


def continued_labels(names: Sequence[str]) -> list[int]:
    """Return for each tag the id of later sub-words: I- for a B- tag, else the same tag."""
    return [names.index("I-" + name[2:] if name.startswith("B-") else name) for name in names]


if __name__ == "__main__":
    sys.exit(main())
