"""Confidence in mentions as one HTML page of shaded words, after Figure 2 of Abaho et al. 2024.

The page needs nothing else: no script, style, font or image from elsewhere. Equal input is equal bytes.
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np
import tokenizers

from mslm_data.errors import ShardError
from mslm_data.io.files import make_folder, write_whole
from mslm_data.loading import Shards
from mslm_data.stats.report import Sentences
from mslm_data.stats.report.charts import table, text
from mslm_data.torch.confidence import MentionConfidence


def confidence_heatmap(
    path: str | Path, shards: Shards, confidence: MentionConfidence, *, show_text: bool = False
) -> None:
    """Write the rows of `confidence`, the words of each mention shaded by how sure the model is of them.

    A word's shade is the geometric mean of its tokens' probabilities; point at one for numbers.

    Args:
        path: The page, readable by its owner alone; replaced if it exists.
        shards: The folder that the rows are of: its tokenizer, its labels, and whether it holds patients' text.
        confidence: Of the rows to show.
        show_text: Show patients' text too.

    Raises:
        ShardError: The folder holds patients' text, which was not asked for.
    """
    if shards.manifest.protected and not show_text:
        raise ShardError(
            f"{shards.folder}: holds patients' text; pass show_text=True to write it into a page"
        )
    core = tokenizers.Tokenizer.from_file(str(shards.tokenizer))
    examples = confidence.examples
    sentences = Sentences(range(len(examples)), examples, core, shards.labels)
    shades = _shades(confidence)
    drawn = sentences.shaded(lambda row, token: shades.get((row, token), ""))
    page = Template(
        importlib.resources.files(__package__).joinpath("heatmap.html").read_text(encoding="utf-8")
    )
    title = text(f"Confidence in mentions of {shards.manifest.name}")
    html = page.substitute(title=title, rows=drawn, averages=_averages(confidence, shards.labels))
    path = Path(path)
    make_folder(path.absolute().parent)
    write_whole(path, [html.encode()])


def _shades(confidence: MentionConfidence) -> dict[tuple[int, int], str]:
    """Return the attributes of tokens of mentions, by row and token."""
    examples, logs = confidence.examples, confidence.logs
    starts = examples.span_starts
    rows = np.repeat(np.arange(len(examples)), starts.lengths).tolist()
    shades = {}
    for s, (row, start, whole) in enumerate(
        zip(rows, starts.values.tolist(), confidence.geometric_mean, strict=True)
    ):
        words = examples.word_ids[row][start : start + len(logs[s])]
        for t in range(len(words)):
            word = math.exp(logs[s][words == words[t]].mean())
            said = f"word {word:.3f}, token {math.exp(logs[s][t]):.3f}, mention {whole:.3f}"
            shades[row, start + t] = f' style="--f:{word:.3f}" title="{text(said)}"'
    return shades


def _averages(confidence: MentionConfidence, labels: Sequence[str]) -> str:
    """Return a table of averages over mentions: of each label, and of all."""
    result = confidence.result(labels)
    groups = {**result["types"], "all": result}
    names = ("geometric_mean", "mean", "least")
    rows = [
        (label, of["mentions"], *(of[name] for name in names))
        for label, of in groups.items()
        if of["mentions"]
    ]
    head = ("mentions of", "mentions", "geometric mean", "mean of tokens", "least token")
    return table(head, rows) if rows else "<p>No mention.</p>"
