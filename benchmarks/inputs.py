"""Find a real corpus to measure on, or make as much text from the shipped sample."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SENTENCES = 12_574
"""Number of sentences that are made, as many as BC2GM train has."""

_VARIED = 0.08  # share of words that are altered: about 30,000 distinct words, as in BC2GM train
_RARE = 0.015  # share of words that are altered where a corpus is made larger

_CORPORA = {
    "BC2GM-IOB": "bc2gm",
    "BC5CDR-chem-IOB": "bc5cdr-chem",
    "BC5CDR-disease-IOB": "bc5cdr-disease",
    "JNLPBA": "jnlpba",
    "NCBI-disease-IOB": "ncbi-disease",
}
"""Folder of a real corpus of BLURB -> folder of its shipped sample; all are tagged by IOB2."""

_DOCUMENT = "-DOCSTART-"
"""The only word of a line that begins a document in some corpora. `many` leaves such lines out."""

_SYLLABLES = (
    "al",
    "ban",
    "cor",
    "dex",
    "en",
    "fi",
    "gly",
    "hem",
    "in",
    "ko",
    "lin",
    "mab",
    "neu",
    "ox",
    "pro",
    "ra",
)

Sentence = list[tuple[str, str]]
"""Words with their tags."""


@dataclass(frozen=True)
class Inputs:
    """The corpus and the tokenizer of this run.

    Attributes:
        train: Words and tags, one pair a line.
        vocab: A BERT vocabulary.
        says: Their names for the report, without their paths.
    """

    train: Path
    vocab: Path
    says: str

    @property
    def cased(self) -> bool:
        """Whether the vocabulary has capitals."""
        pieces = self.vocab.read_text(encoding="utf-8").split("\n")
        return any(piece != piece.lower() for piece in pieces if not piece.startswith("["))


def find(scratch: Path) -> Inputs:
    """Return the real corpus that `MSLM_DATA_REAL` names, or one made in `scratch`.

    Without the variable, corpora are looked for beside the checkout.
    """
    train = real() / "blurb" / "BC2GM-IOB" / "train.tsv"
    vocab = real() / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt"
    if train.is_file() and vocab.is_file():
        return Inputs(train, vocab, "BC2GM train (12,574 sentences), the vocabulary of BERT cased")

    sample = ROOT / "vocab" / "sample"
    made = scratch / "train.tsv"
    write(made, vary(read(sample / "bc2gm" / "train.tsv"), SENTENCES))
    return Inputs(
        made,
        sample / "vocab.txt",
        f"{SENTENCES:,} sentences made from the shipped sample, the sample's vocabulary",
    )


def real() -> Path:
    """Return the folder of real data, which need not exist."""
    return Path(os.environ.get("MSLM_DATA_REAL") or ROOT.parent / "shared" / "data")


def many(found: Inputs, scratch: Path, count: int) -> Inputs:
    """Write so many sentences of several corpora into one file of `scratch`.

    Args:
        found: What `find` returned, whose vocabulary is kept.
        scratch: A folder; the file is `many/train.tsv` in it.
        count: Number of sentences: those of BLURB, or of its shipped samples, and then some of
            them again with rare words altered.
    """
    folders = [real() / "blurb" / name for name in _CORPORA]
    origin = "BLURB"
    if not any(folder.is_dir() for folder in folders):
        folders = [ROOT / "vocab" / "sample" / name for name in _CORPORA.values()]
        origin = "the shipped samples"

    paths = [path for folder in folders for path in sorted(folder.glob("*.tsv"))]
    sentences = [
        sentence for path in paths for sentence in read(path) if sentence[0][0] != _DOCUMENT
    ]
    made = enlarge(sentences, count)

    path = scratch / "many" / "train.tsv"
    path.parent.mkdir()
    write(path, made)

    distinct = len({word for sentence in made for word, _ in sentence})
    says = (
        f"{count:,} sentences in one file, {distinct:,} distinct words: "
        f"{min(count, len(sentences)):,} of {origin}, the rest drawn from them with {_RARE:.1%} of "
        "the words altered"
    )
    return Inputs(path, found.vocab, says)


def read(path: Path) -> list[Sentence]:
    """Read a file of words and tags by the loop that anyone would write."""
    sentences: list[Sentence] = []
    words: Sentence = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            stripped = line.rstrip("\n")
            if stripped:
                word, tag = stripped.split("\t")
                words.append((word, tag))
            elif words:
                sentences.append(words)
                words = []
    if words:
        sentences.append(words)
    return sentences


def write(path: Path, sentences: list[Sentence]) -> None:
    """Write sentences with a blank line after each."""
    text = ("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def vary(sentences: list[Sentence], count: int) -> list[Sentence]:
    """Make this many sentences: pairs joined at random, some words altered, always the same."""
    chance = random.Random(20240)

    def altered() -> Iterator[Sentence]:
        while True:
            pair = chance.choice(sentences) + chance.choice(sentences)
            yield [
                (_alter(word, chance) if chance.random() < _VARIED else word, tag)
                for word, tag in pair
            ]

    made = altered()
    return [next(made) for _ in range(count)]


def enlarge(sentences: list[Sentence], count: int) -> list[Sentence]:
    """Make this many sentences: the given ones, then some of them again, always the same.

    Words of those that come again are seldom altered, so that a corpus of four times the sentences
    has about twice the distinct words, as real corpora have.
    """
    chance = random.Random(7)
    made = sentences[:count]
    while len(made) < count:
        made.append(
            [
                (_alter(word, chance) if chance.random() < _RARE else word, tag)
                for word, tag in chance.choice(sentences)
            ]
        )
    return made


def longer(sentences: list[Sentence], words: int) -> list[Sentence]:
    """Join neighbours into sequences of at least this many words."""
    joined: list[Sentence] = [[]]
    for sentence in sentences:
        if len(joined[-1]) >= words:
            joined.append([])
        joined[-1] += sentence
    return joined


def _alter(word: str, chance: random.Random) -> str:
    return word + "".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(1, 3)))
