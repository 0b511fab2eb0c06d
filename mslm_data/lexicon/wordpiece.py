"""Train WordPiece vocabularies of a corpus' own words.

SciBERT (Beltagy et al. 2019) and PubMedBERT (Gu et al. 2021) have such vocabularies.

The trainer of the `tokenizers` library numbers the single characters in the order of a hash table
and settles equal counts by these numbers, so each run of it learns another vocabulary. Here the
characters are counted and numbered first: equal texts, in whatever order, give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from mslm_data.encode import tokenizer as encode
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import VocabularyError
from mslm_data.io.files import canonical_json, make_folder, write_whole

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Ids 0 to 4, in PubMedBERT's order."""
_MOST_CHARACTERS = 1000
_TEXTS_AT_ONCE = 256

Progress = Callable[[int, int], None]
"""Called with the documents that are done, and all there are."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The vocabulary that was learned.

    Attributes:
        pieces: By id.
        cased: Whether text keeps its capitals and accents.
        documents: Texts read.
        words: Stretches between white space in them.
        left_out: Different characters that are in no piece, as others are more frequent: a word
            with one is [UNK].
    """

    pieces: tuple[str, ...]
    cased: bool
    documents: int
    words: int
    left_out: int


@dataclass(frozen=True, kw_only=True)
class PieceCounts:
    """How a tokenizer cuts texts.

    Attributes:
        words: As BERT sees them: at white space, each punctuation mark alone.
        pieces: Sub-words, one at least a word.
        unknown: Words that are [UNK].
    """

    words: int
    pieces: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """Mean number of pieces of a word; 1 is the least."""
        return self.pieces / self.words if self.words else 0.0


def train(
    texts: Callable[[], Iterable[str]],
    *,
    size: int = 30522,
    min_frequency: int = 2,
    cased: bool = False,
    progress: Progress = lambda *_: None,
) -> Vocabulary:
    """Learn a vocabulary. Each distinct word is held in memory, no text is.

    Args:
        texts: Gives the same texts each time; it is called twice.
        size: Pieces at the most, the special ones and single characters included; 30,522 is BERT's.
            Fewer are learned where fewer are frequent enough.
        min_frequency: How often two pieces must stand side by side to become one.
        cased: Keep capitals and accents.
        progress: See `Progress`; while characters are counted, nobody knows how many documents
            there are.

    Raises:
        VocabularyError: No text, or a size too small for the single characters.
        ValueError: A size or frequency below 1.
    """
    for name, value in (("size", size), ("min_frequency", min_frequency)):
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")

    core = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    census = _Census(core)
    for text in texts():
        census.add(text)
        progress(census.documents, census.documents)

    # The trainer numbers these first, in this order, so that nothing depends on its hash table.
    characters, left_out = census.characters()
    first = [*SPECIALS, *characters, *(f"##{one}" for one in characters if _goes_on(core, one))]

    if not characters:
        raise VocabularyError(
            "vocabulary: expected words to learn from, found none; texts that were read: "
            f"{census.documents:,}; check the source"
        )
    if len(first) > size:
        raise VocabularyError(
            f"vocabulary: expected a size of at least {len(first)} for {len(characters)} "
            f"characters, got {size}"
        )

    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=first,  # what the trainer numbers first, as it is given
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    core.train_from_iterator(_told(texts(), census.documents, progress), trainer)

    vocab = core.get_vocab()
    return Vocabulary(
        pieces=tuple(sorted(vocab, key=vocab.__getitem__)),
        cased=cased,
        documents=census.documents,
        words=census.words,
        left_out=left_out,
    )


def write(out: Path, vocabulary: Vocabulary) -> Tokenizer:
    """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`.

    Returns the tokenizer that they are.

    The last one is for transformers, which else lower-cases for every BERT. All are readable by
    their owner alone.

    Raises:
        VocabularyError: The folder has files already; see `refuse_used`.
    """
    refuse_used(out)
    make_folder(out)

    lines = out / "vocab.txt"
    write_whole(lines, ["".join(f"{piece}\n" for piece in vocabulary.pieces).encode()])
    tokenizer = encode.load(str(lines), lowercase=not vocabulary.cased)

    names = {f"{special[1:-1].lower()}_token": special for special in SPECIALS}
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": not vocabulary.cased, **names}
    write_whole(out / "tokenizer_config.json", [canonical_json(config)])
    write_whole(out / "tokenizer.json", [tokenizer.json.encode()])
    return tokenizer


def refuse_used(out: Path) -> None:
    """Refuse a folder that is not new or empty.

    Raises:
        VocabularyError: It is not.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise VocabularyError(
            f"{out}: expected a new or an empty folder, got one with files; choose another --out"
        )


def count_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> PieceCounts:
    """Count the words and pieces of texts, such as those of a held-out split."""
    words = pieces = unknown = 0

    left = iter(texts)
    while group := list(islice(left, _TEXTS_AT_ONCE)):
        for encoding in tokenizer.core.encode_batch(group, add_special_tokens=False):
            pieces += len(encoding.ids)
            unknown += encoding.ids.count(tokenizer.ids.unk)
            words += len(set(encoding.word_ids))

    return PieceCounts(words=words, pieces=pieces, unknown=unknown)


class _Census:
    """Counts documents, words and characters, the latter as the tokenizer sees them."""

    def __init__(self, core: tokenizers.Tokenizer) -> None:
        self._core = core
        self._counts: dict[str, int] = {}
        self.documents = self.words = 0

    def add(self, text: str) -> None:
        self.documents += 1
        self.words += len(text.split())

        seen = self._core.normalizer.normalize_str(text)
        codes = np.frombuffer(seen.encode("utf-32-le"), np.uint32)
        found, counts = np.unique(codes, return_counts=True)
        for code, count in zip(found.tolist(), counts.tolist(), strict=True):
            self._counts[chr(code)] = self._counts.get(chr(code), 0) + count

    def characters(self) -> tuple[list[str], int]:
        """Return the most frequent characters, by code point, and how many others there are."""
        # Of a space the pre-tokenizer leaves nothing.
        pre_tokenize = self._core.pre_tokenizer.pre_tokenize_str
        seen = [one for one in self._counts if pre_tokenize(one)]
        ranked = sorted(seen, key=lambda one: (-self._counts[one], one))
        return sorted(ranked[:_MOST_CHARACTERS]), len(ranked[_MOST_CHARACTERS:])


def _goes_on(core: tokenizers.Tokenizer, character: str) -> bool:
    """Return whether a character can stand within a word; punctuation is a word of its own."""
    return len(core.pre_tokenizer.pre_tokenize_str(f"a{character}")) == 1


def _told(texts: Iterable[str], total: int, progress: Progress) -> Iterator[str]:
    """Give texts on, and tell how many of how many there were."""
    for number, text in enumerate(texts, start=1):
        progress(number, total)
        yield text
