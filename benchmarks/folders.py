"""Build shard folders for other benchmarks."""

from __future__ import annotations

from pathlib import Path

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
