"""Build shard folders for other benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.inputs import Inputs, Sentence, longer, read, write
from mslm_data import pipeline
from mslm_data.api.loading import Shards, load
from mslm_data.builds import build, find
from mslm_data.encode import tokenizer as tokenizers


def sentences(inputs: Inputs, scratch: Path, *, copies: int) -> Shards:
    """Build a folder of sentences.

    Args:
        inputs: Corpus and vocabulary.
        scratch: Folder to build in.
        copies: Number of copies of each sentence. Copies are in different documents and so have
            different keys.
    """
    return build_sentences(
        "sentences", read(inputs.train), inputs, scratch, copies=copies, max_tokens=512
    )


def long_rows(inputs: Inputs, scratch: Path, *, copies: int) -> Shards:
    """Build a folder of joined sentences, cut into rows of at most 128 tokens, most about 128."""
    return build_sentences(
        "long", longer(read(inputs.train), 400), inputs, scratch, copies=copies, max_tokens=128
    )


def build_sentences(
    name: str,
    corpus: list[Sentence],
    inputs: Inputs,
    scratch: Path,
    *,
    copies: int,
    max_tokens: int,
) -> Shards:
    """Build the folder `NAME.built`.

    Args:
        name: Name of the corpus.
        corpus: Sentences.
        inputs: Provides the vocabulary.
        scratch: Folder to build in.
        copies: Number of copies of each sentence.
        max_tokens: Maximum number of tokens of a row.
    """
    (scratch / name).mkdir()
    for number in range(copies):
        write(scratch / name / f"train-{number}.tsv", corpus)

    tables = {
        "source": {"use": "conll", "duplicates": "keep"},
        "encode": {"max_tokens": max_tokens},
    }
    out = scratch / f"{name}.built"
    build(
        find(pipeline.read({"name": name, **tables}), [scratch / name]),
        tokenizers.load_tokenizer(str(inputs.vocab)),
        out,
        workers=1,
    )
    return load(out)


def usual_table(shards: Shards, scratch: Path) -> Any:
    """Store the first rows like transformers' `run_mlm` example, and load them from disk."""
    import datasets

    ids = shards["train"].examples(0, min(20_000, len(shards["train"]))).input_ids.tolist()
    datasets.Dataset.from_list([tokenizer_columns(row) for row in ids]).save_to_disk(
        str(scratch / "usual")
    )
    return datasets.load_from_disk(str(scratch / "usual"))


def tokenizer_columns(ids: list[int]) -> dict[str, list[int]]:
    """Return the columns of a tokenizer called with `return_special_tokens_mask=True`."""
    return {
        "input_ids": ids,
        "token_type_ids": [0] * len(ids),
        "attention_mask": [1] * len(ids),
        "special_tokens_mask": [1, *[0] * (len(ids) - 2), 1],
    }
