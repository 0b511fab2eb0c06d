"""`mslm-data build` as a whole command, beside the script that a user would write instead.

Both are whole processes with their start-up. They read the same file and write the same ids and
tags, which are compared before any time counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import numpy.typing as npt

from benchmarks import script
from benchmarks.harness import Goal, Results, Row, row_of, same
from benchmarks.inputs import Inputs, enlarge, many, read, write
from benchmarks.watch import Figure, watched
from mslm_data.api.loading import load

SENTENCES = 250_000
_FEW = 200
"""Sentences of the builds before the first round, which leave compiled kernels and modules."""
_ROUNDS = 3
_MAX_TOKENS = 512
"""Tokens of a row of ours at most, special ones included. The peer's rows are not cut, so they
differ from ours if a sentence has more."""

_PIPELINE = f"""
name = "sentences"
[source]
use = "conll"
[segment]
use = "given"
[encode]
max_tokens = {_MAX_TOKENS}
"""

_GOAL = 10
_GOAL_OF_TWO = 1.7
_WHY_OF_TWO = "growth.md says which share of a build one process does alone"

_WHAT = (
    "`mslm-data build` of one CoNLL file, start-up, checksums and syncs included; the peer is "
    "`benchmarks/script.py`: `Dataset.from_generator`, `datasets.map` with a fast tokenizer and "
    "`word_ids()`, and `save_to_disk`, with an empty cache. Ids and tags of every row were equal."
)
_WHAT_OF = {
    1: "One worker; `num_proc=None` of the peer, whose tokenizer has threads of its own.",
    2: "Two workers; `num_proc=2` of the peer.",
}
_WHAT_LIMIT = (
    f"The limit is twice ours with one worker; the goal is {_GOAL_OF_TWO:g} times ours with one."
)

Numbers = npt.NDArray[np.int64]


class Encoded(NamedTuple):
    """The rows that one side has made of a corpus.

    Attributes:
        lengths: `[N]`, tokens of each row.
        ids: `[T]`, in the order of the rows.
        tags: `[T]`, as numbers among `script.label_names`; O for special tokens.
    """

    lengths: Numbers
    ids: Numbers
    tags: Numbers


class Side(NamedTuple):
    """One side of the comparison.

    Attributes:
        command: Corpus, scratch folder and workers -> the words after the name of the interpreter.
            The folder is empty; rows are written into `out` in it.
        read: Reads these rows; takes the folder `out` and the names of tags.
    """

    command: Callable[[Inputs, Path, int], list[str]]
    read: Callable[[Path, list[str]], Encoded]


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time both on some 250,000 sentences, by one process and by two."""
    small = scratch / "small.tsv"
    write(small, enlarge(read(inputs.train), _FEW))
    measure(Inputs(small, inputs.vocab, ""), scratch, rounds=1)

    corpus = many(inputs, scratch, SENTENCES)
    rows = measure(corpus, scratch, rounds=_ROUNDS)

    size = corpus.train.stat().st_size / 1e6
    return Results(rows=rows, inputs=[f"Build: {corpus.says}; {size:.0f} MB"])


def measure(inputs: Inputs, scratch: Path, *, rounds: int) -> list[Row]:
    """Run both in turn, each by one process and by two, and make the rows.

    What they make is compared in the first round.

    Args:
        inputs: The corpus, in one file.
        scratch: A folder with room for some 60 bytes a token.
        rounds: Number of turns of each.

    Raises:
        RuntimeError: The results differ.
    """
    names = script.label_names(inputs.train)
    figures: dict[tuple[str, int], list[Figure]] = {
        (of, workers): [] for workers in (1, 2) for of in SIDES
    }

    expected = None
    for _ in range(rounds):
        for (of, workers), measured in figures.items():
            side = SIDES[of]
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                command = side.command(inputs, Path(folder), workers)
                measured.append(watched(command))

                if len(measured) == 1:
                    made = side.read(Path(folder) / "out", names)
                    if expected is None:
                        expected = made
                    check(f"{of}, {workers} processes", made, expected)

    assert expected is not None  # noqa: S101
    return _rows(figures, len(expected.ids))


def check(what: str, made: Encoded, expected: Encoded) -> None:
    """Refuse to compare unless one side has made the rows that the other has made.

    Raises:
        RuntimeError: Rows, ids or tags differ.
    """
    for field in Encoded._fields:
        equal = np.array_equal(getattr(made, field), getattr(expected, field))
        same(f"{what}: {field}", equal, True)


def _ours(inputs: Inputs, folder: Path, workers: int) -> list[str]:
    pipeline = folder / "build.toml"
    pipeline.write_text(_PIPELINE, encoding="utf-8")
    return [
        *("-m", "mslm_data", "build"),
        *("--source", str(pipeline)),
        *("--input", str(inputs.train)),
        *("--tokenizer", str(inputs.vocab)),
        *("--workers", str(workers)),
        *("--out", str(folder / "out")),
    ]


def _script(inputs: Inputs, folder: Path, workers: int) -> list[str]:
    return [
        *("-m", "benchmarks.script"),
        *("--train", str(inputs.train)),
        *("--vocab", str(inputs.vocab)),
        *("--workers", str(workers)),
        *("--out", str(folder / "out")),
        *("--cache", str(folder / "cache")),
        *([] if inputs.cased else ["--lower"]),
    ]


def _built(out: Path, names: list[str]) -> Encoded:
    """Read a folder of ours."""
    shards = load(out)
    (split,) = shards.manifest.splits
    examples = shards[split].examples()

    numbers = np.array([names.index(name) for name in shards.tags])
    return Encoded(
        lengths=np.diff(examples.input_ids.offsets).astype(np.int64),
        ids=examples.input_ids.values.astype(np.int64),
        tags=numbers[examples.bio.values],
    )


def _saved(out: Path, names: list[str]) -> Encoded:
    """Read a folder of the script."""
    table = datasets.load_from_disk(str(out)).data
    ids = table.column("input_ids").combine_chunks()
    labels = table.column("labels").combine_chunks().flatten().to_numpy()

    # Special tokens have no label there, and O with us.
    return Encoded(
        lengths=ids.value_lengths().to_numpy().astype(np.int64),
        ids=ids.flatten().to_numpy().astype(np.int64),
        tags=np.where(labels < 0, names.index("O"), labels),
    )


SIDES = {"ours": Side(_ours, _built), "peer": Side(_script, _saved)}


def _rows(figures: dict[tuple[str, int], list[Figure]], tokens: int) -> list[Row]:
    """Return the rows: tokens a second, tokens a second and core, and memory."""
    speed = {of: [tokens / figure.seconds for figure in some] for of, some in figures.items()}
    work = {of: [tokens / figure.cpu for figure in some] for of, some in figures.items()}
    memory = {of: [figure.mib for figure in some] for of, some in figures.items()}

    one, two = (f"{_WHAT} {_WHAT_OF[workers]}" for workers in (1, 2))
    rows = [
        row_of(
            "build, one process",
            {"ours": speed["ours", 1], "peer": speed["peer", 1]},
            unit="tokens",
            what=one,
            goal=Goal(peer=_GOAL),
        ),
        row_of(
            "build, two workers",
            {
                "ours": speed["ours", 2],
                "peer": speed["peer", 2],
                "limit": [2 * rate for rate in speed["ours", 1]],
            },
            unit="tokens",
            what=f"{two} {_WHAT_LIMIT}",
            goal=Goal(limit=_GOAL_OF_TWO / 2, why=_WHY_OF_TWO),
        ),
    ]

    for workers, process in ((1, "one process"), (2, "two workers")):
        rows += [
            row_of(
                f"build, {process}, a second of a core",
                {of: work[of, workers] for of in SIDES},
                unit="tokens",
                what="as above; tokens a second of CPU time, that of all processes added up.",
            ),
            row_of(
                f"build, {process}, peak memory",
                {of: memory[of, workers] for of in SIDES},
                unit="MiB",
                what="as above; memory of all processes together, without pages of files, looked "
                "at twenty times a second: less is better.",
            ),
        ]
    return rows
