"""Writes the dataset card of a built folder, with metadata for the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mslm_data.io.cards import markdown, yaml
from mslm_data.shard.agreement import pairs
from mslm_data.shard.manifest import Manifest

_PROTECTED = (
    "**Patients' text: token ids can be turned back into it. "
    "Protect this folder as you protect the notes.**"
)
_FACTS = (("Home", "homepage"), ("Licence of the source", "licence"), ("Please cite", "citation"))
_NOT_A_NAME = re.compile(r"[^a-z0-9.]+")
_LONGEST_NAME = 60
"""Maximum number of characters of `license_name`. The card has the full licence below."""
_GOLD = ("gold", "none")
"""Annotators without a model, whose mentions are not machine-generated."""
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
"""Bounds of the hub's size categories, each 10 times the one before."""


def card(manifest: Manifest) -> str:
    """Return a folder's README: its contents, licence and origin, and how to read it."""
    about = manifest.about
    lines = ["---", *_metadata(manifest), "---", ""]
    lines += [f"# {markdown(about['title'] or manifest.name)}", ""]
    if about["protected"]:
        lines += [_PROTECTED, ""]
    lines += [f"* {name}: {markdown(about[key])}" for name, key in _FACTS if about[key]]
    lines += [f"* Labels: {', '.join(map(markdown, manifest.labels)) or 'none'}"]
    if manifest.doc_labels:
        lines += [f"* Labels of documents: {', '.join(map(markdown, manifest.doc_labels))}"]
    lines += [""]

    if manifest.subset:
        draws = ", then ".join(
            f"{drawn['documents']:,} documents of {markdown(drawn['split'])} by seed "
            f"{drawn['seed']}"
            for drawn in manifest.draws
        )
        lines[-1:] = [f"* A subset: {draws} with `mslm-data subset`; other splits are whole", ""]
    lines += ["## Counts", "", *_counts(manifest), *_not_chosen(manifest)]
    lines += [*_mentions(manifest), *_agreement(manifest)]

    lines += [
        "## How it was made",
        "",
        f"Built by mslm-data {manifest.versions['mslm-data']} with the pipeline "
        f"{markdown(manifest.name)},",
        f"source {markdown(manifest.pipeline['source']['use'])}.",
        "`manifest.json` has every option, the digest of every input and of the tokenizer, and the",
        "checksum of every shard.",
        "",
        *_READING,
        "",
    ]
    return "\n".join(lines)


_READING = """\
## How to read it

```python
import mslm_data as md
shards = md.load("this folder")          # masks, batches, statistics

from datasets import load_dataset, load_from_disk
rows = load_from_disk("this folder")     # memory-maps the shards
rows = load_dataset("this folder")       # or a repository; copies rows into its cache
```

The shards are Arrow IPC streams with a file footer.

| library | function |
|---|---|
| datasets | `load_from_disk`, `load_dataset`, `Dataset.from_file` |
| pyarrow | `ipc.open_stream`, `ipc.open_file`, `dataset.dataset(..., format="ipc")` |
| polars | `read_ipc`, `scan_ipc`, `read_ipc_stream` |
| pandas, DuckDB | through a pyarrow dataset: `.to_table().to_pandas()`, `duckdb.sql("from rows")` |

`pandas.read_feather`, `pyarrow.feather` and DuckDB's file paths do not work; use parquet from
`mslm-data export` instead. Select shards with `data-*.arrow`, because `datasets` caches its own
files beside them.
""".splitlines()


# Metadata -----------------------------------------------------------------------------------------


def _metadata(manifest: Manifest) -> Iterator[str]:
    """Yield the lines of the YAML header, as far as the values are known."""
    about = manifest.about
    if about["title"]:
        yield f"pretty_name: {yaml(about['title'])}"
    yield from _list("language", about.get("language", ()))
    yield from _licence(about["licence"], about.get("licence_id", ""))

    # Tasks that the rows can train: mentions for token, document labels for text classification.
    weak = manifest.pipeline["annotate"]["use"] not in _GOLD
    has_classes = bool(manifest.doc_labels)
    tasks = {
        "fill-mask": ("masked-language-modeling", True),
        "token-classification": ("named-entity-recognition", bool(manifest.labels)),
        "text-classification": ("multi-class-classification", has_classes),
    }
    yield from _list("task_categories", [task for task, (_, fits) in tasks.items() if fits])
    yield from _list("task_ids", [name for name, fits in tasks.values() if fits])
    yield from _list("annotations_creators", ["machine-generated"] if weak else [])
    rows = sum(split.sequences for split in manifest.splits.values())
    yield from _list("size_categories", [size_category(rows)])
    yield from _list("tags", ["mslm-data", *about.get("tags", ())])

    yield "configs:"
    yield f"- config_name: {yaml(manifest.name.replace('/', '-'))}"
    yield "  data_files:"
    for split in manifest.splits:
        yield f"  - split: {yaml(split)}"
        yield f"    path: {yaml(split + '/data-*.arrow')}"


def _list(name: str, values: Sequence[str]) -> Iterator[str]:
    """Yield a YAML list; nothing if it is empty."""
    if values:
        yield f"{name}:"
        yield from (f"- {yaml(value)}" for value in values)


def _licence(words: str, identifier: str) -> Iterator[str]:
    """Yield the licence by its hub identifier; otherwise as `other` with a name, or `unknown`."""
    if identifier:
        yield f"license: {yaml(identifier)}"
    elif not words or words.startswith("unknown"):
        yield "license: unknown"
    else:
        name = _NOT_A_NAME.sub("-", words.partition(":")[0].lower())[:_LONGEST_NAME].strip("-.")
        yield "license: other"
        yield f"license_name: {yaml(name or 'other')}"


def size_category(rows: int) -> str:
    """Return the hub's size category for a number of rows, such as `1K<n<10K`."""
    limits = [10 ** (3 + k) for k in range(len(_SIZES))]
    if rows < limits[0]:
        return f"n<{_SIZES[0]}"
    for limit, low, high in zip(limits[1:], _SIZES, _SIZES[1:], strict=False):
        if rows < limit:
            return f"{low}<n<{high}"
    return f"n>{_SIZES[-1]}"


# Counts -------------------------------------------------------------------------------------------


def _counts(manifest: Manifest) -> Iterator[str]:
    """Yield the table of splits, which accounts for each record of the source."""
    yield "| split | records | documents | set aside | not chosen | rows | tokens | mentions |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, split in manifest.splits.items():
        not_chosen = sum(split.not_chosen.values())
        records = split.read + not_chosen
        documents = (records, split.written, split.set_aside, not_chosen)
        counts = (*documents, split.sequences, split.tokens, split.mentions)
        yield f"| {markdown(name)} | {' | '.join(f'{count:,}' for count in counts)} |"
    yield ""
    yield "Each record of the source is either a document with rows, set aside with a reason in"
    yield "`set_aside.jsonl`, or not chosen by the options of the pipeline."
    yield ""


def _not_chosen(manifest: Manifest) -> list[str]:
    """Return the list of records outside the corpus, by reason."""
    reasons = [
        f"* {markdown(name)}: {count:,} ({markdown(reason)})"
        for name, split in manifest.splits.items()
        for reason, count in split.not_chosen.items()
    ]
    return ["Records that were not chosen:", "", *reasons, ""] if reasons else []


def _mentions(manifest: Manifest) -> list[str]:
    """Return the list of mentions left out or cut, by reason."""
    reasons = []
    for name, split in manifest.splits.items():
        for reason, count in split.left_out.items():
            reasons.append(f"* {markdown(name)}: {count:,} left out ({markdown(reason)})")
    for name, split in manifest.splits.items():
        if split.cut_mentions:
            pieces = split.cut_mentions + split.cut_pieces
            reasons.append(
                f"* {markdown(name)}: {split.cut_mentions:,} longer than a row, cut into {pieces:,}"
            )

    if not reasons:
        return []
    return ["Mentions left out or cut:", "", *reasons, ""]


def _agreement(manifest: Manifest) -> list[str]:
    """Return the table of agreement between annotators."""
    if manifest.found_by is None:
        return []
    lines = [
        "## Agreement of the annotators",
        "",
        "Mentions found by each annotator, by both with the same characters, and F1:",
        "",
        "| label | first | second | of first | of second | both | F1 |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for pair in pairs(manifest.found_by):
        words = " | ".join(map(markdown, (pair.label, pair.first, pair.second)))
        counts = " | ".join(f"{count:,}" for count in (pair.of_first, pair.of_second, pair.both))
        lines.append(f"| {words} | {counts} | {pair.f1:.3f} |")
    return [*lines, ""]
