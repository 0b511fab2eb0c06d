from __future__ import annotations

import json
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
from transformers import BertConfig, BertForTokenClassification

import mslm_data as md
from mslm_data.data.ragged import make_offsets
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.errors import AnnotateError, TokenizerError
from mslm_data.io import resources
from mslm_data.torch import MslmModel
from mslm_data.torch.predict.tagger import Tagger
from mslm_data.torch.predict.text_windows import (
    Window,
    WordMention,
    max_word_tokens,
    merge_windows,
    windows,
)
from tests.reference import text_windows as twin
from tests.torch.families import SIZES, masked_lm
from tests.torch.trained import Trained, trained_on_sample

VOCAB = resources.path("vocab", "sample/vocab.txt")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_on_sample(tmp_path_factory.mktemp("trained") / "ncbi")


def random_model(family: str = "bert") -> MslmModel:
    ids = tokenizers.load_tokenizer(str(VOCAB)).ids
    plain = masked_lm(family, vocab_size=ids.size, pad_token_id=ids.pad)
    return MslmModel.wrap(plain, labels=["Drug", "Gene"], tokenizer=VOCAB)


def places_of(found: list[list[Any]]) -> list[list[tuple[int, int, str]]]:
    return [[(start, end, label) for start, end, label, _ in of_text] for of_text in found]


# Windows ------------------------------------------------------------------------------------------


@st.composite
def texts_of_words(draw: st.DrawFn) -> tuple[list[int], int, list[list[tuple[int, int, int]]]]:
    """Return the tokens of words, the size of a window, and possible mentions of the windows."""
    room = draw(st.integers(4, 24))
    sizes = draw(st.lists(st.integers(1, max_word_tokens(room)), min_size=1, max_size=60))
    found = []
    for start, end in twin.windows(sizes, room):
        cuts = sorted(draw(st.sets(st.integers(start, end), max_size=8)))
        pairs = pairwise(cuts)
        found.append([(a, b, draw(st.integers(0, 1))) for a, b in pairs if draw(st.booleans())])
    return sizes, room, found


@given(texts_of_words())
def test_windows__agree_with_their_twin(
    case: tuple[list[int], int, list[list[tuple[int, int, int]]]],
) -> None:
    sizes, room, found = case
    places = make_offsets(np.array(sizes))

    of_text = windows(places, room)
    mentions = merge_windows(
        of_text,
        [[WordMention(a, b, label, (0.5,) * (b - a)) for a, b, label in one] for one in found],
        places,
    )

    assert of_text == twin.windows(sizes, room)
    assert [tuple(mention[:3]) for mention in mentions] == twin.joined(sizes, of_text, found)
    assert all(len(mention.scores) == mention.end - mention.start for mention in mentions)


def test_windows__of_a_text_among_others_are_its_own() -> None:
    places = make_offsets(np.array([2, 1, 3, 1, 2, 2, 1, 3, 2]))

    among = windows(places, 8, first=2, past=8)

    alone = windows(places[2:9] - places[2], 8)
    assert among == [Window(start + 2, end + 2) for start, end in alone]
    assert len(among) > 1
    assert windows(places, 8, first=3, past=3) == []


def test_joined__reads_words_before_the_middle_from_the_first_window() -> None:
    mentions = merge_windows(
        [Window(0, 13), Window(7, 20)],
        [
            [WordMention(8, 11, 0, (0.9,) * 3)],
            [WordMention(9, 11, 0, (0.2,) * 2), WordMention(12, 13, 1, (0.1,))],
        ],
        np.arange(21),
    )

    assert mentions == [WordMention(8, 11, 0, (0.9, 0.9, 0.2)), WordMention(12, 13, 1, (0.1,))]


@pytest.mark.parametrize(
    ("label", "joined"), [(0, [(5, 15, 0)]), (1, [(5, 10, 0), (10, 15, 1)])], ids=["same", "other"]
)
def test_joined__joins_parts_with_the_same_label_only(
    label: int, joined: list[tuple[int, int, int]]
) -> None:
    mentions = merge_windows(
        [Window(0, 13), Window(7, 20)],
        [[WordMention(5, 13, 0, (0.9,) * 8)], [WordMention(7, 15, label, (0.2,) * 8)]],
        np.arange(21),
    )

    assert [mention[:3] for mention in mentions] == joined


# Texts --------------------------------------------------------------------------------------------


def test_annotate__finds_learned_mentions(trained: Trained) -> None:
    found = trained.model.annotate([gold.text for gold in trained.gold])

    assert sum(len(gold.mentions) for gold in trained.gold) == 15
    assert places_of(found) == [gold.mentions for gold in trained.gold]
    assert all(0.5 < mention.score <= 1 for of_text in found for mention in of_text)


def test_annotate__refuses_one_text(trained: Trained) -> None:
    with pytest.raises(ValueError, match="expected a list of texts, got a string"):
        trained.model.annotate("kinase")


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_annotate__does_not_depend_on_the_batch_size(trained: Trained, batch_size: int) -> None:
    texts = [gold.text for gold in trained.gold]
    texts += [" ".join(texts), "", " ".join(texts[::-1])]

    expected = trained.model.annotate(texts)
    found = trained.model.annotate(texts, batch_size=batch_size)

    assert places_of(found) == places_of(expected)
    scores = [
        [mention.score for of_text in one for mention in of_text] for one in (found, expected)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=2e-4)


def test_annotate__of_a_long_text_equals_a_short_one_far_from_its_edges() -> None:
    # The model sees one token at a time, so the context of a word does not matter.
    model = random_model()
    for layer in model.masked_lm.bert.encoder.layer:
        torch.nn.init.zeros_(layer.attention.output.dense.weight)
    torch.nn.init.zeros_(model.masked_lm.bert.embeddings.position_embeddings.weight)
    torch.manual_seed(1)
    torch.nn.init.normal_(model.detection.f[-1].weight, std=5.0)
    sentence = "Warfarin causes haemorrhage , aspirin eases headache and pain of the liver . "

    (short,) = model.annotate([sentence])
    (long,) = model.annotate([sentence * 40])

    # Adjacent mentions with equal labels, at the borders of sentences, become one.
    at = len(sentence)
    inner = [(s, e) for s, e, *_ in short if s > 0 and e < at - 2]
    assert inner
    for copy in range(40):
        starts = {(s - copy * at, e - copy * at) for s, e, *_ in long}
        assert set(inner) <= starts


TEXTS = [
    "Warfarin\r\ncauses\r\n\r\nhaemorrhage.",
    "\U0001f600\U0001f600 aspirin \U0001f9d1\u200d\U0001f52c eases",
    unicodedata.normalize("NFD", "Fièvre jaune é aiguë"),
    "\ufeffAspirin\u00a0helps\u2028now",
    "haemorrhage-induced/pain(liver)" * 40,
    "x" * 5000,
    "[MASK] [SEP] </s>",
    "\ud83d lone",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_annotate__begins_and_ends_at_words(family: str, text: str) -> None:
    model = random_model(family)
    torch.nn.init.normal_(model.detection.f[-1].weight, std=5.0)

    (some,) = model.annotate([text])
    with torch.no_grad():
        model.detection.f[-1].bias[0] = -1000.0  # all tokens are in a mention
    (full,) = model.annotate([text])

    assert full
    for mentions in (some, full):
        check_borders(mentions, text)


def check_borders(mentions: list[Any], text: str) -> None:
    """Check that mentions are apart, in order, and of whole words."""
    past = 0
    for start, end, label, score in mentions:
        assert past <= start < end <= len(text)
        assert not text[start].isspace()
        assert not text[end - 1].isspace()
        before = start and text[start - 1]
        assert not (before and before.isalnum() and text[start].isalnum())
        after = text[end : end + 1]
        assert not (
            text[end - 1].isalnum() and (after.isalnum() or unicodedata.combining(after or " "))
        )
        assert label in ("Drug", "Gene")
        assert 0 <= score <= 1
        past = end


@pytest.mark.parametrize("head", ["detection", "classification"])
def test_annotate__refuses_nan_scores(head: str) -> None:
    model = random_model()
    with torch.no_grad():
        for parameter in getattr(model, head).parameters():
            parameter[..., :1] = float("nan")

    with pytest.raises(AnnotateError, match="its scores are NaN") as error:
        model.annotate(["She was given aspirin and a secret."] * 20)

    assert "secret" not in str(error.value)


def test_annotate__of_no_text_returns_nothing() -> None:
    model = random_model()

    assert model.annotate([]) == []
    assert model.annotate(["", " \r\n\t"]) == [[], []]


def test_annotate__restores_training_mode() -> None:
    model = random_model().train()

    model.annotate(["Warfarin"])

    assert model.training


def test_annotate__names_missing_parts_of_the_model() -> None:
    bare = MslmModel.wrap(masked_lm(), labels=["Drug"])
    without = MslmModel.wrap(masked_lm("bert", vocab_size=1200), tokenizer=VOCAB)
    short = masked_lm("bert", vocab_size=1200, max_position_embeddings=5)

    with pytest.raises(TokenizerError, match="the model has no tokenizer"):
        bare.annotate(["a"])
    with pytest.raises(AnnotateError, match="it has no labels"):
        without.annotate(["a"])
    with pytest.raises(AnnotateError, match="row length of at least 6 tokens, got 5"):
        MslmModel.wrap(short, tokenizer=VOCAB, labels=["Drug"]).annotate(["a"])
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        random_model().annotate(["a"], batch_size=0)


def test_build__with_a_model_has_its_training_mentions(trained: Trained, tmp_path: Path) -> None:
    trained.model.save_pretrained(tmp_path / "model")
    options = {"annotate.use": "model", "annotate.model": tmp_path / "model"}

    weak = md.build(
        "blurb/ncbi-disease", sample=True, out=tmp_path / "weak", workers=1, options=options
    )

    gold = md.build("blurb/ncbi-disease", sample=True, out=tmp_path / "gold", workers=1)
    spans = [
        [(row["span_starts"], row["span_ends"]) for row in split]
        for split in (weak["train"], gold["train"])
    ]
    assert weak.manifest.splits["train"].mentions == 15
    assert spans[0] == spans[1]
    scores = np.concatenate([row["span_scores"] for row in weak["train"]])
    assert ((scores > 0.5) & (scores <= 1)).all()


# Models of transformers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [["O", "B-X", "I-X", "B-Y", "I-Y"], ["B-X", "E-X", "O", "S-X", "I-X"], ["O", "X", "Y"]],
)
def test_tagger__reads_tags_of_any_scheme_as_the_pipeline_does(
    names: list[str], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer, pipeline

    tokenizer = tokenizers.load_tokenizer(str(VOCAB))
    torch.manual_seed(1)
    config = BertConfig(
        **(SIZES | {"vocab_size": tokenizer.ids.size, "max_position_embeddings": 512}),
        id2label=dict(enumerate(names)),
    )
    model: Any = BertForTokenClassification(config).eval()
    torch.nn.init.normal_(model.classifier.weight, std=2.0)
    text = "Warfarin causes haemorrhage, and aspirin eases headache (pain of the liver)."

    (found,) = Tagger(model, tokenizer).annotate([text])

    assert found
    assert {mention.label for mention in found} <= {"X", "Y"}
    if "E-X" in names:  # unknown to the pipeline
        return
    model.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(tokenizer.json)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer.config()))
    fast: Any = AutoTokenizer.from_pretrained(tmp_path)
    peer = pipeline("token-classification", model, tokenizer=fast, aggregation_strategy="first")
    assert [(m.start, m.end, m.label) for m in found] == [
        (entity["start"], entity["end"], entity["entity_group"]) for entity in peer(text)
    ]
    assert [m.score for m in found] == pytest.approx(
        [float(entity["score"]) for entity in peer(text)], abs=1e-3
    )
