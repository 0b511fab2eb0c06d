"""Stream a folder from S3, against litdata: time to the first batch and of an epoch.

`python -m benchmarks remote`

A local S3 server delays each response by 50 ms. It serves BC2GM's sentences, 20 copies of each. New
processes read an epoch in turn: ours, with masking, and litdata, with padding only. The page has
statistics on how well each order mixes rows, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import elsewhere
from benchmarks import inputs as corpora
from benchmarks.harness import AbsentError, Results, Table, same, spread
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.epoch_plan import plan_epoch
from mslm_data.batches.order import EpochOrder

DELAY_S = 0.05
COPIES = 20
UNIT_BYTES = 1_500_000
"""Size of a work unit in bytes, for shards of about 3 MB."""
ORDERS: Mapping[str, dict[str, Any]] = {
    'shuffle="shards"': {"shuffle": "shards"},
    'shuffle="shards", open_shards=4': {"shuffle": "shards", "open_shards": 4},
    "shuffle=False": {"shuffle": False},
    "shuffle=True": {"shuffle": True},
}
_OURS = """
import json, sys, time
import numpy, s3fs
import mslm_data as md
from benchmarks.remote import watched
url, options = sys.argv[1], json.loads(sys.argv[2])
strategy = md.strategy("joint")
print(json.dumps(watched(lambda: md.Batches(md.load(url)["train"], strategy, **options))))
"""


_ABOUT = """
Read from a bucket of the same machine whose every answer comes {delay} ms late. Fresh processes
took turns in {rounds} rounds; caches were empty. Times begin when all packages are imported, and
are medians with the least and the greatest. Ours are masked, litdata's padded alone.
"""
_ABOUT_MIXING = """
Of 64 shards of 4,000 rows: how many places of an epoch lie between two rows that are neighbours in
the source, and how many rows of the source between two that are neighbours in the epoch. Quantiles
of 10, 50 and 90 %, over one epoch.
"""


def run(inputs: corpora.Inputs, scratch: Path, *, rounds: int = 5, copies: int = COPIES) -> Results:
    """Serve and read the folders.

    Args:
        inputs: Corpus and vocabulary.
        scratch: Scratch folder.
        rounds: Number of epochs of each reader.
        copies: Number of copies of each sentence.
    """
    timings, about = _read_all(inputs, scratch, rounds, copies)
    reading = Table(
        header=("reader", "first batch, s", "epoch, s"),
        rows=[
            (
                "litdata" if name == "litdata" else f"ours, `{name}`",
                *(spread([row[key] for row in rows]) for key in ("first", "epoch")),
            )
            for name, rows in timings.items()
        ],
        align="lrr",
    )
    mixing = Table(
        title="How well rows are mixed",
        about=_ABOUT_MIXING,
        header=("order", "source's neighbours in the epoch", "epoch's neighbours in the source"),
        rows=_distances(),
        align="lrr",
    )
    return Results(
        about=_ABOUT.format(delay=round(1000 * DELAY_S), rounds=rounds),
        inputs=about,
        tables=[reading, mixing],
    )


def watched(make: Any) -> dict[str, float]:
    """Read an epoch of the batches that `make` returns, and measure its time.

    Returns:
        `first` and `epoch`, seconds to the first batch and to the end; `rows`.
    """
    start = time.perf_counter()
    first = 0.0
    rows = 0
    for number, batch in enumerate(make()):
        if not number:
            first = time.perf_counter() - start
        rows += len(batch["input_ids"])
    return {"first": first, "epoch": time.perf_counter() - start, "rows": rows}


def _read_all(
    corpus: corpora.Inputs, scratch: Path, rounds: int, copies: int
) -> tuple[dict[str, list[dict[str, float]]], list[str]]:
    """Return the timings of each reader and round, and input lines."""
    from tests import bucket as s3

    large = _built(corpus, scratch / "large", copies)
    with s3.serving() as bucket:
        _set_environment(bucket.url)
        url = bucket.put_all(large, "large")
        try:
            _write_litdata(large, scratch)
            bucket.put_all(scratch / "litdata", "litdata")
            peer = elsewhere.command("stream", "litdata", f"s3://{s3.BUCKET}/litdata")
        except AbsentError as error:
            print(f"litdata: {error}", file=sys.stderr)
            peer = []

        def late(answer: s3.Answer) -> s3.Answer:
            time.sleep(DELAY_S)
            return answer

        for method in ("GET", "HEAD"):
            bucket.befall(late, "", times=10**9, method=method)

        timings: dict[str, list[dict[str, float]]] = {}
        for number in range(rounds + 1):  # round 0 compiles kernels, untimed
            print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
            for name, batch_options in ORDERS.items():
                took = _ours(url, batch_options, scratch / "cache")
                if number:
                    timings.setdefault(name, []).append(took)
            if peer and number:
                own = scratch / f"litdata-{number}"
                own.mkdir()
                env = os.environ | dict.fromkeys(("TMPDIR", "HOME"), str(own))
                peer_figures = _run([*peer, str(own / "cache")], env)
                timings.setdefault("litdata", []).append(peer_figures)

    shards = len(list((large / "train").glob("*.arrow")))
    rows = int(timings["shuffle=False"][0]["rows"])
    for name, epochs in timings.items():
        same(f"rows of {name}", {int(epoch["rows"]) for epoch in epochs}, {rows})
    about = [f"{corpus.description}, {copies} times over: {rows:,} rows in {shards} shards"]
    return timings, about


def _built(corpus: corpora.Inputs, out: Path, copies: int) -> Path:
    from mslm_data.builds import build, find
    from mslm_data.encode import tokenizer as tokenizers
    from mslm_data.pipeline import read

    source = out.with_suffix(".source")
    source.mkdir()
    sentences = corpora.read(corpus.train)
    for number in range(copies):
        corpora.write(source / f"train-{number}.tsv", sentences)
    tables = {
        "source": {"use": "conll", "duplicates": "keep"},
        "shard": {"input_bytes": UNIT_BYTES},
    }
    tokenizer = tokenizers.load_tokenizer(str(corpus.vocab))
    build(find(read({"name": "remote", **tables}), [source]), tokenizer, out, workers=2)
    return out


def _write_litdata(folder: Path, scratch: Path) -> None:
    """Write the same rows as litdata chunks of about the size of our shards."""
    from mslm_data.api.loading import load

    examples = load(folder)["train"].examples()
    np.save(scratch / "values.npy", examples.input_ids.values)
    np.save(scratch / "offsets.npy", examples.input_ids.offsets)
    os.environ["CHUNK_BYTES"] = "3MB"
    elsewhere.write("litdata", scratch)


def _set_environment(url: str) -> None:
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


def _ours(url: str, batch_options: Mapping[str, Any], cache: Path) -> dict[str, float]:
    shutil.rmtree(cache / "shards", ignore_errors=True)  # keeps compiled kernels
    command = [sys.executable, "-c", _OURS, url, json.dumps(batch_options)]
    return _run(command, os.environ | {"MSLM_DATA_CACHE": str(cache)})


def _run(command: Sequence[str], env: Mapping[str, str]) -> dict[str, float]:
    done = subprocess.run(
        command, cwd=corpora.ROOT, env=dict(env), stdout=subprocess.PIPE, text=True, check=True
    )
    timings: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return timings


class _Sharded:
    """Rows of 64 shards, of which only the lengths exist."""

    shard_rows = (4000,) * 64
    tokens = 64 * 4000 * 32

    def __len__(self) -> int:
        return sum(self.shard_rows)

    def lengths(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each row."""
        return np.full(len(rows), 32)


def _distances() -> list[tuple[str, ...]]:
    """Return for each order the quantiles of the distances of neighbours, in both directions."""
    orders = {
        f'`shuffle="shards", open_shards={count}`': BatchOptions(
            shuffle="shards", open_shards=count, bucketed=False
        )
        for count in (1, 4, 16, 64)
    }
    orders["`shuffle=True`"] = BatchOptions(bucketed=False)

    rows = []
    for name, options in orders.items():
        split = _Sharded()
        blocks = range(len(EpochOrder(split, options).bounds(0)) - 1)
        plans = [plan_epoch(split, options, 0, block=block) for block in blocks]
        numbers = np.concatenate([plan.rows for plan in plans]).astype(np.int64)
        both_directions = np.abs(np.diff(np.argsort(numbers))), np.abs(np.diff(numbers))
        quantiles = [np.quantile(distances, (0.1, 0.5, 0.9)) for distances in both_directions]
        rows.append((name, *(", ".join(f"{value:,.0f}" for value in row) for row in quantiles)))
    return rows
