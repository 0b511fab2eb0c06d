"""Contexts of mentions: scores on the hand-made gold, and properties for all cues."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from mslm_data.annotate.context import _cue_flags, _spelled_out, contexts, without
from mslm_data.data.context import FLAGS, decode_flags, encode_flags
from mslm_data.data.document import Document, Placeholder, Sentence, Span
from mslm_data.data.documents import Documents, Mentions
from mslm_data.data.reason import Reason
from mslm_data.io import resources

Flags = list[frozenset[str]]
_MARK = re.compile(r"\[([^\]|]*)(?:\|([^\]]*))?\]|«([^»]*)»")


def marked(line: str) -> tuple[Document, Flags]:
    """Return a document and the flags of its mentions.

    Mentions stand in brackets, after a bar their flags; placeholders in guillemets.
    """
    text, past = "", 0
    spans, flags, placeholders = [], [], []
    for mark in _MARK.finditer(line):
        text += line[past : mark.start()]
        start, past = len(text), mark.end()
        text += mark[1] or mark[3]
        if mark[3]:
            placeholders.append(Placeholder(start, len(text), "name"))
        else:
            spans.append(Span(start, len(text), "X"))
            flags.append(frozenset((mark[2] or "").split(",")) - {""})
    text += line[past:]
    document = Document(
        id=line,
        text=text,
        spans=tuple(spans),
        placeholders=tuple(placeholders),
        sentences=(Sentence(0, len(text)),),
    )
    return document, flags


def found_in(given: Sequence[Document]) -> Flags:
    """Return the predicted flags of each mention."""
    documents = Documents.from_documents(given)
    found = contexts(documents, documents.sentences)
    assert found.dtype == np.int8
    return [frozenset(decode_flags(bits)) for bits in found.tolist()]


@functools.cache
def gold(half: str) -> tuple[list[Document], Flags, Flags]:
    """Return the documents of a file, the flags of their mentions, and those that are found."""
    path = Path(__file__).parent / "gold" / f"context-{half}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    documents, flags = zip(*map(marked, lines), strict=True)
    return list(documents), [*chain.from_iterable(flags)], found_in(documents)


@pytest.mark.parametrize("half", ["dev", "test"])
@pytest.mark.parametrize("flag", FLAGS)
def test_contexts__equal_the_gold_scores(half: str, flag: str) -> None:
    _, expected, found = gold(half)

    num_gold = sum(flag in flags for flags in expected)
    num_found = sum(flag in flags for flags in found)
    both = sum(flag in a & b for a, b in zip(expected, found, strict=True))

    assert num_gold >= 10
    assert both / num_found >= 0.95
    assert both / num_gold >= 0.9


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
        "without mentions",
        # The text of a placeholder is ignored, and is a word.
        "denies [fever|negated]",
        "«denies» [fever]",
        "[DVT|negated] on the day of «**2101-10-12**» ruled out.",
        "[DVT|negated] on the day of «**Hospital 18**» ruled out.",
        "[DVT|negated] on the day of «___» ruled out.",
    ],
)
def test_contexts__worked_examples(line: str) -> None:
    document, flags = marked(line)

    assert found_in([document]) == flags


def test_contexts__do_not_depend_on_other_documents() -> None:
    documents, _, found = gold("dev")

    assert found == [flags for document in documents for flags in found_in([document])]


def test_contexts__end_at_sentences_and_documents() -> None:
    document = Document(
        id="a",
        text="No fever\ncough. Denies pain",
        spans=(Span(3, 8, "X"), Span(9, 14, "X"), Span(23, 27, "X")),
        sentences=(Sentence(0, 8), Sentence(9, 15), Sentence(16, 27)),
    )

    assert found_in([document, marked("[rash]")[0]]) == [{"negated"}, set(), {"negated"}, set()]


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
