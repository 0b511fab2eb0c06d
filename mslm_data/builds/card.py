"""Writes the dataset card of a built folder, with metadata for the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mslm_data.io.cards import markdown, yaml
from mslm_data.shard.manifest import Manifest

_PROTECTED = (
    "**Patients' text: token ids can be turned back into it. "
    "Protect this folder as you protect the notes.**"
)
_FACTS = (("Home", "homepage"), ("Licence of the source", "licence"), ("Please cite", "citation"))


def card(manifest: Manifest) -> str:
    """Return a folder's README: its contents, licence and origin, and how to read it."""
    about = manifest.about
    lines = ["---", *_metadata(manifest), "---", ""]
    lines += [f"# {markdown(about.get('title') or manifest.name)}", ""]
    if about.get("protected"):
        lines += [_PROTECTED, ""]

    lines += [f"* {name}: {markdown(about[key])}" for name, key in _FACTS if about.get(key)]
    lines += [f"* Labels: {', '.join(map(markdown, manifest.labels)) or 'none'}"]
    if manifest.doc_labels:
        lines += [f"* Labels of documents: {', '.join(map(markdown, manifest.doc_labels))}"]
    if manifest.subset:
        draws = ", then ".join(
            f"{drawn['documents']:,} documents of {markdown(drawn['split'])}{_how(drawn)}"
            for drawn in manifest.draws
        )
        lines += [f"* A subset: {draws} with `mslm-data subset`; other splits are whole"]

    lines += ["", "## Counts", "", *_counts(manifest), ""]
    lines += [
        "## How it was made",
        "",
        f"Built by mslm-data {manifest.versions['mslm-data']} with the pipeline "
        f"{markdown(manifest.name)},",
        f"source {markdown(manifest.pipeline['source']['use'])}, mentions by "
        f"{markdown(manifest.pipeline['annotate']['use'])}.",
        "`manifest.json` has every option, the digest of every input and of the tokenizer, and the",
        "checksum of every shard. It counts what was left out, by reason.",
        "",
        *_READING,
        "",
    ]
    return "\n".join(lines)


def _how(drawn: Mapping[str, Any]) -> str:
    """Return how the documents of a subset were chosen, in words."""
    how = f" by seed {drawn['seed']}" if "seed" in drawn else ""
    if "term_share" in drawn:
        low, high = drawn["term_share"]
        label = f" labelled {markdown(drawn['label'])}" if "label" in drawn else ""
        how += f" with {low:g} to {high:g} of their tokens in mentions{label}"
    return how


_READING = """\
## How to read it

```python
import mslm_data as md
shards = md.load("this folder")          # masks, batches, statistics

from datasets import load_dataset, load_from_disk
rows = load_from_disk("this folder")     # memory-maps the shards
rows = load_dataset("this folder")       # or a repository; copies rows into its cache
```

The shards `data-*.arrow` are Arrow IPC streams with a file footer. They can be read by pyarrow
(`ipc.open_stream`, `ipc.open_file`, `dataset.dataset(..., format="ipc")`) and polars (`read_ipc`,
`scan_ipc`), but not by `pandas.read_feather` or as a file of DuckDB. `mslm-data export` writes
parquet for these.
""".splitlines()


def _metadata(manifest: Manifest) -> Iterator[str]:
    """Yield the lines of the YAML header, as far as the values are known."""
    about = manifest.about
    if about.get("title"):
        yield f"pretty_name: {yaml(about['title'])}"
    yield from _list("language", about.get("language", ()))
    yield f"license: {yaml(_licence(about))}"

    # Tasks that the rows can train.
    fits = {
        "fill-mask": True,
        "token-classification": bool(manifest.labels),
        "text-classification": bool(manifest.doc_labels),
    }
    yield from _list("task_categories", [task for task in fits if fits[task]])
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


def _licence(about: Mapping[str, Any]) -> str:
    """Return the hub's identifier of the licence, `other`, or `unknown`."""
    if about.get("licence_id"):
        return str(about["licence_id"])
    words = about.get("licence", "")
    return "other" if words and not words.startswith("unknown") else "unknown"


def _counts(manifest: Manifest) -> Iterator[str]:
    """Yield the table of splits, which accounts for each record and mention of the source."""
    yield (
        "| split | records | not chosen | set aside | documents | rows | tokens | mentions given "
        "| left out | in rows |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name, split in manifest.splits.items():
        not_chosen = sum(split.not_chosen.values())
        counts = (
            split.read + not_chosen,
            not_chosen,
            split.read - split.written,
            split.written,
            split.sequences,
            split.tokens,
            split.given_mentions,
            sum(split.left_out.values()),
            split.mentions,
        )
        yield f"| {markdown(name)} | {' | '.join(f'{count:,}' for count in counts)} |"
    yield ""
    yield "Each record of the source is either a document with rows, set aside with a reason in"
    yield "`set_aside.jsonl`, or not chosen by the options of the pipeline. Mentions longer than a"
    yield "row are cut, so rows may have more mentions than are given."
