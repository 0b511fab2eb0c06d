"""The dataset card: a folder's README.md."""

from __future__ import annotations

from mslm_data.shard.manifest import Manifest


def card(manifest: Manifest) -> str:
    """Return the card: what this is, how much, under which licence, how it was made, how to read it."""
    about = manifest.about
    lines = [
        "---",
        "configs:",
        f"- config_name: {manifest.name.replace('/', '-')}",
        "  data_files:",
    ]
    for split in manifest.splits:
        lines += [f"  - split: {split}", f"    path: {split}/data-*.arrow"]
    lines += ["---", "", f"# {about['title'] or manifest.name}", ""]
    if about["protected"]:
        lines += [
            "**Patients' text: token ids can be turned back into it. Treat this folder as you treat the notes.**",
            "",
        ]
    lines += [f"* {name}: {about[key]}" for name, key in _FACTS if about[key]]
    lines += [f"* Labels: {', '.join(manifest.labels) or 'none'}", "", "## Counts", ""]
    lines += [
        "| split | documents | sequences | tokens | mentions | set aside |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, of in manifest.splits.items():
        counts = (of.written, of.sequences, of.tokens, of.mentions, of.set_aside)
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
    lines += ["", *_mentions(manifest), "## How it was made", ""]
    lines += [
        f"By mslm-data {manifest.versions['mslm-data']} with the pipeline `{manifest.name}`; `manifest.json` has every",
        "option, the digest of every input and of the tokenizer, and the checksum of every shard.",
        "",
        "## How to read it",
        "",
        "```python",
        "import mslm_data as md",
        'shards = md.load("this folder")',
        "",
        "from datasets import load_from_disk",
        'rows = load_from_disk("this folder")',
        "```",
        "",
    ]
    return "\n".join(lines)


_PROTECTED = "Patients' text: token ids can be turned back into it. Treat this folder as you treat the notes."
_FACTS = (("Home", "homepage"), ("Licence of the source", "licence"), ("Please cite", "citation"))


def _mentions(manifest: Manifest) -> list[str]:
    """Account for the source's mentions that are in no row, and for those that a row's end cuts."""
    reasons = [
        f"* {name}: {count:,} left out ({reason})"
        for name, split in manifest.splits.items()
        for reason, count in split.left_out.items()
    ]
    reasons += [
        f"* {name}: {split.cut_mentions:,} longer than a row, cut into {split.cut_mentions + split.cut_pieces:,}"
        for name, split in manifest.splits.items()
        if split.cut_mentions
    ]
    return (
        ["Mentions of the source that are not in the rows as they were:", "", *reasons, ""]
        if reasons
        else []
    )
