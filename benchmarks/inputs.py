"""Inputs of the benchmarks: a real corpus, or one of equal size generated from the sample."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SENTENCES = 12_574
"""Number of generated sentences, equal to BC2GM train."""

_VARIED = 0.08  # share of altered words; gives about 30,000 distinct words, as in BC2GM train
_RARE = 0.015  # share of altered words in repeated sentences of an enlarged corpus

_CORPORA = {
    "BC2GM-IOB": "bc2gm",
    "BC5CDR-chem-IOB": "bc5cdr-chem",
    "BC5CDR-disease-IOB": "bc5cdr-disease",
    "JNLPBA": "jnlpba",
    "NCBI-disease-IOB": "ncbi-disease",
}
"""Folder of a BLURB corpus, tagged by IOB2 -> folder of its shipped sample."""

_DOCUMENT = "-DOCSTART-"
"""Word of the lines that begin a document in some corpora. `many` skips them."""

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
"""Word, tag pairs."""


@dataclass(frozen=True)
class Inputs:
    """Corpus and vocabulary of a run.

    Attributes:
        train: File with a word, a TAB and a tag per line.
        vocab: A BERT vocabulary, `vocab.txt`.
        description: Names of corpus and vocabulary for the report, without paths.
    """

    train: Path
    vocab: Path
    description: str

    @property
    def cased(self) -> bool:
        """Whether the vocabulary has upper-case letters."""
        pieces = self.vocab.read_text(encoding="utf-8").split("\n")
        return any(piece != piece.lower() for piece in pieces if not piece.startswith("["))


def find(scratch: Path) -> Inputs:
    """Return BC2GM from the folder `MSLM_DATA_REAL`, else a corpus generated in `scratch`."""
    train = real() / "blurb" / "BC2GM-IOB" / "train.tsv"
    vocab = real() / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt"
    if train.is_file() and vocab.is_file():
        return Inputs(train, vocab, "BC2GM train (12,574 sentences), the vocabulary of BERT cased")

    sample = ROOT / "vocab" / "sample"
    generated = scratch / "train.tsv"
    write(generated, vary(read(sample / "bc2gm" / "train.tsv"), SENTENCES))
    return Inputs(
        generated,
        sample / "vocab.txt",
        f"{SENTENCES:,} sentences made from the shipped sample, the sample's vocabulary",
    )


def real() -> Path:
    """Return the folder of real data, which may not exist."""
    return Path(os.environ.get("MSLM_DATA_REAL") or ROOT.parent / "shared" / "data")


def many(base: Inputs, scratch: Path, count: int) -> Inputs:
    """Write sentences of all corpora to one file.

    The first sentences are those of BLURB, or of the shipped samples. The rest repeats them with a
    few words altered.

    Args:
        base: Result of `find`. Its vocabulary is used.
        scratch: Folder in which `many/train.tsv` is written.
        count: Number of sentences.
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
    generated = enlarge(sentences, count)

    path = scratch / "many" / "train.tsv"
    path.parent.mkdir()
    write(path, generated)

    distinct = len({word for sentence in generated for word, _ in sentence})
    description = (
        f"{count:,} sentences in one file, {distinct:,} distinct words: "
        f"{min(count, len(sentences)):,} of {origin}, the rest drawn from them with {_RARE:.1%} of "
        "the words altered"
    )
    return Inputs(path, base.vocab, description)


def read(path: Path) -> list[Sentence]:
    """Read a file of words and tags with a plain loop."""
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
    """Generate sentences: random pairs joined, `_VARIED` of the words altered. Deterministic."""
    rng = random.Random(20240)

    def altered() -> Iterator[Sentence]:
        while True:
            pair = rng.choice(sentences) + rng.choice(sentences)
            yield [
                (_alter(word, rng) if rng.random() < _VARIED else word, tag) for word, tag in pair
            ]

    generated = altered()
    return [next(generated) for _ in range(count)]


def enlarge(sentences: list[Sentence], count: int) -> list[Sentence]:
    """Return the first sentences, followed by random repetitions up to `count`. Deterministic.

    In repetitions, `_RARE` of the words are altered: a corpus of four times the sentences has about
    twice the distinct words, as real corpora do.
    """
    rng = random.Random(7)
    generated = sentences[:count]
    while len(generated) < count:
        generated.append(
            [
                (_alter(word, rng) if rng.random() < _RARE else word, tag)
                for word, tag in rng.choice(sentences)
            ]
        )
    return generated


def longer(sentences: list[Sentence], words: int) -> list[Sentence]:
    """Join consecutive sentences into sequences of at least `words` words."""
    joined: list[Sentence] = [[]]
    for sentence in sentences:
        if len(joined[-1]) >= words:
            joined.append([])
        joined[-1] += sentence
    return joined


def _alter(word: str, rng: random.Random) -> str:
    return word + "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(1, 3)))
