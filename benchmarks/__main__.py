"""Run the suite and write docs/results/speed.md: `python -m benchmarks`.

`python -m benchmarks encode masking` measures these topics anew and keeps the rows of the others;
with `--try` it prints and writes nothing. Each topic runs in a process of its own, so that none
meets the memory and the threads of another.

A peer that cannot run here leaves its row out, with the reason in its place. A topic that fails
keeps its earlier rows: the end names it, and the exit code is 1.
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
from benchmarks.report import PAGE, as_json, of_json, page, store, table

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
    "mixing": "Mixing and packing",
    "loaders": "Loaders",
    "epoch": "Training",
    "loss": "Loss",
    "annotate": "Notes",
    "entities": "Entities",
    "startup": "Start",
    "looking": "Looking",
}
"""Module -> title of its section, in their order; each has `run(inputs, scratch) -> Results`."""


def main(arguments: Sequence[str], *, root: Path = inputs.ROOT) -> int:
    """Run all topics or those that are named, and return the exit code.

    Args:
        arguments: Names of topics, none for all; or `--one` with a topic and a folder.
        root: The checkout whose results are kept.
    """
    if arguments[:1] == ["--one"]:
        return run_one(arguments[1], Path(arguments[2]))

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}")
    parser.add_argument("--try", action="store_true", help="keep nothing, and write no page")
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

        found = run_in_process(name)
        if found is None:
            failed.append(name)
            continue
        print("\n".join(table(found.rows)), flush=True)
        if keep:
            store(name, found, root=root)
            text = page(TOPICS, root=root)
            (root / PAGE).write_text(text, encoding="utf-8")
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)

    if failed:
        message = f"failed: {', '.join(failed)}; the errors stand above, their earlier rows stay"
        print(message, file=sys.stderr, flush=True)
        return 1
    return 0


def run_in_process(name: str) -> Results | None:
    """Run one topic in a process of its own. Returns None where it failed, after its error."""
    with tempfile.TemporaryDirectory(prefix="mslm-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks", "--one", name, folder]
        done = subprocess.run(command, check=False, cwd=inputs.ROOT)
        if done.returncode:
            return None
        return of_json((Path(folder) / "results.json").read_text(encoding="utf-8"))


def run_one(name: str, scratch: Path) -> int:
    """Run one topic in this process and leave its results in `scratch`."""
    found = inputs.find(scratch)
    results = measure(name, found, scratch)
    results.inputs.insert(0, f"Input: {found.says}")

    (scratch / "results.json").write_text(as_json(results), encoding="utf-8")
    return 0


def measure(name: str, found: inputs.Inputs, scratch: Path) -> Results:
    """Run one topic. Where what it imports is not installed, one row says so instead of its rows.

    Raises:
        ImportError: A module of this checkout lacks something: a mistake, not a missing peer.
    """
    try:
        results: Results = importlib.import_module(f"benchmarks.{name}").run(found, scratch)
    except ImportError as error:
        if is_ours(error):
            raise
        return Results(rows=[left_out(name, str(error))])
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
