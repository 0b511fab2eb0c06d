"""Write RESULTS-finetune.md: means and deviations over seeds, and differences of the same seed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import machine
from experiments.training import ALL_SENTENCES, Arm, Settings, identify

SCORES = ("precision", "recall", "micro_f1")
TITLES = {
    "main": "Vanilla and MSLM",
    "weights": "Weights of the loss (Table 6)",
    "strategies": "As many tokens hidden, by others (Figure 5)",
    "grid": "Rates (Figure 4), weights of Eq. 5",
}
HEADER = (
    "arm", "seeds", "hidden", "w_ELM, w_BLM",
    "1: P", "1: R", "1: F1", "1: F1 against the first row",
    "2: P", "2: R", "2: F1", "2: F1 against the first row",
)  # fmt: skip

Record = Mapping[str, Any]

_HEAD = """\
# NER after masking

Written by `python -m experiments.finetune`. [README.md](README.md) has the protocol. Stage 1 is NER
on unmasked text for vanilla, and Eq. 12 on masked text for all others. Stage 2 is NER on unmasked
text for all. Both have the same number of steps. So columns `1` compare the paper's joint training
with vanilla fine-tuning at equal steps, and columns `2` compare adaptation followed by fine-tuning
with fine-tuning twice as long. P, R and F1 are precision, recall (the paper's exact match) and
micro F1 of mentions on unmasked text, in percent: mean ± standard deviation over seeds. Differences
are taken between runs of the same seed, then averaged. `hidden` is the share of sub-words masked in
an epoch, in percent.

What this cannot show: a difference smaller than the deviations, and anything about models, corpora
and training of other sizes. The paper trains BERT-sized encoders that bring a trained language
modelling head, for 20 epochs of whole corpora, and its released code scores masked test text. Its
numbers cannot be compared with these."""


def page(records: Sequence[Record], groups: Mapping[str, Mapping[str, Arm]]) -> str:
    """Return the page, with a part for each settings that runs had.

    Args:
        records: Finished runs.
        groups: Arms of each table by name. The first is what others are compared with.
    """
    # One record each, if two processes made the same run.
    found = {_key(record["run"]): record for record in records}
    settings = {_key(record["run"]["settings"]): record["run"]["settings"] for record in records}

    lines = [_HEAD]
    for one in settings.values():
        of = {key: record for key, record in found.items() if record["run"]["settings"] == one}
        lines += ["", *_part(of, groups, Settings(**one))]
    lines += ["", *_foot(list(found.values()))]
    return "\n".join(lines) + "\n"


def _part(
    found: Mapping[str, Record], groups: Mapping[str, Mapping[str, Arm]], settings: Settings
) -> list[str]:
    """Return the lines of the runs that share settings."""
    corpora = list(dict.fromkeys(record["run"]["corpus"] for record in found.values()))
    seeds = sorted({record["run"]["seed"] for record in found.values()})
    lines = _sizes(list(found.values()), settings)
    for group, arms in groups.items():
        for corpus in corpora:
            runs: dict[str, dict[int, Record]] = {}
            for name, arm in arms.items():
                keys = {seed: _key(identify(corpus, arm, settings, seed)) for seed in seeds}
                runs[name] = {seed: found[key] for seed, key in keys.items() if key in found}
            if sum(bool(of) for of in runs.values()) > 1:
                lines += ["", f"### {TITLES[group]}: {corpus}", "", *table(runs)]
    return [*lines, *_masked(list(found.values()))]


def table(runs: Mapping[str, Mapping[int, Record]]) -> list[str]:
    """Return the lines of a table: an arm each, the one to compare with first."""
    rows = [HEADER, ("---", *["---:"] * (len(HEADER) - 1))]
    first = next(iter(runs.values()))
    for name, of in runs.items():
        if not of:
            continue

        hidden = mean([run["hidden"] for run in of.values()], deviation=False)
        cells = [name, str(len(of)), hidden, _weights(of)]
        for stage in range(2):
            scores = {seed: run["stages"][stage] for seed, run in of.items()}
            cells += [mean([score[metric] for score in scores.values()]) for metric in SCORES]

            # Only runs of the same seed are compared.
            pairs = [
                scores[seed]["micro_f1"] - first[seed]["stages"][stage]["micro_f1"]
                for seed in scores
                if seed in first
            ]
            cells.append("-" if of is first or not pairs else mean(pairs, signed=True))
        rows.append(tuple(cells))
    return [f"| {' | '.join(row)} |" for row in rows]


def mean(values: Sequence[float], *, deviation: bool = True, signed: bool = False) -> str:
    """Return the mean of shares in percent, with its standard deviation if there are several."""
    text = f"{100 * statistics.fmean(values):{'+' if signed else ''}.1f}"
    if deviation and len(values) > 1:
        text += f" ± {100 * statistics.stdev(values):.1f}"
    return text


def _weights(of: Mapping[int, Record]) -> str:
    """Return both weights averaged over seeds, as they follow from the masks of a seed."""
    pairs = [run["weights"] for run in of.values() if run["weights"]]
    means = [f"{statistics.fmean(values):.3f}" for values in zip(*pairs, strict=True)]
    return ", ".join(means) or "-"


def _sizes(records: Sequence[Record], settings: Settings) -> list[str]:
    """Return the lines about how much was trained and scored."""
    steps = sorted({stage["steps"] for record in records for stage in record["stages"]})
    seeds = sorted({record["run"]["seed"] for record in records})
    gold = {record["run"]["corpus"]: record["stages"][0]["gold"] for record in records}
    mentions = ", ".join(f"{name} {count:,}" for name, count in gold.items())
    numbers = "bfloat16 autocast" if settings.bf16 else "float32"
    frozen = "; token embeddings frozen" if settings.frozen else ""
    return [
        f"## {' or '.join(map(str, steps))} steps a stage",
        "",
        f"* Trained on {_count(settings.sentences)} sentences, scored on {_count(settings.scored)} "
        f"of {settings.on}; gold mentions: {mentions}",
        f"* {settings.epochs} epoch(s) a stage, batches of {settings.batch_size}; Adam, constant "
        f"{settings.learning_rate:g}; {numbers}{frozen}",
        f"* Seeds: {', '.join(map(str, seeds))}; a table's column says how many its row has",
        f"* Encoder: weights {settings.encoder} (SHA-256, its first 16 digits)",
    ]


def _count(number: int) -> str:
    return "all" if number == ALL_SENTENCES else f"at most {number:,}"


def _masked(records: Sequence[Record]) -> list[str]:
    """Return the table of what the same models score where gold mentions are hidden."""
    masked: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        stage = record["stages"][0]
        if "on_masked" in stage:
            pair = (stage["recall"], stage["on_masked"]["recall"])
            masked.setdefault(record["run"]["corpus"], []).append(pair)
    if not masked:
        return []

    lines = [
        "",
        "### A diagnostic: the same models on masked test text",
        "",
        "Recall of MSLM (1.0, 0.075) after stage 1, where gold mentions are hidden as the released",
        "code hides them: the masks say where the mentions are. Not an accuracy.",
        "",
        "| corpus | seeds | unmasked | masked |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, pairs in masked.items():
        plain, hidden = zip(*pairs, strict=True)
        lines.append(f"| {name} | {len(pairs)} | {mean(plain)} | {mean(hidden)} |")
    return lines


def _foot(records: Sequence[Record]) -> list[str]:
    about = {
        name: sorted({record["about"][name] for record in records})
        for name in ("commit", "device", "torch", "data")
    }
    hours = sum(stage["seconds"] for record in records for stage in record["stages"]) / 3600

    return [
        "## On what",
        "",
        *[f"* {line}" for line in machine()],
        f"* Device: {', '.join(about['device'])}; torch {', '.join(about['torch'])}; {hours:.1f} "
        f"hours of training in {len(records)} runs",
        f"* Commit: {', '.join(about['commit'])}",
        f"* Corpora: {', '.join(about['data'])}",
    ]


def _key(identity: Mapping[str, Any]) -> str:
    return json.dumps(identity, sort_keys=True)
