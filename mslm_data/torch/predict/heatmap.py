"""Draw the confidence in mentions as an HTML page (Abaho et al. 2024, Figure 2).

The page is self-contained: no scripts, and no external styles, fonts or images. Equal input gives
equal bytes.
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

    The shade of a word is the geometric mean of its tokens' probabilities. Tooltips show the
    numbers.

    Args:
        path: The HTML file, readable by its owner only. An existing file is replaced.
        shards: Folder of the rows, for its tokenizer and labels.
        confidence: Confidence in the mentions of the rows.
        show_text: Whether patients' text may be written to the page.

    Raises:
        TypeError: `shards` is not a built folder.
        ShardError: The folder is protected, and `show_text` is not set.
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
            rows=Sentences(examples, core, shards.labels).shaded(_make_shades(confidence)),
            averages=_averages(confidence, shards.labels),
        )
    )

    path = Path(path)
    make_folder(path.absolute().parent)
    write_whole(path, [html.encode()])


def _make_shades(confidence: MentionConfidence) -> list[dict[int, Shade]]:
    """Return the shade of each token in mentions, row by row."""
    examples = confidence.examples
    starts = examples.span_starts
    rows = np.repeat(np.arange(len(examples)), starts.lengths).tolist()
    mentions = zip(rows, starts.values.tolist(), confidence.geometric_mean, strict=True)

    shades: list[dict[int, Shade]] = [{} for _ in range(len(examples))]
    for s, (row, start, mention_value) in enumerate(mentions):
        logs = confidence.logs[s]
        words = examples.word_ids[row][start : start + len(logs)]
        for t in range(len(words)):
            word_value = math.exp(logs[words == words[t]].mean())
            token_value = math.exp(logs[t])
            numbers = f"word {word_value:.3f}, token {token_value:.3f}, mention {mention_value:.3f}"
            shades[row][start + t] = Shade(word_value, numbers)
    return shades


def _averages(confidence: MentionConfidence, labels: Sequence[str]) -> list[tuple[object, ...]]:
    """Return averages over mentions, for each label and for all."""
    result = confidence.result(labels)
    groups = {**result["types"], "all": result}

    names = ("geometric_mean", "mean", "least")
    return [
        (label, group["mentions"], *(group[name] for name in names))
        for label, group in groups.items()
        if group["mentions"]
    ]
