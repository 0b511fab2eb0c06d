"""Write RESULTS.md: the table, who was compared with whom, and on which machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.harness import MISSED, Row, number

PAGES = {
    "experiments.finetune": "What masking does to NER",
    "benchmarks.growth": "How cost grows with the corpus",
    "benchmarks.faults": "Builds that are killed",
    "benchmarks.slurm": "Array jobs on Slurm that are requeued and cancelled",
    "benchmarks.soak": "Builds, loads, kills and damaged files in a loop",
}
"""Module of a program that is run alone -> the subject of its page."""
TOPIC_PAGES = {"RESULTS-build.md": ("Builds", "build")}
"""Page of topics that were measured later than the others -> its subject, and the topics."""
HEADER = ("row", "unit", "ours", "peer", "limit", "ours / peer", "ours / limit", "goal", "met")
PACKAGES = (
    "mslm-data",
    "numpy",
    "numba",
    "pyarrow",
    "tokenizers",
    "torch",
    "transformers",
    "datasets",
    "nltk",
    "medcat",
    "spacy",
)


def page(rows: Sequence[Row], inputs: Iterable[str], *, root: Path) -> str:
    """Return RESULTS.md.

    Args:
        rows: The rows of the table, in order.
        inputs: Lines about the inputs.
        root: The checkout, for its commit.
    """
    return "\n".join(
        [
            "# Results",
            "",
            "Written by `python -m benchmarks` (`make bench`). Ours, the peer and the limit ran in "
            "turn on the same input, in one",
            "process unless said; ratios are medians of the rounds' ratios, with the least and the "
            "greatest. Rates are of this",
            "machine; only ratios mean anything elsewhere. Of memory (MiB), less is better.",
            "",
            *table(rows),
            "",
            *_other_pages(root),
            *_missed(rows),
            "## Who is compared",
            "",
            *[f"* **{row.name}**: {row.what}" for row in rows],
            "",
            "## On what",
            "",
            *[
                f"* {line}"
                for line in [*machine(), f"Commit: {commit(root)}", *dict.fromkeys(inputs)]
            ],
            "",
        ]
    )


def _missed(rows: Sequence[Row]) -> list[str]:
    """List the goals that were missed, and what stands in the way."""
    missed = [
        f"* **{row.name}**{f': {row.why}' if row.why else ''}" for row in rows if row.met == MISSED
    ]
    return ["## Goals missed", "", *(missed or ["None."]), ""]


def _other_pages(root: Path) -> list[str]:
    """List the pages of the programs that are run alone, if their results exist."""
    lines = []
    for module, what in PAGES.items():
        room, name = module.split(".")
        page_name = f"RESULTS-{name}.md"
        if (root / room / page_name).is_file():
            link = page_name if room == "benchmarks" else f"../{room}/{page_name}"
            lines.append(f"* {what}, by `python -m {module}`: [{page_name}]({link})")
    for page_name, (what, topics) in TOPIC_PAGES.items():
        if (root / "benchmarks" / page_name).is_file():
            lines.append(
                f"* {what}, by `python -m benchmarks {topics}`: [{page_name}]({page_name})"
            )
    return ["Run alone:", "", *lines, ""] if lines else []


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table."""
    cells = [
        (
            row.name,
            row.unit,
            *("-" if rate is None else number(rate) for rate in (row.ours, row.peer, row.limit)),
            *("-" if ratio is None else str(ratio) for ratio in (row.vs_peer, row.vs_limit)),
            row.goal,
            row.met,
        )
        for row in rows
    ]
    lines = [HEADER, ("---", "---", *["---:"] * 5, "---", "---"), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]


def machine() -> list[str]:
    """Describe this machine in two lines, without its name or a path."""
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))

    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return [
        f"{_cpu()}, {cores} cores",
        f"{platform.system()}, Python {platform.python_version()}; {versions}",
    ]


def commit(root: Path) -> str:
    """Return the checkout's short commit, with `+dirty` where a file other than reports differs."""
    reports = ("RESULTS.md", *TOPIC_PAGES, *(f"RESULTS-{name}.md" for name in PAGES))
    try:
        head = _git(root, "rev-parse", "--short", "HEAD")
        changed = [
            line
            for line in _git(root, "status", "--porcelain").splitlines()
            if not line.endswith(reports)
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+dirty" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip("\n")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(absent)"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
