"""Contexts of mentions: scores on the hand-made gold, and properties for all cues."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from mslm_data.annotate.context import _cue_flags, _spelled_out, contexts, without
from mslm_data.data.context import FLAGS, decode_flags, encode_flags
from mslm_data.data.document import Document, Placeholder, Sentence, Span
from mslm_data.data.documents import Documents, Mentions
from mslm_data.data.reason import Reason
from mslm_data.io import resources
from tests.annotate.context_gold import document_of, found_in, marked, read, scores


@pytest.mark.parametrize("half", ["dev", "test"])
@pytest.mark.parametrize("flag", FLAGS)
def test_contexts__equal_the_gold_scores(half: str, flag: str) -> None:
    gold = read(half)
    assert sum(flag in flags for sentence in gold for flags in sentence.flags) >= 10

    precision, recall, _ = scores(gold, found_in(gold), flag)

    assert precision >= 0.95
    assert recall >= 0.9


@pytest.mark.parametrize(
    "line",
    [
        "[gram negative bacteremia] without [shock|negated]",
        "no [no|negated]",
        "[no fever|negated] denied",
        "[fever]",
        "has [HTN], [PE|negated] was ruled out",
        "[fever|negated], [chills|negated] and [cough|negated] were denied",
        "NO [FEVER|negated]. [COUGH]",
        "no 2.5 cm [mass|negated]",
        "?[pneumonia|uncertain] or [edema|uncertain]",
        "no\n[fever|negated]",
        "no\n\n[fever|negated]",
    ],
)
def test_contexts__worked_examples(line: str) -> None:
    sentence = marked(line)

    assert found_in([sentence]) == [sentence.flags]


def test_contexts__do_not_depend_on_other_documents() -> None:
    gold = [*read("dev"), *read("test")]

    alone = [found_in([sentence])[0] for sentence in gold]

    assert found_in(gold) == alone


def test_contexts__end_at_sentences_and_documents() -> None:
    text = "No fever\ncough. Denies pain"
    document = Document(
        id="a",
        text=text,
        spans=(Span(3, 8, "X"), Span(9, 14, "X"), Span(23, 27, "X")),
        sentences=(Sentence(0, 8), Sentence(9, 15), Sentence(16, 27)),
    )
    other = Document(id="b", text="rash", spans=(Span(0, 4, "X"),), sentences=(Sentence(0, 4),))
    documents = Documents.from_documents([document, other])

    found = contexts(documents, documents.sentences)

    assert found.dtype == np.int8
    assert [decode_flags(bits) for bits in found.tolist()] == [["negated"], [], ["negated"], []]


def test_contexts__ignore_text_in_placeholders() -> None:
    sentence = marked("[**denies**] [fever]")._replace(text="[**denies**] fever", spans=((13, 18),))
    bare = document_of(sentence)
    hidden = Document(
        id="d",
        text=bare.text,
        spans=bare.spans,
        sentences=bare.sentences,
        placeholders=(Placeholder(0, 12, "name"),),
    )

    found = [
        contexts(documents, documents.sentences).tolist()
        for documents in (Documents.from_documents([bare]), Documents.from_documents([hidden]))
    ]

    assert found == [[encode_flags(["negated"])], [0]]


@pytest.mark.parametrize("taken", ["[**2101-10-12**]", "[**Hospital 18**]", "___"])
def test_contexts__treat_a_placeholder_like_a_word(taken: str) -> None:
    text = f"DVT on the day of {taken} ruled out."
    start = text.index(taken)
    document = Document(
        id="d",
        text=text,
        spans=(Span(0, 3, "X"),),
        sentences=(Sentence(0, len(text)),),
        placeholders=(Placeholder(start, start + len(taken), "date"),),
    )
    documents = Documents.from_documents([document])

    found = contexts(documents, documents.sentences).tolist()

    assert found == [encode_flags(["negated"])]


def test_contexts__accept_no_mentions() -> None:
    documents = Documents.from_documents([Document(id="d", text="no")])

    assert contexts(documents, documents.sentences).tolist() == []


def test_without__counts_each_mention_once() -> None:
    mentions = Mentions.from_rows([[Span(n, n + 1, "X") for n in range(4)]], np.zeros(1, np.int64))
    both = encode_flags(["negated", "family"])
    given = Mentions(
        **{name: getattr(mentions, name) for name in ("offsets", "starts", "ends", "labels")},
        names=["X"],
        contexts=np.array(
            [0, both, encode_flags(["family"]), encode_flags(["historical"])], np.int8
        ),
    )

    kept, left_out = without(given, ["negated", "family"])

    assert kept.starts.tolist() == [0, 3]
    assert left_out == {Reason("context is negated"): 1, Reason("context is family"): 1}
    assert without(mentions, ["negated"]) == (mentions, {})


def test_spelled_out__lists_each_form_of_a_cue() -> None:
    assert [*_spelled_out("(is|was|) ruled (out|off)")] == [
        "is ruled out",
        "is ruled off",
        "was ruled out",
        "was ruled off",
        "ruled out",
        "ruled off",
    ]


def test_cues__are_lower_case_and_set_or_suppress_a_flag() -> None:
    text = resources.path("vocab", "clinical-context.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    flags = _cue_flags(tables)

    assert set(tables) == {"ends", "none", *FLAGS}
    assert all(cue and cue == cue.casefold() for cue in flags)
    hidden = {cue for cue, of in flags.items() if not any(of)}
    assert hidden == {form for cue in tables["none"] for form in _spelled_out(cue)}
