"""`python -m benchmarks [FILE …]`: run the suite, each file in a process of its own, and write RESULTS.md.

With names of files (`encode masking`) only these are run, and nothing is written.
"""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import inputs
from benchmarks.harness import Results
from benchmarks.report import page, table

FILES = (
    "reading",
    "encode",
    "masking",
    "strategies",
    "released",
    "ngrams",
    "batches",
    "loaders",
    "loss",
    "annotate",
    "startup",
)
"""One file a topic, in the order of the table; each has `run(inputs, scratch) -> Results`."""


def main(arguments: list[str]) -> int:
    """Run all, or what is named."""
    if arguments[:1] == ["--one"]:
        return one(arguments[1], Path(arguments[2]))
    unknown = set(arguments) - set(FILES)
    if unknown:
        print(
            f"expected names among {', '.join(FILES)}, got {', '.join(sorted(unknown))}",
            file=sys.stderr,
        )
        return 2
    results = Results()
    for name in arguments or FILES:
        start = time.perf_counter()
        print(f"{name} …", file=sys.stderr, flush=True)
        got = in_process(name)
        results.rows += got.rows
        results.inputs += got.inputs
        print("\n".join(table(got.rows)), flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if not arguments:
        text = page(results.rows, results.inputs, root=inputs.ROOT)
        (inputs.ROOT / "benchmarks" / "RESULTS.md").write_text(text, encoding="utf-8")
        print("\n" + text)
    return 0


def in_process(name: str) -> Results:
    """Run one file in a process of its own, so that none meets the memory and the threads of another."""
    with tempfile.TemporaryDirectory(prefix="mslm-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks", "--one", name, folder]
        if subprocess.run(command, check=False, cwd=inputs.ROOT).returncode:
            raise SystemExit(f"{name}: ended by an error, which stands above; nothing was written")
        results = pickle.loads((Path(folder) / "results").read_bytes())  # noqa: S301 - written by ourselves just now
    assert isinstance(results, Results)  # noqa: S101
    return results


def one(name: str, scratch: Path) -> int:
    """Run one file here and leave its results in `scratch`."""
    found = inputs.find(scratch)
    results = importlib.import_module(f"benchmarks.{name}").run(found, scratch)
    results.inputs.insert(0, f"Input: {found.says}")
    (scratch / "results").write_bytes(pickle.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
