"""Run the benchmarks and write docs/results: `python -m benchmarks`.

`python -m benchmarks encode masking` runs two topics and keeps the stored results of the others.
`--try` prints the results without storing them. Each topic that compares rates runs in its own
process, so memory and threads of earlier topics do not affect it. They are sections of
docs/results/speed.md.

Topics with pages of their own take long and run only by name, such as `python -m benchmarks faults
--set kills=20`. They have options; `--try --set` with small numbers tries them.

The row of a peer that cannot run on this machine gives the reason. A topic that fails keeps its
earlier results, and the exit code is 1. `--pages` writes the pages from the stored results.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import inputs
from benchmarks.harness import AbsentError, Results, is_ours, left_out
from benchmarks.report import from_json, own_page, store, table, to_json, write_pages

TOPICS = {
    "encode": "Encoding",
    "build": "Builds",
    "masking": "Masking",
    "strategies": "Strategies",
    "diffusion": "Masked diffusion",
    "objectives": "Decoders and encoder-decoders",
    "released": "Released code",
    "ngrams": "N-grams",
    "loaders": "Loaders",
    "epoch": "Training",
    "loss": "Loss",
    "annotate": "Notes",
    "entities": "Entities",
    "startup": "Start",
}
"""Module with `run(inputs, scratch) -> Results` -> title of its section, in page order."""
PAGES = {
    "growth": ("How cost grows with the corpus", "docs/results/growth.md"),
    "faults": ("Builds that are killed", "docs/results/faults.md"),
    "remote": ("Splits that come from S3", "docs/results/remote.md"),
    "slurm": ("Array jobs on Slurm, requeued and cancelled", "docs/results/slurm.md"),
    "variance": ("Variance of the loss of masked diffusion", "docs/results/diffusion.md"),
    "soak": ("Builds, loads, kills and damaged files in a loop", "docs/results/soak.md"),
}
"""Module with `run(inputs, scratch, **options) -> Results` -> title and path of its page."""


def main(arguments: Sequence[str], *, root: Path = inputs.ROOT) -> int:
    """Run topics and return the exit code.

    Args:
        arguments: Names of topics (default: all without a page of their own), or `--one TOPIC
            FOLDER` in a child process.
        root: Checkout in which results are stored.
    """
    if arguments[:1] == ["--one"]:
        return run_one(arguments[1], Path(arguments[2]))

    options = _parse(arguments)
    if options.pages:
        write_pages(TOPICS, PAGES, root=root)
        return 0

    # Clean up as after Ctrl-C: end processes, delete scratch folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    failed = []
    for name in options.topics or TOPICS:
        start = time.perf_counter()
        print(f"{name} …", file=sys.stderr, flush=True)

        results = run_page(name, options.set) if name in PAGES else run_in_process(name)
        if results is None:
            failed.append(name)
            continue

        if name in PAGES:
            print(own_page(name, PAGES[name][0], results), flush=True)
        else:
            print("\n".join(table(results.rows)), flush=True)
        is_measured = results.rows or results.tables
        if is_measured and not options.trial:
            store(name, results, root=root)
            write_pages(TOPICS, PAGES, root=root)
        if results.failures:
            failed.append(name)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)

    if failed:
        message = f"failed: {', '.join(failed)}; see above, without results the earlier ones stay"
        print(message, file=sys.stderr, flush=True)
        return 1
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse and check the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "topics",
        nargs="*",
        metavar="TOPIC",
        help=f"default: {', '.join(TOPICS)}; with pages of their own: {', '.join(PAGES)}",
    )
    parser.add_argument(
        "--try", action="store_true", dest="trial", help="print results without storing them"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of a topic with a page, a JSON value",
    )
    parser.add_argument(
        "--pages", action="store_true", help="write the pages from the stored results, run nothing"
    )
    options = parser.parse_args(arguments)

    known = [*TOPICS, *PAGES]
    unknown = sorted(set(options.topics) - set(known))
    if unknown:
        parser.error(f"topics: expected some of {', '.join(known)}, got {', '.join(unknown)}")
    pages = [name for name in options.topics if name in PAGES]
    if options.set and (len(pages) != 1 or len(options.topics) != 1):
        parser.error(f"--set: expected one topic with a page, of {', '.join(PAGES)}")
    options.set = dict(_parse_option(parser, pages[0], text) for text in options.set)
    return options


def _parse_option(parser: argparse.ArgumentParser, topic: str, text: str) -> tuple[str, Any]:
    """Return name and value of an option of a topic, which are the keywords of its `run`."""
    parameters = inspect.signature(importlib.import_module(f"benchmarks.{topic}").run).parameters
    names = [name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY]
    name, _, value = text.partition("=")
    if name not in names:
        parser.error(f"--set: expected one of {', '.join(names)}, got '{name}'")
    with contextlib.suppress(ValueError):
        return name, json.loads(value)
    return name, value


def run_page(name: str, options: Mapping[str, Any]) -> Results:
    """Run a topic with a page in this process, as it starts processes that must end with it.

    Returns empty results if it cannot run on this machine; the reason is on stderr.
    """
    with tempfile.TemporaryDirectory(prefix=f"mslm-{name}-") as folder:
        try:
            module = importlib.import_module(f"benchmarks.{name}")
            results: Results = module.run(inputs.find(Path(folder)), Path(folder), **options)
        except AbsentError as absent:
            print(f"{name}: left out: {absent}", file=sys.stderr, flush=True)
            return Results()
    return results


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
