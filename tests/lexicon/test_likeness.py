from __future__ import annotations

import numpy as np
import pytest

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores import likeness as module
from mslm_data.lexicon.scores.encoders import load_encoder
from mslm_data.lexicon.scores.likeness import Likeness, make_lexicon
from tests import made
from tests.lexicon.models import plain, sample_vocab, saved, torch

STRINGS = ["kinase", "of", "colorectal", "inhibitors", "anaemia", "nucleus", "the", "protein"]


def words_of(strings, tokenizer=None):
    tokenizer = tokenizer or made.word_piece()
    return Ragged.from_rows(
        [
            tokenizer.core.encode(
                [tokenizer.lead + word], is_pretokenized=True, add_special_tokens=False
            ).ids
            for word in strings
        ],
        np.int32,
    )


def unknown_word():
    return Ragged.from_rows([[made.word_piece().ids.unk]], np.int32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "m")


def likeness(folder, tokenizer=None, **options):
    encoder = load_encoder(str(folder))
    return Likeness(encoder=encoder, tokenizer=tokenizer or made.word_piece(), **options)


def score(folder, words, anchors, **options):
    return likeness(folder, **options).score(words, anchors, lambda _: None)


def vector(model, ids, embedding):
    """Embed one word by plain calls of transformers: the slow twin."""
    with torch.inference_mode():
        if embedding == "input":
            return (
                model.embeddings.word_embeddings(torch.tensor(ids[1:-1])).mean(0).double().numpy()
            )
        output = model(torch.tensor([ids]))
        if embedding == "pooler":
            return output.pooler_output[0].double().numpy()
        return output.last_hidden_state[0, 1:-1].mean(0).double().numpy()


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("combine", ["max", "mean", "min"])
@pytest.mark.parametrize("embedding", ["pooler", "mean", "input"])
def test_score__equals_the_cosine_word_by_word(folder, monkeypatch, embedding, combine):
    monkeypatch.setattr(module, "_WORDS_AT_ONCE", 3)
    words, anchors = words_of(STRINGS), words_of(["kinase", "binds", "tumour"])
    done = []

    numbers, scores = likeness(folder, embedding=embedding, combine=combine).score(
        words, anchors, done.append
    )

    model = plain(folder)
    of = [vector(model, [2, *ids, 3], embedding) for ids in words.tolist()]
    to = [vector(model, [2, *ids, 3], embedding) for ids in anchors.tolist()]
    expected = [getattr(np, combine)([cosine(a, b) for b in to]) for a in of]
    assert numbers.tolist() == list(range(len(STRINGS)))
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert np.ptp(scores) > 0.05
    assert scores.max() <= 1
    assert done == [3, 3, 2]


def test_score__with_another_tokenizer_compares_strings(tmp_path):
    folder, byte_level = saved(tmp_path / "m", vocab=sample_vocab()), made.byte_level()
    strings = [*STRINGS, "Kinase", "☃"]

    numbers, scores = score(
        folder,
        words_of(strings, byte_level),
        words_of(["tumour"], byte_level),
        tokenizer=byte_level,
    )

    _, direct = score(folder, words_of([*STRINGS, "Kinase"]), words_of(["tumour"]))
    assert numbers.tolist() == [*range(len(STRINGS) + 1)]  # the snowman is [UNK] to the encoder
    np.testing.assert_allclose(scores, direct, atol=1e-5)


def test_score__excludes_unknown_and_long_words(tmp_path):
    small = saved(tmp_path / "m", max_position_embeddings=8)
    unknown = made.word_piece().ids.unk
    words = Ragged.from_rows([[20, 21], [unknown], [20, unknown], [20] * 6, [20] * 7], np.int32)

    numbers, _ = score(small, words, words.slice(0, 2))

    assert numbers.tolist() == [0, 3]


def test_score__no_words(folder):
    numbers, scores = score(folder, unknown_word(), words_of(STRINGS))

    assert len(numbers) == len(scores) == 0


def test_score__refuses_unknown_anchors_and_nan_embeddings(folder):
    with pytest.raises(VocabularyError, match="/m: the model knows none of the 1 anchors"):
        score(folder, words_of(STRINGS), unknown_word())

    of_nan = likeness(folder)
    of_nan.encoder.model.embeddings.word_embeddings.weight.data[:] = float("nan")
    with pytest.raises(VocabularyError, match="its embeddings are NaN"):
        of_nan.score(words_of(STRINGS), words_of(STRINGS), lambda _: None)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "BertForMaskedLM",
            {},
            "the model has no trained pooler; pass --embedding mean or input",
        ),
        ("BertModel", {"vocab_size": 500}, "its vocabulary differs from that of the shards"),
    ],
)
def test_likeness__refuses_other_models(tmp_path, kind, changes, message):
    with pytest.raises(VocabularyError, match=message):
        likeness(saved(tmp_path / "m", kind, **changes))


def test_likeness__needs_no_pooler_for_other_embeddings(tmp_path):
    likeness(saved(tmp_path / "m", "BertForMaskedLM"), embedding="mean")


def test_make_lexicon__sorts_descending_with_ties_in_order():
    words = Ragged.from_rows([[7], [8, 9], [5], [6, 6, 6]], np.int32)

    lexicon = make_lexicon(words, np.array([0, 1, 3]), np.array([0.5, 0.9, 0.5]), {"size": 10})

    assert lexicon.tokens.tolist() == [[8, 9], [7], [6, 6, 6]]
    assert lexicon.scores.tolist() == [0.9, 0.5, 0.5]
    assert lexicon.word_starts.tolist() == [[0]] * 3
