"""Small tokenizers, documents and built folders for tests, made from the shipped sample."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tokenizers
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from mslm_data import builds
from mslm_data.annotate import LoadedAnnotator
from mslm_data.annotate.cached import FoundMentions
from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import relabel
from mslm_data.data.accounts import Counts
from mslm_data.data.document import Document, Sentence, Span
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.examples import Examples
from mslm_data.encode import tokenizer as tokenizer_module
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.pipeline import Pipeline, read
from mslm_data.segment import Segmenter
from mslm_data.segment.given import GivenSentences
from mslm_data.shard.manifest import Manifest

SAMPLE = Path(__file__).parents[1] / "vocab" / "sample"
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@functools.cache
def sample_lines() -> list[str]:
    """Return the sentences of the shipped sample corpora, with words joined by spaces."""
    lines = []
    for path in sorted(SAMPLE.glob("*/*.tsv")):
        blocks = path.read_text(encoding="utf-8").split("\n\n")
        lines += [" ".join(line.split("\t")[0] for line in block.splitlines()) for block in blocks]
    return lines


@functools.cache
def word_piece() -> Tokenizer:
    return tokenizer_module.load_tokenizer(str(SAMPLE / "vocab.txt"))


@functools.cache
def byte_level() -> Tokenizer:
    """Train byte-level BPE with RoBERTa's special tokens around a sequence."""
    core = tokenizers.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=800, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(sample_lines(), trainer)
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer_module.parse_tokenizer(core.to_str())


@functools.cache
def unigram() -> Tokenizer:
    """Train a SentencePiece-like Unigram: NFKC, Metaspace, XLM-R's specials around a sequence."""
    core = tokenizers.Tokenizer(models.Unigram())
    core.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=700, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
    )
    core.train_from_iterator(sample_lines(), trainer)
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer_module.parse_tokenizer(core.to_str())


@functools.cache
def t5() -> Tokenizer:
    """Train a Unigram like T5's: white space is dropped, `</s>` ends a row, and ten sentinels."""
    core = tokenizers.Tokenizer(models.Unigram())
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    core.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=700,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    core.train_from_iterator(sample_lines(), trainer)
    core.add_special_tokens([f"<extra_id_{number}>" for number in range(9, -1, -1)])
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer_module.parse_tokenizer(core.to_str())


TOKENIZERS = {
    "word_piece": word_piece,
    "byte_level": byte_level,
    "unigram": unigram,
    "t5": t5,
}


def of_words(
    words: Sequence[str],
    mentions: Sequence[tuple[int, int]] = (),
    *,
    doc_id: str = "d",
    label: str = "X",
) -> Document:
    """Make a document from words joined by single spaces. Mentions are word ranges."""
    lengths = np.array([len(word) for word in words], np.int64)
    ends = np.cumsum(lengths + 1) - 1
    bounds = np.stack([ends - lengths, ends], axis=1).astype(np.int32)
    return Document(
        id=doc_id,
        text=" ".join(words),
        words=bounds,
        spans=tuple(Span(int(bounds[a, 0]), int(bounds[b - 1, 1]), label) for a, b in mentions),
    )


def annotated(loaded: LoadedAnnotator, given: Sequence[Document]) -> list[FoundMentions]:
    """Annotate documents in one batch."""
    documents = Documents.from_documents(given)
    found = loaded.annotate(documents)
    left_out = [
        {reason: int(counts[number]) for reason, counts in found.left_out.items() if counts[number]}
        for number in range(len(documents))
    ]
    spans = found.mentions.spans(documents.starts)
    return [
        FoundMentions(tuple(of_one), reasons)
        for of_one, reasons in zip(spans, left_out, strict=True)
    ]


def mentions_of(spans: Sequence[Span]) -> Mentions:
    """Return the mentions of a document at the start of the line as columns."""
    return Mentions.from_rows([spans], np.zeros(1, np.int64))


def spans_of(mentions: Mentions) -> list[Span]:
    """Return the mentions of a document at the start of the line as spans."""
    (spans,) = mentions.spans(np.zeros(1, np.int64))
    return spans


def flat(spans: Sequence[Span]) -> tuple[list[Span], Counter[str]]:
    """Return the mentions of a document kept by `flatten`, and the number of removed ones."""
    kept, left_out = flatten(mentions_of(spans))
    return spans_of(kept), left_out


def relabelled(
    spans: Sequence[Span], *, rename: Mapping[str, str], labels: Sequence[str]
) -> tuple[list[Span], Counter[str]]:
    """Return the mentions of a document kept by `relabel`, and the number of removed ones."""
    kept, left_out = relabel(mentions_of(spans), rename=rename, labels=labels)
    return spans_of(kept), left_out


def sentences_of(segmenter: Segmenter, document: Document) -> list[Sentence]:
    """Return the sentences of a document."""
    ranges = segmenter.sentences(Documents.from_documents([document]))
    assert ranges.offsets.tolist() == [0, len(ranges.starts)]
    return list(map(Sentence, ranges.starts.tolist(), ranges.ends.tolist()))


def encoder(
    tokenizer: Tokenizer, labels: Sequence[str], *, corpus: str = "", **options: Any
) -> Encoder:
    """Make an encoder with an empty word table and labels numbered in order.

    Args:
        tokenizer: The tokenizer.
        labels: Label names.
        corpus: Name of the corpus.
        options: `EncodeOptions`; `max_tokens` may be smaller than users may set it.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    defaults = {
        "max_tokens": 512,
        "split": "mention",
        "join": "none",
        "keep_text": False,
        "eos": False,
    }
    chosen: Any = SimpleNamespace(**(defaults | options))
    return Encoder(WordTable(tokenizer), numbers, chosen, corpus=corpus)


def encoded(
    by: Encoder, given: Sequence[Document], segmenter: Segmenter | None = None
) -> tuple[Examples, Counts]:
    """Encode documents in one batch, with the sentences of a segmenter or by default their own."""
    documents = Documents.from_documents(given)
    sentences: Ranges = (segmenter or GivenSentences()).sentences(documents)
    return by.encode(documents, sentences)


ODD_WORDS = (
    "p53", "IL-2(alpha)", "binds", "protein", "é", "e\u0301", "n\u0303o", "\u0301", "腫瘍", "がん", "🧬", "👩‍⚕️", "סרטן",
    "سرطان", "a\u00a0b", "\u00a0", "\x00", "\x85", "\u200b", "\ufeff", "\u00ad", "x\u0000y", "a", "I", ".", ",",
    "[SEP]", "[MASK]", "<s>", "<mask>", "[UNK]", "ﬁbrosis", "½", "x" * 101, "☃", "##ing", "\u2028x", "ß",
    "İstanbul", "K+", "''",
    "tumour/tumor", "5.3%", "-", "--", ")(", "\ufffd", "한국어", "A\u030a", "℃", "…", "¨", "ǅ", "\u1e9b\u0323",
)  # fmt: skip
"""Difficult words for tokenizers: with marks, in CJK, right to left, too long, special tokens."""

some_words = st.one_of(
    st.sampled_from(ODD_WORDS),
    st.sampled_from(["kinase", "of", "the", "inhibitors", "anaemia", "nucleus", "colorectal"]),
    st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp"], exclude_characters="\t\n\r\x0b\x0c"), min_size=1,
            max_size=6),
)  # fmt: skip


@st.composite
def documents_of_words(
    draw: st.DrawFn, *, labels: Sequence[str] = ("X", "Y"), doc_id: str = "d"
) -> Document:
    """Draw documents of given words in up to three sentences.

    Mentions are any flat character ranges.
    """
    words = draw(st.lists(some_words, max_size=14))
    document = of_words(words, doc_id=doc_id)
    assert document.words is not None
    cuts = sorted(draw(st.sets(st.integers(0, len(words)), max_size=2)) | {0, len(words)})
    sentences = tuple(
        Sentence(int(document.words[a, 0]), int(document.words[b - 1, 1]))
        for a, b in pairwise(cuts)
    )
    spans = draw(flat_spans(document.text, labels))
    return Document(
        id=doc_id, text=document.text, words=document.words, sentences=sentences, spans=spans
    )


@st.composite
def documents_of_text(
    draw: st.DrawFn, *, labels: Sequence[str] = ("X", "Y"), doc_id: str = "d"
) -> Document:
    """Draw documents of running text with any white space and sentences.

    Mentions are any flat character ranges.
    """
    gaps = st.sampled_from([" ", "  ", "\n", "\u00a0", "\u2028", "\t", ""])
    text = "".join(word + draw(gaps) for word in draw(st.lists(some_words, max_size=12)))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    sentences = tuple(Sentence(a, b) for a, b in pairwise(cuts) if draw(st.booleans()))
    given = draw(st.sampled_from([None, sentences]))
    return Document(id=doc_id, text=text, sentences=given, spans=draw(flat_spans(text, labels)))


@st.composite
def flat_spans(draw: st.DrawFn, text: str, labels: Sequence[str]) -> tuple[Span, ...]:
    """Draw flat, sorted mentions of a text, often adjacent, at its ends, or within a word."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pairs = [pair for pair in pairwise(cuts) if draw(st.booleans())]
    return tuple(Span(start, end, draw(st.sampled_from(labels))) for start, end in pairs)


def pipeline_of(
    *,
    source: dict[str, object] | None = None,
    labels: Sequence[str] = (),
    encode: dict[str, object] | None = None,
    segment: str = "given",
    unit_bytes: int = 64 << 20,
    name: str = "test",
    annotate: dict[str, object] | None = None,
) -> Pipeline:
    """Make a pipeline, by default for token-per-line files.

    Any data loss and equal texts are accepted, as the inputs of tests are small.
    """
    return read(
        {
            "name": name,
            "source": {"use": "conll", "max_loss": 1, "duplicates": "keep", **(source or {})},
            "annotate": {"labels": list(labels), **(annotate or {})},
            "segment": {"use": segment},
            "encode": encode or {},
            "shard": {"input_bytes": unit_bytes},
        }
    )


def build(
    pipeline: Pipeline, inputs: Sequence[Path], tokenizer: Tokenizer, out: Path, **options: Any
) -> Manifest | None:
    """Build a folder from files or folders."""
    return builds.build(builds.find(pipeline, inputs), tokenizer, out, **options)


def built(
    out: Path,
    inputs: Path | None = None,
    pipeline: Pipeline | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> Manifest:
    """Build a folder, by default from the NCBI-like sample."""
    manifest = build(
        pipeline or pipeline_of(),
        [inputs or SAMPLE / "ncbi-disease"],
        tokenizer or word_piece(),
        out,
        workers=1,
        **options,
    )
    assert manifest is not None
    return manifest


def tree(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, including hidden ones."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
