"""Build the folders that batches are read from."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import same
from benchmarks.inputs import Inputs, Sentence, longer, read, write
from mslm_data.api.loading import Shards, load
from mslm_data.builds import build
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.pipeline import from_tables


def sentences(inputs: Inputs, scratch: Path, *, copies: int) -> Shards:
    """Build a folder of sentences.

    Args:
        inputs: The corpus.
        scratch: The folder to build in.
        copies: How often each sentence comes. Copies are in documents of different names, so that
            their keys differ.
    """
    return build_sentences(
        "sentences", read(inputs.train), inputs, scratch, copies=copies, max_tokens=512
    )


def long_rows(inputs: Inputs, scratch: Path, *, copies: int) -> Shards:
    """Build a folder of rows of about 128 tokens, and of at most 128, from joined sentences."""
    return build_sentences(
        "long", longer(read(inputs.train), 400), inputs, scratch, copies=copies, max_tokens=128
    )


def thirds(inputs: Inputs, scratch: Path, *, copies: int) -> tuple[Shards, list[Shards]]:
    """Build a folder of three shards of sentences, and three folders, each of a shard's sentences.

    Args:
        inputs: The corpus.
        scratch: The folder to build in.
        copies: How often each sentence comes.
    """
    corpus = read(inputs.train)
    bounds = [len(corpus) * third // 3 for third in range(4)]
    for number in range(3):
        folder = scratch / f"third-{number}"
        folder.mkdir()
        write(folder / f"train-{number}.tsv", copies * corpus[bounds[number] : bounds[number + 1]])
    sources = [scratch / f"third-{number}" for number in range(3)]
    unit_bytes = max(path.stat().st_size for source in sources for path in source.iterdir())

    built = []
    for name, of_build in (("thirds", sources), *((one.name, [one]) for one in sources)):
        tables = {"source": {"use": "conll"}, "shard": {"unit_bytes": unit_bytes}}
        out = scratch / f"{name}.built"
        build(
            from_tables(tables, name=name),
            of_build,
            tokenizers.load_tokenizer(str(inputs.vocab)),
            out,
            workers=1,
        )
        built.append(load(out))
    same("shards", len(built[0]["train"].record.shards), 3)
    return built[0], built[1:]


def build_sentences(
    name: str,
    corpus: list[Sentence],
    inputs: Inputs,
    scratch: Path,
    *,
    copies: int,
    max_tokens: int,
) -> Shards:
    """Build a folder of any sentences.

    Args:
        name: The folder's, with `.built` behind it.
        corpus: The sentences.
        inputs: Has the vocabulary.
        scratch: The folder to build in.
        copies: How often each sentence comes.
        max_tokens: Most tokens of a row.
    """
    (scratch / name).mkdir()
    for number in range(copies):
        write(scratch / name / f"train-{number}.tsv", corpus)

    tables = {"source": {"use": "conll"}, "encode": {"max_tokens": max_tokens}}
    out = scratch / f"{name}.built"
    build(
        from_tables(tables, name=name),
        [scratch / name],
        tokenizers.load_tokenizer(str(inputs.vocab)),
        out,
        workers=1,
    )
    return load(out)
