"""Store results, and render docs/results.

Each topic is stored as `benchmarks/results/TOPIC.json`, so topics can be run separately. Those that
compare rates are sections of docs/results/speed.md, the others have pages of their own.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import MISSED, Ratio, Results, Row, Table, number

SPEED = "docs/results/speed.md"
"""Page of the topics that compare rates."""
OTHERS = (
    ("What masking does to NER", "experiments.page", "docs/results/evidence.md"),
    ("Training and annotating on a graphics card", "benchmarks.gpu", "docs/results/gpu.md"),
)
"""Subject, module and path of the pages of other programs."""
_MADE = ("docs/results/", "benchmarks/results/", "experiments/results/")
"""Generated files, ignored when deciding whether the checkout has uncommitted changes."""
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


def store(name: str, results: Results, *, root: Path) -> None:
    """Write the results of a topic to `benchmarks/results`, replacing those of the last run.

    Args:
        name: Name of the topic.
        results: Results measured on this machine. `machine` is set.
        root: The checkout.
    """
    results.machine = [*machine(), f"Commit: {commit(root)}"]
    folder = root / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(to_json(results), encoding="utf-8")


def stored(name: str, *, root: Path) -> Results | None:
    """Return the stored results of a topic, None if there are none."""
    path = root / "benchmarks" / "results" / f"{name}.json"
    return from_json(path.read_text(encoding="utf-8")) if path.is_file() else None


def to_json(results: Results) -> str:
    """Serialise results as JSON."""
    return json.dumps(asdict(results), indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Results:
    """Parse results serialised by `to_json`."""
    stored = json.loads(text)
    for row in stored.get("rows", []):
        for ratio in ("vs_peer", "vs_limit"):
            row[ratio] = row[ratio] and Ratio(**row[ratio])
    rows = [Row(**row) for row in stored.get("rows", [])]
    tables = [Table(**table) for table in stored.get("tables", [])]
    return Results(**stored | {"rows": rows, "tables": tables})


def write_pages(
    topics: Mapping[str, str], pages: Mapping[str, tuple[str, str]], *, root: Path
) -> None:
    """Write all pages from the stored results.

    Args:
        topics: Topic of docs/results/speed.md -> title of its section, in page order.
        pages: Topic with a page of its own -> title and path of the page.
        root: The checkout.
    """
    for name, (title, path) in pages.items():
        results = stored(name, root=root)
        if results:
            (root / path).write_text(own_page(name, title, results), encoding="utf-8")

    # Last, as it lists the pages that exist.
    (root / SPEED).write_text(speed_page(topics, pages, root=root), encoding="utf-8")


def own_page(name: str, title: str, results: Results) -> str:
    """Render the page of a topic: text, failures, tables, inputs and machine."""
    lines = [
        f"# {title}",
        "",
        *_paragraphs(f"Written by `python -m benchmarks {name}`. {results.about}"),
        *[f"* Failed: {failure}" for failure in results.failures],
        *([""] if results.failures else []),
    ]
    for table in results.tables:
        lines += [f"## {table.title}", ""] if table.title else []
        lines += _paragraphs(table.about)
        lines += [*markdown_table(table.header, table.rows, align=table.align), ""]
    about = dict.fromkeys([*results.inputs, *results.machine])
    return "\n".join([*lines, *[f"* {line}" for line in about], ""])


def _paragraphs(text: str) -> list[str]:
    """Wrap paragraphs, each followed by an empty line."""
    lines = []
    for paragraph in text.strip().split("\n\n"):
        first, *items = f"\n{paragraph}".split("\n* ")
        lines += _wrapped(first)
        for item in items:
            lines += _wrapped(item, first="* ", others="  ")
        lines.append("")
    return lines if text.strip() else []


def _wrapped(text: str, *, first: str = "", others: str = "") -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        100,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def speed_page(
    topics: Mapping[str, str], pages: Mapping[str, tuple[str, str]], *, root: Path
) -> str:
    """Render the stored results of the topics that compare rates. See `write_pages`."""
    kept = {name: stored(name, root=root) for name in topics}
    sections = [
        line
        for name, results in kept.items()
        if results
        for line in _section(name, topics[name], results)
    ]
    rows = [row for results in kept.values() if results for row in results.rows]
    return "\n".join(
        [
            "# Results of the benchmarks",
            "",
            "Written by `python -m benchmarks` (`make bench`), each section by a run of its own. "
            "Ours, the peer and the limit",
            "ran in turn on the same input, in one process unless said; ratios are medians of the "
            "rounds' ratios, with the least",
            "and the greatest. Rates are of this machine; only ratios mean anything elsewhere. Of "
            "memory (MiB), less is better.",
            "",
            *_other_pages(pages, root),
            *_missed(rows),
            *sections,
        ]
    )


def _section(name: str, title: str, results: Results) -> list[str]:
    """Render title, table, descriptions of the rows, inputs and machine of a topic."""
    about = [*results.inputs, *results.machine]
    return [
        f"## {title}",
        "",
        f"`python -m benchmarks {name}`",
        "",
        *table(results.rows),
        "",
        *[f"* **{row.name}**: {row.what}" for row in results.rows],
        "",
        "On what:",
        "",
        *[f"* {line}" for line in dict.fromkeys(about)],
        "",
    ]


def _missed(rows: Sequence[Row]) -> list[str]:
    """Render the section about missed goals."""
    missed = [
        f"* **{row.name}**{f': {row.why}' if row.why else ''}" for row in rows if row.met == MISSED
    ]
    return ["## Goals missed", "", *(missed or ["None."]), ""]


def _other_pages(pages: Mapping[str, tuple[str, str]], root: Path) -> list[str]:
    """List the existing pages beside docs/results/speed.md."""
    others = [(title, f"benchmarks {name}", path) for name, (title, path) in pages.items()]
    lines = []
    for title, command, path in (*OTHERS, *others):
        if (root / path).is_file():
            link = os.path.relpath(path, Path(SPEED).parent)
            lines.append(f"* {title}, by `python -m {command}`: [{Path(path).name}]({link})")
    return ["Pages of their own:", "", *lines, ""] if lines else []


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of a topic."""
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
    return markdown_table(HEADER, cells, align="llrrrrrll")


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, align: str
) -> list[str]:
    """Return the lines of a Markdown table.

    Args:
        header: Titles of the columns.
        rows: Cells of each row.
        align: A letter for each column, "l" (left) or "r" (right).
    """
    rules = [{"l": "---", "r": "---:"}[letter] for letter in align]
    return [f"| {' | '.join(map(str, cells))} |" for cells in (header, rules, *rows)]


def machine() -> list[str]:
    """Describe processor, system and package versions in two lines, without host name or paths."""
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))

    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return [
        f"{_cpu()}, {cores} cores",
        f"{platform.system()}, Python {platform.python_version()}; {versions}",
    ]


def commit(root: Path) -> str:
    """Return the short commit hash, with `+dirty` if files other than generated ones changed."""
    try:
        head = _git(root, "rev-parse", "--short", "HEAD")
        changed = [
            line
            for line in _git(root, "status", "--porcelain").splitlines()
            if not line[3:].startswith(_MADE)
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
