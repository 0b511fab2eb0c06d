from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models

from mslm_data.data.ragged import Ragged
from mslm_data.errors import PipelineError, VocabularyError
from mslm_data.lexicon.anchors.choice import AnchorOptions
from mslm_data.lexicon.anchors.general_text import Frequencies
from mslm_data.lexicon.anchors.tficf import find_anchors
from mslm_data.lexicon.word_types import WordTypes
from mslm_data.registry import from_options
from tests.reference import anchors as reference

FORMS = (
    *("gene", "Gene", "GENE", "cell", "Cell", "kinase", "kin-ase", "café", "Café", "Straße"),
    *("ma", "p53", "a", "B", "."),
)
ABOUT = {"tokenizer": "0" * 64, "size": 3 * len(FORMS)}


def tokenizer() -> tokenizers.Tokenizer:
    """Return a tokenizer with three ids per form f: 3f is the form, 3f + 1 its first letter, 3f + 2 the rest."""
    vocab: dict[str, int] = {}
    for number, form in enumerate(FORMS):
        for place, piece in enumerate((form, form[:1], f"##{form[1:]}")):
            vocab.setdefault(piece, 3 * number + place)
    core = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="."))
    core.decoder = decoders.WordPiece()
    return core


def words_of(forms: Sequence[tuple[str, int]]) -> WordTypes:
    """Return word types of single pieces, from forms and counts."""
    core = tokenizer()
    tokens = Ragged.from_rows([[core.token_to_id(form)] for form, _ in forms], np.int32)
    return WordTypes(tokens, np.array([count for _, count in forms], np.int64))


def ranked(forms: Sequence[tuple[str, int]], general: dict[str, int], **options: Any) -> Any:
    options = {"count": 100, "min_count": 1, **options}
    frequencies = Frequencies(counts=general, about={})
    return find_anchors(
        words_of(forms), tokenizer(), frequencies, AnchorOptions(**options), about=ABOUT
    )


some_forms = st.lists(
    st.tuples(st.sampled_from(FORMS), st.integers(1, 60)), min_size=1, max_size=20
)
some_counts = st.dictionaries(
    st.sampled_from(["gene", "cell", "kinase", "the", "of", "café"]),
    st.integers(1, 2**40),
    min_size=1,
)


@given(
    forms=some_forms,
    general=some_counts,
    smoothing=st.fractions(Fraction(1, 8), 8, max_denominator=8).map(
        lambda f: Fraction(round(f * 8), 8)
    ),
    min_count=st.integers(1, 30),
)
def test_find_anchors__equals_the_exact_formula(
    forms: list[tuple[str, int]], general: dict[str, int], smoothing: Fraction, min_count: int
) -> None:
    expected = reference.tf_icf(forms, general, smoothing=smoothing, min_count=min_count)

    if not expected:
        with pytest.raises(VocabularyError, match=f"no words occur {min_count} times or more"):
            ranked(forms, general, smoothing=float(smoothing), min_count=min_count)
        return
    lexicon, anchors = ranked(forms, general, smoothing=float(smoothing), min_count=min_count)
    core = tokenizer()
    assert [anchor.word for anchor in anchors] == [word for word, _, _ in expected]
    assert lexicon.tokens.tolist() == [
        [core.token_to_id(forms[form][0])] for _, form, _ in expected
    ]
    assert lexicon.scores == pytest.approx([float(score) for _, _, score in expected], rel=1e-12)
    assert lexicon.scores.tolist() == [anchor.score for anchor in anchors]


def test_find_anchors__worked_example() -> None:
    forms = [("Gene", 3), ("gene", 5), ("cell", 12), (".", 100), ("p53", 50), ("a", 30)]

    lexicon, (first, second) = ranked(forms, {"cell": 5, "gene": 1, "the": 94})

    assert (first.word, first.count, first.general) == ("gene", 8, 1)
    assert first.score == pytest.approx(
        (8 / 20) / ((1 + 1) / (100 + 3))
    )  # N_T 20 and N_P 100 words, V 3
    assert (second.word, second.score) == ("cell", pytest.approx((12 / 20) / (6 / 103)))
    assert lexicon.about["counts"] == {"words": 20, "general_words": 100, "general_vocabulary": 3}


def test_find_anchors__forms_of_several_pieces() -> None:
    core = tokenizer()
    pieces = [core.token_to_id("k"), core.token_to_id("##inase")]
    words = WordTypes(
        Ragged.from_rows([pieces, [core.token_to_id("cell")]], np.int32), np.array([7, 2])
    )

    lexicon, anchors = find_anchors(
        words,
        core,
        Frequencies(counts={"of": 1}, about={}),
        AnchorOptions(min_count=1),
        about=ABOUT,
    )

    assert [anchor.word for anchor in anchors] == ["kinase", "cell"]
    assert lexicon.tokens.tolist() == [pieces, [core.token_to_id("cell")]]
    assert lexicon.word_starts.tolist() == [[0], [0]]


def test_find_anchors__ties_go_by_count_then_by_the_alphabet() -> None:
    forms = [("kinase", 2), ("ma", 2), ("gene", 4), ("cell", 2)]

    _, anchors = ranked(forms, {"gene": 1, "the": 3})

    assert [anchor.word for anchor in anchors] == ["gene", "cell", "kinase", "ma"]
    assert len({anchor.score for anchor in anchors}) == 1


def test_find_anchors__floors_count_and_stop_words() -> None:
    forms = [("gene", 10), ("cell", 9), ("kinase", 8), ("ma", 7)]

    _, floor = ranked(forms, {"the": 1}, min_count=8)
    _, two = ranked(forms, {"the": 1}, count=2)
    _, without = ranked(forms, {"the": 1}, stop_words={"gene", "ma"})

    assert [anchor.word for anchor in floor] == ["gene", "cell", "kinase"]
    assert [anchor.word for anchor in two] == ["gene", "cell"]
    assert [anchor.word for anchor in without] == ["cell", "kinase"]
    assert without[0].score == two[1].score  # stop words count as words, but are not anchors


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("smoothing", 0.0),
        ("smoothing", float("nan")),
        ("smoothing", float("inf")),
        ("count", 0),
        ("min_count", 0),
    ],
)
def test_options__out_of_range(option: str, value: float) -> None:
    with pytest.raises(PipelineError, match=f"for option '{option}'"):
        from_options(AnchorOptions, {option: value}, where="vocab anchors")


def test_find_anchors__general_text_without_words() -> None:
    with pytest.raises(
        VocabularyError,
        match="general: the general text has no words; use another",
    ):
        ranked([("gene", 10)], {})
