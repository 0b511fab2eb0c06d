"""Stand-ins for lexicons and scores, so that the gallery can show strategies that need them.

Attention, logits and similarity would come from models, which the manual does not ship. They are
replaced by rarity in the shipped sample: the score of a word or token is 1 / (its count). Words of
at least `_KEY_LETTERS` letters replace key words, mentions the concepts of a terminology.
"""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from _site.links import ROOT
from mslm_data.api.loading import Shards
from mslm_data.cli import main
from mslm_data.data.examples import Examples
from mslm_data.lexicon.scores.making import about, write_column

Scores = dict[Any, float]
_KEY_LETTERS = 9


def write(shards: Shards) -> None:
    """Write lexicons and scores to the folder's `vocab/`, where strategies find them.

    Args:
        shards: The built sample of NCBI-disease.
    """
    folder = Path(str(shards.folder))
    _command("vocab", "pmi", str(folder), "--min-count", "2")

    train = shards["train"]
    ids = Counter(train.examples().input_ids.values.tolist())
    sentences = _sentences()
    words = Counter(word for sentence in sentences for word, _ in sentence)
    _lexicon(folder, "difference", _rarity(words))
    _lexicon(folder, "informask", _rarity(ids), by="ids")
    _lexicon(folder, "keywords", {word: 1.0 for word in words if len(word) >= _KEY_LETTERS})
    _lexicon(folder, "concepts", dict.fromkeys(_mentions(sentences), 1.0))

    rarity = np.zeros(shards.manifest.token_ids.size, np.float32)
    for token, share in _rarity(ids).items():
        rarity[token] = share

    def score(examples: Examples, _: Any) -> Any:
        return rarity[examples.input_ids.values]

    def occurs_once(examples: Examples, _: Any) -> Any:
        return (rarity[examples.input_ids.values] == 1).astype(np.float32)

    for name, scores in (("attention", score), ("logits", score), ("confidence", occurs_once)):
        metadata = about(shards.manifest, of=name, stand_in="rarity")
        write_column(folder / "vocab" / name, {"train": train}, metadata, scores)


def _rarity(counts: Counter[Any]) -> Scores:
    return {entry: 1 / count for entry, count in counts.items()}


def _lexicon(folder: Path, name: str, scores: Scores, *, by: str = "words") -> None:
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "scores.tsv"
        rows = [f"{entry}\t{score:.6f}\n" for entry, score in scores.items()]
        table.write_text("".join(rows), encoding="utf-8")
        arguments = [
            "--from",
            str(table),
            "--by",
            by,
            "--out",
            str(folder / "vocab" / f"{name}.arrow"),
        ]
        _command("vocab", "scores", "table", str(folder), *arguments)


def _sentences() -> list[list[tuple[str, str]]]:
    """Return word, tag pairs of the sample's training sentences."""
    path = ROOT / "vocab" / "sample" / "ncbi-disease" / "train.tsv"
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return [
        [(line.split("\t")[0], line.split("\t")[-1]) for line in block.splitlines()]
        for block in blocks
    ]


def _mentions(sentences: list[list[tuple[str, str]]]) -> list[str]:
    """Return the text of each mention."""
    mentions: list[list[str]] = []
    for sentence in sentences:
        for word, tag in sentence:
            if tag.startswith("B"):
                mentions.append([word])
            elif tag.startswith("I"):
                mentions[-1].append(word)
    return [" ".join(words) for words in mentions]


def _command(*words: str) -> None:
    with redirect_stdout(io.StringIO()):
        code = main(list(words))
    if code:
        raise RuntimeError(f"mslm-data {' '.join(words[:3])}: expected exit code 0, got {code}")
