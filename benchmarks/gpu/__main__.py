"""Run tests and benchmarks on a GPU: `make gpu`, or `python -m benchmarks.gpu`.

Each part runs in its own process. If it fails or exceeds its time, the class of the error is
recorded, and the next part runs. Results are written after each part.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.gpu.page import page
from benchmarks.gpu.part import NO_TIME, measure, run_within
from benchmarks.gpu.scale import FULL, TINY, Scale
from benchmarks.inputs import ROOT

SECONDS = 450
"""Default time limit of all parts in seconds."""
_START_SECONDS = 20
"""Additional seconds of a process, for imports and to finish its last run."""
_LEAST_SECONDS = 15
"""Minimum seconds left to start a part."""
_NEEDED = (
    "accelerate",
    "hypothesis",
    "msgspec",
    "numba",
    "numpy",
    "platformdirs",
    "pyarrow",
    "pytest",
    "tokenizers",
    "torch",
    "transformers",
)
_OPTIONAL = ("triton", "liger-kernel", "cut-cross-entropy")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to make and limit a part.

    Attributes:
        module: Module in `benchmarks.gpu`.
        make: Its function of scale and folder that returns the part. Default: "part".
        options: Further arguments of the function. Default: none.
        seconds: Time limit in a run of `SECONDS`; scaled with `--seconds`.
    """

    module: str
    make: str = "part"
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float


def _training(corpus: str, encoder: str, seconds: float, *, compiled: bool = False) -> Plan:
    options = {"encoder": encoder, "compiled": compiled}
    return Plan(module="speed", make=corpus, options=options, seconds=seconds)


PARTS: Mapping[str, Plan] = {
    "tests": Plan(module="suite", seconds=150),
    "data": Plan(module="data", seconds=60),
    "sentences-bert": _training("sentences", "BERT-base", 75),
    "notes-modernbert": _training("notes", "ModernBERT-base", 75),
    "loss": Plan(module="loss", seconds=30),
    "entities": Plan(module="annotate", seconds=40),
    "sentences-bert-compiled": _training("sentences", "BERT-base", 100, compiled=True),
    "notes-modernbert-compiled": _training("notes", "ModernBERT-base", 100, compiled=True),
    "sentences-modernbert": _training("sentences", "ModernBERT-base", 60),
    "notes-bert": _training("notes", "BERT-base", 60),
}
"""Name -> part, most important first. The last ones run only if time is left."""


def main(arguments: Sequence[str]) -> int:
    """Run parts and return the exit code: 0 if all succeeded and no test failed, else 1.

    `--one FOLDER` runs a single part in this process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="output folder of gpu.json and gpu.md")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="time limit of all parts (default: 450)"
    )
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="run this part only; may be repeated"
    )
    parser.add_argument("--tiny", action="store_true", help="try all parts on a CPU, in tiny sizes")
    parser.add_argument("--one", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    scale = TINY if options.tiny else FULL

    if options.one is not None:
        (name,) = options.part
        run_one(name, scale, options.one, options.seconds)
        return 0

    missing = _missing()
    if missing:
        print(
            f"packages: expected {', '.join(missing)}, found none; carry their wheels as "
            "benchmarks/gpu/README.md says",
            file=sys.stderr,
        )
        return 1
    if scale.device == "cuda" and not _sees_card():
        print(
            "card: expected one that torch sees, found none; --tiny tries all of it on a CPU",
            file=sys.stderr,
        )
        return 1
    if options.out is None and options.tiny:
        parser.error("--tiny: expected --out, as its numbers are no results")

    places = (ROOT / "benchmarks" / "results" / "gpu.json", ROOT / "docs" / "results" / "gpu.md")
    if options.out is not None:
        places = (options.out / "gpu.json", options.out / "gpu.md")
    return run_all(scale, options.part or list(PARTS), options.seconds, *places)


def run_all(
    scale: Scale, names: Sequence[str], seconds: float, as_json: Path, as_page: Path
) -> int:
    """Run parts in order, write the results after each, and return the exit code.

    Args:
        scale: Sizes.
        names: Names of the parts.
        seconds: Time limit of all parts.
        as_json: Path of the JSON file.
        as_page: Path of the Markdown page.
    """
    begun = time.monotonic()
    about = machine(scale)
    parts: list[dict[str, Any]] = []
    for file in (as_json, as_page):
        file.parent.mkdir(parents=True, exist_ok=True)

    with tempfile.TemporaryDirectory(prefix="mslm-gpu-") as folder:
        for name in names:
            left = seconds - (time.monotonic() - begun) - _START_SECONDS
            bound = min(PARTS[name].seconds * seconds / SECONDS, left)
            parts.append(run_part(name, scale, Path(folder), bound))
            results = {
                "machine": about,
                "seconds": time.monotonic() - begun,
                "parts": parts,
            }
            as_json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            as_page.write_text(page(results), encoding="utf-8")

    print(as_page.read_text(encoding="utf-8"))
    broken = [part["title"] for part in parts if part.get("error", NO_TIME) != NO_TIME] + [
        f"{part['title']}: {row['name']}"
        for part in parts
        for row in part["rows"]
        if "error" in row or row.get("numbers", {}).get("failed")
    ]
    for failure in broken:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if broken else 0


def run_part(name: str, scale: Scale, folder: Path, seconds: float) -> dict[str, Any]:
    """Run a part in its own process.

    Args:
        name: Name of the part.
        scale: Sizes.
        folder: Folder shared by all parts, with built corpora.
        seconds: Time limit.

    Returns:
        Title, description, rows and goals of the part, and "error" if it did not finish.
    """
    parts: dict[str, Any] = {"title": name, "about": [], "rows": [], "goals": []}
    if seconds < _LEAST_SECONDS:
        return parts | {"error": NO_TIME}

    print(f"{name} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.gpu", "--part", name, "--one", str(folder)]
    command += ["--seconds", str(seconds), *(["--tiny"] if scale is TINY else [])]
    code, output = run_within(command, seconds + _START_SECONDS)
    print(output, file=sys.stderr, flush=True)

    written = folder / f"{name}.json"
    if written.is_file():
        parts = json.loads(written.read_text(encoding="utf-8"))
    if code is None:
        parts["error"] = "TimeoutExpired"
    elif code:
        parts["error"] = _error_class(output) or f"exit code {code}"
    return parts


def run_one(name: str, scale: Scale, folder: Path, seconds: float) -> None:
    """Run a part in this process."""
    if scale is TINY:
        import torch

        torch.set_num_threads(1)  # tiny tensors are slower with several threads
    plan = PARTS[name]
    make = getattr(importlib.import_module(f"benchmarks.gpu.{plan.module}"), plan.make)
    measure(make(scale, folder, **plan.options), seconds, folder / f"{name}.json")


def machine(scale: Scale) -> list[str]:
    """Describe GPU, processor and package versions, without host name or paths."""
    import torch

    lines = report.machine()
    cards = "no card: a trial, whose numbers are no results"
    if scale.device == "cuda":
        card = torch.cuda.get_device_properties(0)
        cards = (
            f"{card.name}, {card.total_memory / 2**30:.0f} GiB, compute capability "
            f"{card.major}.{card.minor}, CUDA {torch.version.cuda}"
        )
    versions = ", ".join(f"{name} {version}" for name in _OPTIONAL if (version := _version(name)))
    return [cards, *lines, *([versions] if versions else []), f"Commit: {report.commit(ROOT)}"]


def _sees_card() -> bool:
    import torch

    return torch.cuda.is_available()


def _missing() -> list[str]:
    return [name for name in _NEEDED if _version(name) is None]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _error_class(output: str) -> str | None:
    """Return the class of an uncaught error, from the last unindented line of the output."""
    lines = [line for line in output.splitlines() if line and not line[0].isspace()]
    name = lines[-1].split(":")[0].strip() if lines else ""
    return name.rpartition(".")[2] if name.endswith(("Error", "Exception", "Exit")) else None


if __name__ == "__main__":
    # Use one GPU, and suppress the warning of tokenizers about forks.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main(sys.argv[1:]))
