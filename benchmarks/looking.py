"""`mslm-data look` on large folders: seconds to the first page, per slider move, per count.

`python -m benchmarks looking`
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import msgspec
import numpy as np

from benchmarks.folders import sentences
from benchmarks.harness import AbsentError, Results, Row, row_at_most, unless_absent
from benchmarks.inputs import Inputs
from benchmarks.watch import memory
from mslm_data.api.loading import Shards, load
from mslm_data.data.examples import Examples, take
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import counting
from mslm_data.look.state import Choice, State
from mslm_data.mask.table import strategy
from mslm_data.shard.manifest import read_manifest, write_manifest
from mslm_data.shard.write import record_batch, write_batch

_ROUNDS = 3
SHARD_ROWS = 400_000
"""Rows of a shard, about those of 64 MiB of input."""


def repeated(shards: Shards, out: Path, rows: int) -> Path:
    """Make a large folder from a small one: one shard of repeated rows, with many hard links.

    Args:
        shards: The small folder.
        out: The new folder.
        rows: Number of rows, rounded down to shards of `SHARD_ROWS`.
    """
    train = shards["train"]
    examples = train.examples()
    places = np.arange(min(SHARD_ROWS, rows)) % len(examples)
    repeated_examples: Examples = dataclasses.replace(
        take(examples, places),
        keys=np.random.default_rng(0).integers(0, 1 << 63, len(places)).astype(np.uint64),
        doc_ids=[f"document {number}" for number in range(len(places))],
    )
    (out / "train").mkdir(parents=True)
    first = out / "train" / "data.arrow"
    schema = next(iter(train.batches())).schema
    record = write_batch(first, record_batch(repeated_examples, schema))

    count = max(rows // len(places), 1)
    names = [f"data-{number:05}-of-{count:05}.arrow" for number in range(count)]
    records = [dataclasses.replace(record, file=name) for name in names]
    # Hard links: ten million rows take the disk space of one shard.
    first.rename(out / "train" / names[0])
    for linked in records[1:]:
        os.link(out / "train" / names[0], out / "train" / linked.file)

    manifest = read_manifest(Path(str(shards.folder)))
    splits = {
        "train": dataclasses.replace(
            manifest.splits["train"],
            shards=tuple(records),
            sequences=sum(shard.rows for shard in records),
            tokens=sum(shard.tokens for shard in records),
            mentions=sum(shard.mentions for shard in records),
            given_mentions=sum(shard.mentions for shard in records),
            left_out={},
            cut_pieces=0,
        )
    }
    write_manifest(out, msgspec.structs.replace(manifest, splits=splits))
    (out / "tokenizer.json").write_bytes(shards.tokenizer.read_bytes())
    return out


def run(inputs: Inputs, scratch: Path) -> Results:
    """Open a folder of ten million rows, move a slider, and count a split of a million rows."""
    shards = sentences(inputs, scratch, copies=1)
    ten_million = repeated(shards, scratch / "ten", 10_000_000)
    million = repeated(shards, scratch / "one", 1_000_000)
    rows = [*_opening(ten_million), _counting(million)]
    return Results(rows=[*rows, *unless_absent("a slider's move", lambda: [_slider(million)])])


def _opening(folder: Path) -> list[Row]:
    """Start the command, then request the first page and distant rows."""
    opened = []
    for _ in range(_ROUNDS):
        command = [sys.executable, "-m", "mslm_data", "look", str(folder), "--no-browser"]
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            address = process.stdout.readline().strip() if process.stdout else ""
            listening = time.perf_counter()
            _ask(address)
            first = time.perf_counter()
            for row in (2_000_000, 5_000_000, 9_000_000):
                _ask(f"{address}&row={row}")
            opened.append((first - listening, first - start, memory(process.pid) / 1024))
            process.terminate()

    page, command_and_page, mib = (
        statistics.median(column) for column in zip(*opened, strict=True)
    )
    what = "`mslm-data look` of ten million rows, in a new process"
    return [
        row_at_most("first page", page, 1, unit="s", what=f"{what}, from the address to the page."),
        Row(
            name="command to first page",
            what=f"{what}, its imports too.",
            unit="s",
            ours=command_and_page,
        ),
        row_at_most(
            "memory",
            mib,
            300,
            unit="MiB",
            what=f"{what}, after rows far apart; pages of files not counted.",
        ),
    ]


def _ask(address: str) -> None:
    with urlopen(address) as answer:  # noqa: S310 - of our own server
        answer.read()


def _counting(folder: Path) -> Row:
    """Time the counts of masked tokens of a split under `joint`, scaled to a million rows."""
    split = load(folder)["train"]
    count = counting(split, strategy("joint"), seed=0, epoch=0)
    seconds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        count(lambda *_: None)
        seconds.append((time.perf_counter() - start) * 1_000_000 / len(split))
    what = "the counts and weights of `joint` in a split of a million rows, beside the page."
    return row_at_most("counts of a split", statistics.median(seconds), 2, unit="s", what=what)


def _slider(folder: Path) -> Row:
    """Time a slider in a browser, from its event to the frame with the new rows.

    Raises:
        AbsentError: No browser is installed.
    """
    from tests.look.serving import served
    from tests.support.driver import CHROMIUM, browser

    if CHROMIUM is None:
        raise AbsentError("no Chromium is installed")

    choices = tuple(Choice(name) for name in ("joint", "span", "bert"))
    corpus = Corpus(load(folder), live=True)
    with (
        served(corpus, State(strategies=choices)) as server,
        browser(folder.parent / "chromium") as tab,
    ):
        tab.open(server.address)
        tab.wait_for("window.htmx && document.querySelector('article')")
        times = [tab.run(_MOVE % (0.05 * step)) for step in range(1, 20)]
    return row_at_most(
        "a slider's move",
        statistics.median(times) / 1000,
        0.1,
        unit="s",
        what="fifty rows under three strategies, from the slider's event to the frame with new "
        "rows.",
        why="a third is the server's, the rest the browser's, which parses and paints without a "
        "GPU.",
    )


_MOVE = """new Promise((done) => {
    const slider = document.querySelector('[data-for="s1.elm"]');
    slider.value = %s;
    const start = performance.now();
    const end = () => done(performance.now() - start);
    const seen = () => requestAnimationFrame(() => setTimeout(end));
    document.body.addEventListener('htmx:afterSwap', seen, {once: true});
    slider.dispatchEvent(new Event('input', {bubbles: true}));
})"""
