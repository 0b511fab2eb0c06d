"""`mslm-data build` against a script with `datasets.map`: tokens per second, CPU time and memory.

`python -m benchmarks build`

Both are timed as whole commands, start-up included. They read the same file, and their ids and tags
are checked to be equal in the first round.
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
from benchmarks.harness import Goal, Results, Row, make_row, same
from benchmarks.inputs import Inputs, enlarge, many, read, write
from benchmarks.watch import Figure, watched
from mslm_data.api.loading import load

SENTENCES = 250_000
_FEW = 200
"""Sentences of the untimed builds that compile kernels and modules."""
_ROUNDS = 3
_MAX_TOKENS = 512
"""Maximum number of tokens of our rows, special tokens included. The peer does not cut rows, so a
longer sentence fails the check of equality."""

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
    """An encoded corpus of N rows and T tokens.

    Attributes:
        lengths: Number of tokens of each row, `[N]`.
        ids: Token ids, row after row, `[T]`.
        tags: Indices into `script.label_names`, `[T]`. Special tokens have O.
    """

    lengths: Numbers
    ids: Numbers
    tags: Numbers


class Side(NamedTuple):
    """One side of the comparison.

    Attributes:
        command: Corpus, empty folder and number of workers -> arguments of the Python interpreter.
            The command writes to `out` in the folder.
        read: Folder `out` and names of tags -> rows.
    """

    command: Callable[[Inputs, Path, int], list[str]]
    read: Callable[[Path, list[str]], Encoded]


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time both sides on `SENTENCES` sentences, with one and with two processes."""
    small = scratch / "small.tsv"
    write(small, enlarge(read(inputs.train), _FEW))
    measure(Inputs(small, inputs.vocab, ""), scratch, rounds=1)

    corpus = many(inputs, scratch, SENTENCES)
    rows = measure(corpus, scratch, rounds=_ROUNDS)

    size = corpus.train.stat().st_size / 1e6
    return Results(rows=rows, inputs=[f"Build: {corpus.description}; {size:.0f} MB"])


def measure(inputs: Inputs, scratch: Path, *, rounds: int) -> list[Row]:
    """Run both sides in turn, with one and with two processes, and make the rows.

    Outputs are compared in the first round.

    Args:
        inputs: Corpus, in one file, and vocabulary.
        scratch: A folder with room for about 60 bytes per token.
        rounds: Number of rounds.

    Raises:
        RuntimeError: The outputs differ.
    """
    names = script.label_names(inputs.train)
    figures: dict[tuple[str, int], list[Figure]] = {
        (side_name, workers): [] for workers in (1, 2) for side_name in SIDES
    }

    # The folder, with the cache of datasets, is new in each round.
    expected = None
    for _ in range(rounds):
        for (side_name, workers), measured in figures.items():
            side = SIDES[side_name]
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                command = side.command(inputs, Path(folder), workers)
                measured.append(watched(command))

                if len(measured) == 1:
                    encoded = side.read(Path(folder) / "out", names)
                    if expected is None:
                        expected = encoded
                    check(f"{side_name}, {workers} processes", encoded, expected)

    assert expected is not None  # noqa: S101
    return _rows(figures, len(expected.ids))


def check(what: str, encoded: Encoded, expected: Encoded) -> None:
    """Check that two encoded corpora are equal.

    Raises:
        RuntimeError: Lengths, ids or tags differ.
    """
    for field in Encoded._fields:
        equal = np.array_equal(getattr(encoded, field), getattr(expected, field))
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
    """Read the rows of our folder."""
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
    """Read the rows of the script's folder."""
    table = datasets.load_from_disk(str(out)).data
    ids = table.column("input_ids").combine_chunks()
    labels = table.column("labels").combine_chunks().flatten().to_numpy()

    # Special tokens are -100 in the script's labels, and O in our tags.
    return Encoded(
        lengths=ids.value_lengths().to_numpy().astype(np.int64),
        ids=ids.flatten().to_numpy().astype(np.int64),
        tags=np.where(labels < 0, names.index("O"), labels),
    )


SIDES = {"ours": Side(_ours, _built), "peer": Side(_script, _saved)}


def _rows(figures: dict[tuple[str, int], list[Figure]], tokens: int) -> list[Row]:
    """Make the rows: tokens per second, tokens per CPU second, and peak memory."""
    speed = {
        side_name: [tokens / figure.seconds for figure in runs]
        for side_name, runs in figures.items()
    }
    per_core = {
        side_name: [tokens / figure.cpu for figure in runs] for side_name, runs in figures.items()
    }
    memory = {side_name: [figure.mib for figure in runs] for side_name, runs in figures.items()}

    what_one, what_two = (f"{_WHAT} {_WHAT_OF[workers]}" for workers in (1, 2))
    rows = [
        make_row(
            "build, one process",
            {"ours": speed["ours", 1], "peer": speed["peer", 1]},
            unit="tokens",
            what=what_one,
            goal=Goal(peer=_GOAL),
        ),
        make_row(
            "build, two workers",
            {
                "ours": speed["ours", 2],
                "peer": speed["peer", 2],
                "limit": [2 * rate for rate in speed["ours", 1]],
            },
            unit="tokens",
            what=f"{what_two} {_WHAT_LIMIT}",
            goal=Goal(limit=_GOAL_OF_TWO / 2, why=_WHY_OF_TWO),
        ),
    ]

    for workers, processes in ((1, "one process"), (2, "two workers")):
        rows += [
            make_row(
                f"build, {processes}, a second of a core",
                {side_name: per_core[side_name, workers] for side_name in SIDES},
                unit="tokens",
                what="as above; tokens a second of CPU time, that of all processes added up.",
            ),
            make_row(
                f"build, {processes}, peak memory",
                {side_name: memory[side_name, workers] for side_name in SIDES},
                unit="MiB",
                what="as above; memory of all processes together, without pages of files, looked "
                "at twenty times a second: less is better.",
            ),
        ]
    return rows
