"""Kill builds at random, and compare the folders with those of undisturbed builds.

`python -m benchmarks faults`

For each source and engine, a build is killed 1 to `AT_ONCE` times and restarted by the same
command, until it succeeds. Its folder must equal that of an undisturbed build byte for byte. A kill
hits the main process or a descendant: a worker, the fork server, or an actor of a local Ray
cluster. The page has the cost of the crash precautions too, as a share of the build time.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks import inputs as corpora
from benchmarks import notes
from benchmarks.harness import Results, Table
from benchmarks.inputs import Inputs
from benchmarks.watch import descendants
from mslm_data._optional import load

AT_ONCE = 4
"""Maximum number of kills of a build."""

_ABOUT = """
Each folder's build was killed with SIGKILL at random moments, once to {at_once} times, and started
again by the same command; then its bytes were compared with those of an undisturbed build. {kills}
kills, seed {seed}. What the precautions (syncs, locks, checksums read again) cost a build of
BC2GM's sentences with one worker: {median:.1f} % of its time (median of {rounds} rounds in
turn; from {lowest:.1f} to {highest:.1f} %).
"""
_COLUMNS = {
    "folders": "folders",
    "leader": "kills of the program",
    "below": "kills of a process below it",
    "began again": "other failures",
    "equal": "equal folders",
}
"""Key of the counts -> title of its column."""


class Case(NamedTuple):
    """A build to disturb.

    Attributes:
        source: Name of the source.
        engine: Engine and number of workers, such as "local 2".
        words: Options of `mslm-data build`.
    """

    source: str
    engine: str
    words: tuple[str, ...]


def run(
    inputs: Inputs,
    scratch: Path,
    *,
    kills: int = 200,
    seed: int = 0,
    engines: Sequence[str] = ("local 1", "local 2", "local 4", "ray 2"),
    rounds: int = 7,
) -> Results:
    """Kill builds, and compare their folders.

    Args:
        inputs: Corpus of the builds.
        scratch: Scratch folder.
        kills: Minimum number of kills.
        seed: Seed of moments and targets.
        engines: Engines, each with a number of workers.
        rounds: Number of builds to find the cost of the precautions.
    """
    rng = random.Random(seed)
    cases = _cases(inputs, scratch, engines)
    counts = {case: Counter[str]() for case in cases}
    with _cluster(engines) as raylet:
        expected = _undisturbed(cases, scratch)
        turn = 0
        while sum(count["leader"] + count["below"] for count in counts.values()) < kills:
            case = cases[turn % len(cases)]
            seconds, digest = expected[case.source]
            _disturb(case, scratch / "out", rng, seconds, counts[case], raylet)

            counts[case]["folders"] += 1
            counts[case]["equal"] += tree(scratch / "out") == digest
            shutil.rmtree(scratch / "out")

            turn += 1
            print(
                f"{case.source}, {case.engine}: {dict(counts[case])}", file=sys.stderr, flush=True
            )

    median, lowest, highest = (100 * (ratio - 1) for ratio in _cost(inputs, scratch, rounds))
    about = _ABOUT.format(
        at_once=AT_ONCE,
        kills=sum(count["leader"] + count["below"] for count in counts.values()),
        seed=seed,
        median=median,
        rounds=rounds,
        lowest=lowest,
        highest=highest,
    )
    rows = [
        (case.source, case.engine, *(count[key] for key in _COLUMNS))
        for case, count in counts.items()
    ]
    header = ("source", "engine, workers", *_COLUMNS.values())
    failures = [
        f"{case.source}, {case.engine}: {count['folders'] - count['equal']} folders differ"
        for case, count in counts.items()
        if count["folders"] != count["equal"]
    ]
    return Results(
        about=about,
        tables=[Table(header=header, rows=rows, align="ll" + "r" * len(_COLUMNS))],
        failures=failures,
    )


def _cases(corpus: Inputs, scratch: Path, engines: Sequence[str]) -> list[Case]:
    """Write the corpora, and return a case for each corpus and engine."""
    tagged = scratch / "blurb"
    tagged.mkdir()
    corpora.write(tagged / "train.tsv", corpora.read(corpus.train)[:4000])
    notes.write(scratch / "NOTEEVENTS.csv.gz", notes=1200)

    vocab = str(corpora.ROOT / "vocab" / "sample" / "vocab.txt")
    concepts = str(corpora.ROOT / "vocab" / "sample" / "concepts.csv")
    sources = {
        "BLURB": (
            "--source", "blurb/bc2gm", "--input", str(tagged),
            "--set", "shard.input_bytes=100000",
        ),
        "notes": (
            "--source", "mimic", "--input", str(scratch / "NOTEEVENTS.csv.gz"),
            "--set", "shard.input_bytes=200000", "--set", "annotate.use=terms",
            "--set", f"annotate.table={concepts}",
        ),
    }  # fmt: skip

    cases = []
    for source, words in sources.items():
        for engine in engines:
            name, workers = engine.split()
            more = ("--tokenizer", vocab, "--engine", name, "--workers", workers)
            cases.append(Case(source, engine, (*words, *more)))
    return cases


def _undisturbed(cases: Sequence[Case], scratch: Path) -> dict[str, tuple[float, str]]:
    """Build each source undisturbed. Returns source -> seconds and digest of the folder."""
    tables = {}
    for case in cases:
        if case.source not in tables:
            start = time.perf_counter()
            if _start_build(case, scratch / "peace").wait():
                raise SystemExit(f"{case.source}: expected an undisturbed build to succeed")
            tables[case.source] = time.perf_counter() - start, tree(scratch / "peace")
            shutil.rmtree(scratch / "peace")
    return tables


@contextmanager
def _cluster(engines: Sequence[str]) -> Iterator[int]:
    """Start a local Ray cluster and set RAY_ADDRESS, if an engine is Ray.

    Yields:
        Process id of the raylet, the parent of the actors; 0 without a cluster.
    """
    cpus = [int(engine.split()[1]) for engine in engines if engine.startswith("ray ")]
    if not cpus:
        yield 0
        return

    load("ray", wanted_by="this benchmark")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": max(cpus), "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    with patch.dict(os.environ, RAY_ADDRESS=cluster.address):
        try:
            yield cluster.head_node.all_processes["raylet"][0].process.pid
        finally:
            cluster.shutdown()


def _disturb(
    case: Case,
    out: Path,
    rng: random.Random,
    seconds: float,
    count: Counter[str],
    raylet: int,
) -> None:
    """Kill a build a few times, then let it finish.

    Args:
        case: The build.
        out: Folder to build.
        rng: Random numbers for times and targets of the kills.
        seconds: Duration of an undisturbed build.
        count: Counter of kills, updated.
        raylet: Process id of the raylet, 0 without Ray.
    """
    for _ in range(rng.randint(1, AT_ONCE)):
        started = _start_build(case, out)
        time.sleep(rng.uniform(0.1, 1.5) * seconds)
        if started.poll() is not None:
            break

        # On Ray, workers are children of the raylet, not of the command.
        is_ray = case.engine.startswith("ray ")
        below = _actors(raylet) if is_ray else list(descendants(started.pid))
        if below and rng.random() < 0.5:
            victim = rng.choice(sorted(below))
            target = "below"
        else:
            victim = started.pid
            target = "leader"

        # A worker may have ended meanwhile. Then nothing was killed, and the build goes on.
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            count[target] += 1
        started.wait()

    while (code := _start_build(case, out).wait()) != 0:
        count["began again"] += 1
        if count["began again"] > 1000:
            raise SystemExit(f"{case.source}, {case.engine}: does not finish, exit code {code}")


def _start_build(case: Case, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mslm_data", "build", *case.words, "--out", str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=corpora.ROOT
    )


def _actors(raylet: int) -> list[int]:
    """Return the process ids of the actors of a Ray node."""
    return [pid for pid in descendants(raylet) if b"ray::TaskActor" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # the process has ended
        return b""


def tree(folder: Path) -> str:
    """Return a SHA-256 digest of relative paths, sizes and bytes of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cost(inputs: Inputs, scratch: Path, rounds: int) -> tuple[float, float, float]:
    """Time builds with crash precautions and without (see `careless`).

    Returns:
        Median, minimum and maximum over rounds of the ratio of the two.
    """
    from mslm_data.builds import build, find
    from mslm_data.encode.tokenizer import load_tokenizer
    from mslm_data.pipeline import read

    pipeline = read("blurb/bc2gm", sets=["shard.input_bytes=1000000"])
    tokenizer = load_tokenizer(str(corpora.ROOT / "vocab" / "sample" / "vocab.txt"))
    shutil.copy(inputs.train, scratch / "blurb" / "train.tsv")

    def seconds() -> float:
        start = time.perf_counter()
        build(find(pipeline, [scratch / "blurb"]), tokenizer, scratch / "cost", workers=1)
        spent = time.perf_counter() - start
        shutil.rmtree(scratch / "cost")
        return spent

    def careless_seconds() -> float:
        with careless():
            return seconds()

    # An untimed build, to compile kernels.
    seconds()
    ratios = sorted(seconds() / careless_seconds() for _ in range(rounds))
    return statistics.median(ratios), ratios[0], ratios[-1]


@contextmanager
def careless() -> Iterator[None]:
    """Disable crash precautions of builds in this process.

    Files are not synced, checksums not read again, and the parts of inputs not hashed.
    """
    from mslm_data.builds import finish, folder, plan, scan, unit

    with ExitStack() as stack:
        stack.enter_context(patch.object(os, "fsync", lambda _: None))
        stack.enter_context(patch.object(unit, "check_unchanged", lambda *_: None))
        for module in (scan, plan):
            stack.enter_context(patch.object(module, "digest_part", lambda *_: ""))
        for module in (folder, finish):
            stack.enter_context(patch.object(module, "is_whole", lambda path, _: path.is_file()))
        yield
