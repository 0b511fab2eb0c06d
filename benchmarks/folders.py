"""Build shard folders for other benchmarks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import same
from benchmarks.inputs import Inputs, Sentence, longer, read, write
from mslm_data.api.loading import Shards, load
from mslm_data.builds import build, find
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.pipeline import from_tables


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


def thirds(inputs: Inputs, scratch: Path, *, copies: int) -> tuple[Shards, list[Shards]]:
    """Build a folder of three shards, and three folders with one of these shards each.

    Args:
        inputs: Corpus and vocabulary.
        scratch: Folder to build in.
        copies: Number of copies of each sentence.

    Returns:
        The folder of three shards, and the three folders.
    """
    corpus = read(inputs.train)
    bounds = [len(corpus) * third // 3 for third in range(4)]
    for number in range(3):
        folder = scratch / f"third-{number}"
        folder.mkdir()
        write(folder / f"train-{number}.tsv", copies * corpus[bounds[number] : bounds[number + 1]])
    thirds = [scratch / f"third-{number}" for number in range(3)]

    # As large as the largest file: each file becomes one shard.
    unit_bytes = max(path.stat().st_size for third in thirds for path in third.iterdir())

    built = []
    for name, sources in (("thirds", thirds), *((third.name, [third]) for third in thirds)):
        tables = {"source": {"use": "conll"}, "shard": {"unit_bytes": unit_bytes}}
        out = scratch / f"{name}.built"
        build(
            find(from_tables(tables, name=name), sources),
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

    tables = {"source": {"use": "conll"}, "encode": {"max_tokens": max_tokens}}
    out = scratch / f"{name}.built"
    build(
        find(from_tables(tables, name=name), [scratch / name]),
        tokenizers.load_tokenizer(str(inputs.vocab)),
        out,
        workers=1,
    )
    return load(out)
