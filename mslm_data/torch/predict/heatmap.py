"""Draw the confidence in mentions as an HTML page (Abaho et al. 2024, Figure 2).

The page loads nothing: it has no script, and no style, font or image from elsewhere. Equal input
    gives equal bytes.
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np
import tokenizers

from mslm_data.draw import look
from mslm_data.draw.parts import table, text
from mslm_data.draw.sentences import Sentences
from mslm_data.errors import ShardError
from mslm_data.io.files import make_folder, write_whole
from mslm_data.shard.built_folder import BuiltFolder
from mslm_data.torch.predict.confidence import MentionConfidence


def confidence_heatmap(
    path: str | Path, shards: BuiltFolder, confidence: MentionConfidence, *, show_text: bool = False
) -> None:
    """Write rows as an HTML page, with mentions shaded by the model's confidence.

    The shade of a word is the geometric mean of its tokens' probabilities. Pointing at a word shows
    numbers.

    Args:
        path: File to write, readable by its owner alone. An existing file is replaced.
        shards: Folder that the rows come from. It has the tokenizer and the labels, and says
            whether it holds patients' text.
        confidence: Confidence in the mentions of the rows to show.
        show_text: Whether patients' text may be shown.

    Raises:
        TypeError: `shards` is not a folder, such as a split of it.
        ShardError: The folder holds patients' text, and `show_text` is not set.
    """
    if not isinstance(shards, BuiltFolder):
        raise TypeError(
            f"shards: expected a built folder loaded by md.load, got {type(shards).__name__}"
        )
    if shards.manifest.protected and not show_text:
        raise ShardError(
            f"{shards.folder}: contains patients' text; pass show_text=True to write it to a page"
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
    averages = _averages(confidence, shards.labels)
    html = page.substitute(look=look(), title=title, rows=drawn, averages=averages)

    path = Path(path)
    make_folder(path.absolute().parent)
    write_whole(path, [html.encode()])


def _shades(confidence: MentionConfidence) -> dict[tuple[int, int], str]:
    """Return the HTML attributes of mention tokens, by row and token."""
    examples = confidence.examples
    starts = examples.span_starts
    rows = np.repeat(np.arange(len(examples)), starts.lengths).tolist()
    mentions = zip(rows, starts.values.tolist(), confidence.geometric_mean, strict=True)

    shades = {}
    for s, (row, start, mention_mean) in enumerate(mentions):
        logs = confidence.logs[s]
        words = examples.word_ids[row][start : start + len(logs)]
        for t in range(len(words)):
            word_mean = math.exp(logs[words == words[t]].mean())
            token_score = math.exp(logs[t])
            numbers = f"word {word_mean:.3f}, token {token_score:.3f}, mention {mention_mean:.3f}"
            shades[row, start + t] = f' style="--f:{word_mean:.3f}" title="{text(numbers)}"'
    return shades


def _averages(confidence: MentionConfidence, labels: Sequence[str]) -> str:
    """Return an HTML table of averages over mentions, per label and overall."""
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
