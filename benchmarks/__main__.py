"""Run the benchmarks and write docs/results/speed.md: `python -m benchmarks`.

`python -m benchmarks encode masking` runs two topics and keeps the stored results of the others.
`--try` prints the results without storing them. Each topic runs in its own process, so memory and
threads of earlier topics do not affect it.

The row of a peer that cannot run on this machine gives the reason. A topic that fails keeps its
earlier rows, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import inputs
from benchmarks.harness import Results, is_ours, left_out
from benchmarks.report import PAGE, from_json, page, store, table, to_json

TOPICS = {
    "reading": "Reading",
    "encode": "Encoding",
    "build": "Builds",
    "masking": "Masking",
    "strategies": "Strategies",
    "diffusion": "Masked diffusion",
    "released": "Released code",
    "ngrams": "N-grams",
    "batches": "Batches",
    "loaders": "Loaders",
    "epoch": "Training",
    "loss": "Loss",
    "annotate": "Notes",
    "entities": "Entities",
    "startup": "Start",
    "looking": "Looking",
}
"""Module with `run(inputs, scratch) -> Results` -> title of its section, in page order."""


def main(arguments: Sequence[str], *, root: Path = inputs.ROOT) -> int:
    """Run topics and return the exit code.

    Args:
        arguments: Names of topics (default: all), or `--one TOPIC FOLDER` in a child process.
        root: Checkout in which results are stored.
    """
    if arguments[:1] == ["--one"]:
        return run_one(arguments[1], Path(arguments[2]))

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "topics", nargs="*", metavar="TOPIC", help=f"default: all; {', '.join(TOPICS)}"
    )
    parser.add_argument("--try", action="store_true", help="print results without storing them")
    options = parser.parse_args(arguments)

    topics: list[str] = options.topics
    unknown = sorted(set(topics) - set(TOPICS))
    if unknown:
        known = ", ".join(TOPICS)
        print(f"topics: expected some of {known}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    keep = not getattr(options, "try")

    failed = []
    for name in topics or TOPICS:
        start = time.perf_counter()
        print(f"{name} …", file=sys.stderr, flush=True)

        results = run_in_process(name)
        if results is None:
            failed.append(name)
            continue
        print("\n".join(table(results.rows)), flush=True)
        if keep:
            store(name, results, root=root)
            text = page(TOPICS, root=root)
            (root / PAGE).write_text(text, encoding="utf-8")
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)

    if failed:
        message = f"failed: {', '.join(failed)}; the errors stand above, their earlier rows stay"
        print(message, file=sys.stderr, flush=True)
        return 1
    return 0


def run_in_process(name: str) -> Results | None:
    """Run a topic in a child process. Returns None if it failed; its error is on stderr."""
    with tempfile.TemporaryDirectory(prefix="mslm-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks", "--one", name, folder]
        done = subprocess.run(command, check=False, cwd=inputs.ROOT)
        if done.returncode:
            return None
        return from_json((Path(folder) / "results.json").read_text(encoding="utf-8"))


def run_one(name: str, scratch: Path) -> int:
    """Run a topic in this process and write `results.json` to `scratch`."""
    corpus = inputs.find(scratch)
    results = measure(name, corpus, scratch)
    results.inputs.insert(0, f"Input: {corpus.description}")

    (scratch / "results.json").write_text(to_json(results), encoding="utf-8")
    return 0


def measure(name: str, corpus: inputs.Inputs, scratch: Path) -> Results:
    """Run a topic, or return a single row with the reason if a package is not installed.

    Raises:
        ImportError: An import from this checkout fails.
    """
    try:
        results: Results = importlib.import_module(f"benchmarks.{name}").run(corpus, scratch)
    except ImportError as error:
        if is_ours(error):
            raise
        return Results(rows=[left_out(name, str(error))])
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
