"""Stream a folder from S3, against litdata: time to the first batch and of an epoch.

`python -m benchmarks.remote`

A local S3 server delays each response by 50 ms. It serves BC2GM's sentences, 20 copies of each. New
processes read an epoch in turn: ours, with masking, and litdata, with padding only. Memory and
cache size are then measured on a split a hundred times as large as the cache. Writes
docs/results/remote.md, with statistics on how well each order mixes rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import elsewhere, inputs
from benchmarks.batching import anonymous_kib
from benchmarks.harness import AbsentError, same
from benchmarks.report import commit, machine, markdown_table
from mslm_data.batches.row_order import ByShards, RowOrder, Shuffled

DELAY_S = 0.05
COPIES = 20
UNIT_BYTES = 1_500_000
"""Size of a work unit in bytes, for shards of about 3 MB."""
SMALL_UNIT_BYTES = 40_000
"""Size of a work unit in bytes, for shards of about 80 kB, used with a small cache."""
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
url, options, cache_bytes, cache = sys.argv[1], *map(json.loads, sys.argv[2:4]), sys.argv[4]
strategy = md.strategy("joint")
print(json.dumps(watched(lambda: md.Batches(
    md.load(url, cache_bytes=cache_bytes)["train"], strategy, **options), cache)))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve and read the folders, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=inputs.ROOT / "docs" / "results" / "remote.md")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory(prefix="mslm-remote-") as folder:
        scratch = Path(folder)
        timings, small_cache, about = _read_all(scratch, options.rounds)
    options.out.write_text(_page(timings, small_cache, about, options.rounds), encoding="utf-8")
    print(options.out.read_text(encoding="utf-8"))
    return 0


def watched(make: Any, cache: str) -> dict[str, float]:
    """Read an epoch, and measure time, memory and cache size.

    Args:
        make: Function that opens the folder and returns its batches.
        cache: Cache folder.

    Returns:
        `first` and `epoch`, seconds to the first batch and to the end; `rows`; `early` and `late`,
        peak memory in the first and the last quarter in MiB; `disk`, peak size of the cache in
        bytes.
    """
    start = time.perf_counter()
    first = 0.0
    rows = 0
    memory = []
    disk = 0
    for number, batch in enumerate(make()):
        if not number:
            first = time.perf_counter() - start
        rows += len(batch["input_ids"])
        if number % 200 == 0:
            # Every 200 batches, as walking the cache folder takes time.
            memory.append(anonymous_kib("self") / 1024)
            disk = max(disk, _cache_bytes(cache))
    quarter = len(memory) // 4
    return {
        "first": first,
        "epoch": time.perf_counter() - start,
        "rows": rows,
        "early": max(memory[: quarter + 1]),
        "late": max(memory[-quarter - 1 :]),
        "disk": disk,
    }


def _cache_bytes(folder: str) -> int:
    """Return the size of all shards in a folder in bytes. Shards may be deleted meanwhile."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                if name.endswith(".arrow"):
                    total += (Path(base) / name).stat().st_size
    return total


def _read_all(
    scratch: Path, rounds: int
) -> tuple[dict[str, list[dict[str, float]]], dict[str, float], list[str]]:
    """Return the timings of each reader and round, those of the small cache, and input lines."""
    from tests import bucket as s3

    corpus = inputs.find(scratch)
    large = _built(corpus, scratch / "large", UNIT_BYTES)
    small = _built(corpus, scratch / "small", SMALL_UNIT_BYTES)
    with s3.serving() as bucket:
        _set_environment(bucket.url)
        url = bucket.put_all(large, "large")
        bucket.put_all(small, "small")
        try:
            _write_litdata(large, scratch)
            bucket.put_all(scratch / "litdata", "litdata")
            peer = [
                str(elsewhere.PYTHON),
                "-m",
                "benchmarks.remote_peer",
                f"s3://{s3.BUCKET}/litdata",
            ]
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
                took = _ours(url, batch_options, None, scratch / "cache")
                if number:
                    timings.setdefault(name, []).append(took)
            if peer and number:
                own = scratch / f"litdata-{number}"
                own.mkdir()
                env = os.environ | dict.fromkeys(("TMPDIR", "HOME"), str(own))
                peer_figures = _run([*peer, str(own / "cache")], env)
                timings.setdefault("litdata", []).append(peer_figures)

        # Without delay: this part measures memory and disk, not time.
        print("a split of a hundred times the cache", file=sys.stderr, flush=True)
        bucket.reset()
        bytes_ = sum(path.stat().st_size for path in (small / "train").glob("*.arrow"))
        bound = bytes_ // 100
        batch_options = {"shuffle": "shards", "open_shards": 2, "batch_size": 4}
        small_cache = _ours(f"s3://{s3.BUCKET}/small", batch_options, bound, scratch / "cache")
        small_cache |= {"bound": bound, "bytes": bytes_}
        small_cache["shards"] = len(list((small / "train").glob("*.arrow")))

    shards = len(list((large / "train").glob("*.arrow")))
    rows = int(timings["shuffle=False"][0]["rows"])
    for name, epochs in timings.items():
        same(f"rows of {name}", {int(epoch["rows"]) for epoch in epochs}, {rows})
    about = [f"{corpus.description}, {COPIES} times over: {rows:,} rows in {shards} shards"]
    return timings, small_cache, about


def _built(corpus: inputs.Inputs, out: Path, unit_bytes: int) -> Path:
    from mslm_data.builds import build, find
    from mslm_data.encode import tokenizer as tokenizers
    from mslm_data.pipeline import from_tables

    source = out.with_suffix(".source")
    source.mkdir()
    sentences = inputs.read(corpus.train)
    for number in range(COPIES):
        inputs.write(source / f"train-{number}.tsv", sentences)
    tables = {"source": {"use": "conll"}, "shard": {"unit_bytes": unit_bytes}}
    tokenizer = tokenizers.load_tokenizer(str(corpus.vocab))
    build(find(from_tables(tables, name="remote"), [source]), tokenizer, out, workers=2)
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


def _ours(
    url: str, batch_options: Mapping[str, Any], cache_bytes: int | None, cache: Path
) -> dict[str, float]:
    shutil.rmtree(cache / "shards", ignore_errors=True)  # keeps compiled kernels
    arguments = [url, json.dumps(batch_options), json.dumps(cache_bytes), str(cache)]
    command = [sys.executable, "-c", _OURS, *arguments]
    return _run(command, os.environ | {"MSLM_DATA_CACHE": str(cache)})


def _run(command: Sequence[str], env: Mapping[str, str]) -> dict[str, float]:
    done = subprocess.run(
        command, cwd=inputs.ROOT, env=dict(env), stdout=subprocess.PIPE, text=True, check=True
    )
    timings: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return timings


def _page(
    timings: Mapping[str, list[dict[str, float]]],
    small_cache: Mapping[str, float],
    about: Iterable[str],
    rounds: int,
) -> str:
    lines = [
        "# Splits that come from S3",
        "",
        "Written by `python -m benchmarks.remote`, on a bucket of the same machine whose every "
        f"answer comes {1000 * DELAY_S:.0f} ms late.",
        f"Fresh processes took turns in {rounds} rounds; caches were empty. Times begin when all "
        "packages are imported,",
        "and are medians with the least and the greatest. Ours are masked, litdata's padded alone.",
        "",
        f"Commit: {commit(inputs.ROOT)}",
        "",
        *[f"* {line}" for line in (*about, *machine())],
        "",
        *markdown_table(
            ("reader", "first batch, s", "epoch, s"),
            [
                (
                    "litdata" if name == "litdata" else f"ours, `{name}`",
                    *(_spread([row[key] for row in rows]) for key in ("first", "epoch")),
                )
                for name, rows in timings.items()
            ],
            align="lrr",
        ),
        "",
        "## A hundred times the cache",
        "",
        f"{small_cache['rows']:,.0f} rows in {small_cache['shards']:,.0f} shards, "
        f"{small_cache['bytes'] / 1e6:.1f} MB, "
        f"`cache_bytes` = {small_cache['bound'] / 1e3:.0f} kB, `open_shards=2`, batches of 4 rows: "
        f"the shards in the cache took at most {small_cache['disk'] / 1e3:.0f} kB.",
        f"The process took {small_cache['early']:.0f} MiB at most in the epoch's first quarter and "
        f"{small_cache['late']:.0f} MiB in its last (memory that no file backs).",
        "",
        "## How well rows are mixed",
        "",
        "Of 64 shards of 4,000 rows: how many places of an epoch lie between two rows that are "
        "neighbours in the source, and how many",
        "rows of the source between two that are neighbours in the epoch. Quantiles of 10, 50 and "
        "90 %, over one epoch.",
        "",
        *markdown_table(
            ("order", "source's neighbours in the epoch", "epoch's neighbours in the source"),
            _distances(),
            align="lrr",
        ),
    ]
    return "\n".join(lines) + "\n"


def _distances() -> list[tuple[str, ...]]:
    """Return for each order the quantiles of the distances of neighbours, in both directions."""
    orders: dict[str, RowOrder] = {
        f'`shuffle="shards", open_shards={count}`': ByShards((4000,) * 64, count)
        for count in (1, 4, 16, 64)
    }
    orders["`shuffle=True`"] = Shuffled(64 * 4000)

    rows = []
    for name, order in orders.items():
        numbers = order.rows(0, order.size, seed=0, epoch=0)
        both_directions = np.abs(np.diff(np.argsort(numbers))), np.abs(np.diff(numbers))
        quantiles = [np.quantile(distances, (0.1, 0.5, 0.9)) for distances in both_directions]
        rows.append((name, *(", ".join(f"{value:,.0f}" for value in row) for row in quantiles)))
    return rows


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
