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


def words_of(strings, tokenizer):
    return Ragged.from_rows([tokenizer.core.encode([word], is_pretokenized=True, add_special_tokens=False).ids
                      for word in strings], np.int32)  # fmt: skip


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
def test_score__equals_the_cosine_word_by_word(tmp_path, monkeypatch, embedding, combine):
    monkeypatch.setattr(module, "_WORDS_AT_ONCE", 3)
    folder, tokenizer = saved(tmp_path / "m"), made.word_piece()
    words, anchors = (
        words_of(STRINGS, tokenizer),
        words_of(["kinase", "binds", "tumour"], tokenizer),
    )
    done = []

    numbers, scores = Likeness(
        encoder=load_encoder(str(folder)), tokenizer=tokenizer, embedding=embedding, combine=combine
    ).score(words, anchors, done.append)

    model = plain(folder)
    of = [vector(model, [2, *ids, 3], embedding) for ids in words.tolist()]
    to = [vector(model, [2, *ids, 3], embedding) for ids in anchors.tolist()]
    expected = [getattr(np, combine)([cosine(a, b) for b in to]) for a in of]
    assert numbers.tolist() == list(range(len(STRINGS)))
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert np.ptp(scores) > 0.05
    assert done == [3, 3, 2]


def test_score__of_an_anchor_is_1(tmp_path):
    tokenizer = made.word_piece()
    words = words_of(STRINGS, tokenizer)

    _, scores = Likeness(
        encoder=load_encoder(str(saved(tmp_path / "m"))), tokenizer=tokenizer
    ).score(words, words.slice(2, 3), lambda _: None)

    assert scores[2] == pytest.approx(1, abs=1e-6)
    assert scores.max() <= 1
    assert int(np.argmax(scores)) == 2


def test_score__with_another_tokenizer_compares_strings(tmp_path):
    byte_level, sample = made.byte_level(), made.word_piece()
    encoder = load_encoder(str(saved(tmp_path / "m", vocab=sample_vocab())))
    strings = [*STRINGS, "Kinase", "☃"]

    numbers, scores = Likeness(encoder=encoder, tokenizer=byte_level).score(
        Ragged.from_rows([byte_level.core.encode([" " + w], is_pretokenized=True, add_special_tokens=False).ids
                   for w in strings], np.int32),
        Ragged.from_rows([byte_level.core.encode([" tumour"], is_pretokenized=True, add_special_tokens=False).ids], np.int32),
        lambda _: None,
    )  # fmt: skip

    _, direct = Likeness(encoder=encoder, tokenizer=sample).score(
        words_of([*STRINGS, "Kinase"], sample), words_of(["tumour"], sample), lambda _: None
    )
    assert numbers.tolist() == [*range(len(STRINGS) + 1)]  # the snowman is [UNK] to the encoder
    np.testing.assert_allclose(scores, direct, atol=1e-5)


def test_score__excludes_unknown_and_long_words(tmp_path):
    tokenizer = made.word_piece()
    encoder = load_encoder(str(saved(tmp_path / "m", max_position_embeddings=8)))
    words = Ragged.from_rows(
        [[20, 21], [tokenizer.ids.unk], [20, tokenizer.ids.unk], [20] * 6, [20] * 7], np.int32
    )

    numbers, _ = Likeness(encoder=encoder, tokenizer=tokenizer).score(
        words, words.slice(0, 2), lambda _: None
    )

    assert numbers.tolist() == [0, 3]


def test_score__no_words(tmp_path):
    tokenizer = made.word_piece()
    words = words_of(STRINGS, tokenizer)

    numbers, scores = Likeness(
        encoder=load_encoder(str(saved(tmp_path / "m"))), tokenizer=tokenizer
    ).score(Ragged.from_rows([[tokenizer.ids.unk]], np.int32), words, lambda _: None)

    assert len(numbers) == len(scores) == 0


def test_score__without_a_known_anchor(tmp_path):
    tokenizer = made.word_piece()
    likeness = Likeness(encoder=load_encoder(str(saved(tmp_path / "m"))), tokenizer=tokenizer)
    unknown = Ragged.from_rows([[tokenizer.ids.unk]], np.int32)

    with pytest.raises(VocabularyError, match="/m: the model knows none of the 1 anchors"):
        likeness.score(unknown, unknown, lambda _: None)


def test_score__refuses_nan_embeddings(tmp_path):
    tokenizer = made.word_piece()
    encoder = load_encoder(str(saved(tmp_path / "m")))
    encoder.model.embeddings.word_embeddings.weight.data[:] = float("nan")
    words = words_of(STRINGS, tokenizer)

    with pytest.raises(VocabularyError, match="its embeddings are NaN"):
        Likeness(encoder=encoder, tokenizer=tokenizer).score(words, words, lambda _: None)


def test_likeness__untrained_pooler_refused(tmp_path):
    encoder = load_encoder(str(saved(tmp_path / "m", "BertForMaskedLM")))

    with pytest.raises(
        VocabularyError, match="the model has no trained pooler; pass --embedding mean or input"
    ):
        Likeness(encoder=encoder, tokenizer=made.word_piece())
    Likeness(encoder=encoder, tokenizer=made.word_piece(), embedding="mean")


def test_likeness__other_ids_without_a_tokenizer_refused(tmp_path):
    encoder = load_encoder(str(saved(tmp_path / "m", vocab_size=500)))

    with pytest.raises(VocabularyError, match="its vocabulary differs from that of the shards"):
        Likeness(encoder=encoder, tokenizer=made.word_piece())


def test_by_likeness__sorts_descending_with_ties_in_order():
    words = Ragged.from_rows([[7], [8, 9], [5], [6, 6, 6]], np.int32)

    lexicon = make_lexicon(words, np.array([0, 1, 3]), np.array([0.5, 0.9, 0.5]), {"size": 10})

    assert lexicon.tokens.tolist() == [[8, 9], [7], [6, 6, 6]]
    assert lexicon.scores.tolist() == [0.9, 0.5, 0.5]
    assert lexicon.word_starts.tolist() == [[0]] * 3
