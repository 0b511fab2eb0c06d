"""Draw the confidence in mentions as an HTML page (Abaho et al. 2024, Figure 2).

The page loads nothing: it has no script, and no style, font or image from elsewhere. Equal input
    gives equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers

from mslm_data.draw import style_sheet
from mslm_data.draw.environment import environment
from mslm_data.draw.marked_rows import Shade
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
    html = (
        environment()
        .get_template("confidence.html")
        .render(
            style_sheet=style_sheet(),
            title=f"Confidence in mentions of {shards.manifest.name}",
            rows=Sentences(examples, core, shards.labels).shaded(_shades(confidence)),
            averages=_averages(confidence, shards.labels),
        )
    )

    path = Path(path)
    make_folder(path.absolute().parent)
    write_whole(path, [html.encode()])


def _shades(confidence: MentionConfidence) -> list[dict[int, Shade]]:
    """Return the shade of each token of mentions, row by row."""
    examples = confidence.examples
    starts = examples.span_starts
    rows = np.repeat(np.arange(len(examples)), starts.lengths).tolist()
    mentions = zip(rows, starts.values.tolist(), confidence.geometric_mean, strict=True)

    shades: list[dict[int, Shade]] = [{} for _ in range(len(examples))]
    for s, (row, start, of_mention) in enumerate(mentions):
        logs = confidence.logs[s]
        words = examples.word_ids[row][start : start + len(logs)]
        for t in range(len(words)):
            of_word = math.exp(logs[words == words[t]].mean())
            of_token = math.exp(logs[t])
            numbers = f"word {of_word:.3f}, token {of_token:.3f}, mention {of_mention:.3f}"
            shades[row][start + t] = Shade(of_word, numbers)
    return shades


def _averages(confidence: MentionConfidence, labels: Sequence[str]) -> list[tuple[object, ...]]:
    """Return rows of averages over mentions, of each label and of all."""
    result = confidence.result(labels)
    groups = {**result["types"], "all": result}

    names = ("geometric_mean", "mean", "least")
    return [
        (label, of["mentions"], *(of[name] for name in names))
        for label, of in groups.items()
        if of["mentions"]
    ]
