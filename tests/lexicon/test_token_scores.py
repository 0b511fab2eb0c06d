from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores import token_scores as module
from mslm_data.lexicon.scores.encoders import load_encoder
from mslm_data.lexicon.scores.token_scores import Attention, ClassLogits, class_index
from tests.lexicon.models import plain, saved, torch
from tests.made import built

LABELS = {
    "id2label": {0: "other", 1: "important", 2: "third"},
    "label2id": {"other": 0, "important": 1, "third": 2},
}


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows") / "d"
    built(folder)
    return load(folder)["train"].examples(0, 25)


def classifier(folder, **labels):
    path = saved(folder / "m", "BertForTokenClassification", **(labels or LABELS))
    return load_encoder(str(path), head="AutoModelForTokenClassification")


@pytest.mark.parametrize("room", [1, 1 << 29])
def test_attention__equals_transformers_row_by_row(tmp_path, monkeypatch, examples, room):
    monkeypatch.setattr(module, "_ATTENTION_BYTES", room)
    folder = saved(tmp_path / "m")
    done = []

    scores = Attention(load_encoder(str(folder), attentions=True))(examples, done.append)

    model = plain(folder)
    for row in range(len(examples)):
        ids, inner = examples.input_ids[row], examples.word_ids[row] >= 0
        with torch.inference_mode():
            layers = model(torch.tensor([ids.tolist()]), output_attentions=True).attentions
        expected = np.where(inner, layers[-1][0, :, 0].mean(0).numpy(), 0)
        start, stop = examples.input_ids.offsets[row : row + 2]
        np.testing.assert_allclose(scores[start:stop], expected, atol=1e-6)
    assert scores.dtype == np.float32
    assert np.ptp(scores) > 0.1
    assert sum(done) == len(scores)
    assert len(done) == (len(examples) if room == 1 else 1)


def test_attention__rows_without_a_first_special_token(tmp_path, examples):
    words = replace(examples.word_ids, values=np.zeros_like(examples.word_ids.values))
    score = Attention(load_encoder(str(saved(tmp_path / "m")), attentions=True))

    with pytest.raises(
        VocabularyError, match=r"a special token, as \[CLS\], got \d+ of \d+ that begin with a word"
    ):
        score(replace(examples, word_ids=words), lambda _: None)


@pytest.mark.parametrize("value", ["logit", "margin"])
def test_class_logits__equals_transformers_row_by_row(tmp_path, examples, value):
    scores = ClassLogits(classifier(tmp_path), 1, value)(examples, lambda _: None)

    model, predicted = plain(tmp_path / "m", "AutoModelForTokenClassification"), 0
    for row in range(len(examples)):
        inner = examples.word_ids[row] >= 0
        with torch.inference_mode():
            logits = model(torch.tensor([examples.input_ids[row].tolist()])).logits[0].numpy()
        found = scores[slice(*examples.input_ids.offsets[row : row + 2])]
        others = 0 if value == "logit" else np.maximum(logits[:, 0], logits[:, 2])
        np.testing.assert_allclose(found[inner], (logits[:, 1] - others)[inner], atol=1e-4)
        assert np.all(found[~inner] == 0)
        predicted += (logits.argmax(1) == 1).sum()
    assert 0 < predicted < len(scores)


def test_class_index__by_label_or_number(tmp_path):
    encoder = classifier(tmp_path)

    assert [class_index(encoder, name) for name in ("important", "2")] == [1, 2]
    for name, message in (
        ("imprtant", "did you mean 'important'"),
        ("3", "known: important, other, third"),
    ):
        with pytest.raises(VocabularyError, match=f"no class '{name}'; {message}"):
            class_index(encoder, name)


def test_class_index__one_class_only(tmp_path):
    encoder = classifier(tmp_path, id2label={0: "x"}, label2id={"x": 0})

    with pytest.raises(
        VocabularyError, match="expected a token classifier of two classes or more, got 1"
    ):
        class_index(encoder, "x")
