"""Build the folders that batches are read from."""

from __future__ import annotations

from pathlib import Path

from benchmarks.inputs import Inputs, Sentence, longer, read, write
from mslm_data.builds import build
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.loading import Shards, load
from mslm_data.pipeline import of_tables


def sentences(inputs: Inputs, scratch: Path, *, copies: int) -> Shards:
    """Build a folder of sentences.

    Args:
        inputs: The corpus.
        scratch: The folder to build in.
        copies: How often each sentence comes. Copies are in documents of different names, so that
            their keys differ.
    """
    return _built("sentences", read(inputs.train), inputs, scratch, copies=copies, max_tokens=512)


def long_rows(inputs: Inputs, scratch: Path, *, copies: int) -> Shards:
    """Build a folder of rows of about 128 tokens, and of at most 128, from joined sentences."""
    return _built(
        "long", longer(read(inputs.train), 400), inputs, scratch, copies=copies, max_tokens=128
    )


def _built(
    name: str,
    corpus: list[Sentence],
    inputs: Inputs,
    scratch: Path,
    *,
    copies: int,
    max_tokens: int,
) -> Shards:
    (scratch / name).mkdir()
    for number in range(copies):
        write(scratch / name / f"train-{number}.tsv", corpus)

    tables = {"source": {"use": "conll"}, "encode": {"max_tokens": max_tokens}}
    out = scratch / f"{name}.built"
    build(
        of_tables(tables, name=name),
        [scratch / name],
        tokenizers.load(str(inputs.vocab)),
        out,
        workers=1,
    )
    return load(out)
