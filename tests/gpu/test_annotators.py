"""Annotators and scores with `device = "cuda"` give the same results as on the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mslm_data.api.loading import load  # noqa: E402
from mslm_data.data.document import Document  # noqa: E402
from mslm_data.data.ragged import Ragged  # noqa: E402
from mslm_data.lexicon.scores.encoders import load_encoder  # noqa: E402
from mslm_data.lexicon.scores.likeness import Likeness  # noqa: E402
from mslm_data.lexicon.scores.token_scores import Attention, ClassLogits  # noqa: E402
from mslm_data.torch.predict.model_ner import ModelNer  # noqa: E402
from tests import made  # noqa: E402
from tests.annotate.model_made import name_tagger  # noqa: E402
from tests.annotate.test_model_ner import random_bert, random_mslm  # noqa: E402
from tests.gpu.devices import HAS_CARD  # noqa: E402
from tests.lexicon.models import saved  # noqa: E402
from tests.torch.second_device import second_device  # noqa: E402

LABELS = {
    "id2label": {0: "other", 1: "important", 2: "third"},
    "label2id": {"other": 0, "important": 1, "third": 2},
}
TAGGERS = {
    "names": lambda folder: name_tagger(folder, ("heart failure", "aspirin")),
    "random BERT": random_bert,
    "random MslmModel": random_mslm,
}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[Any]:
    """A context in which torch has a device "cuda": the GPU, or a simulated one."""
    if HAS_CARD:
        return nullcontext()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return second_device("cuda")


@pytest.mark.parametrize("tagger", TAGGERS)
def test_annotator__finds_the_same_on_the_gpu(
    tagger: str, card: AbstractContextManager[Any], tmp_path: Path
) -> None:
    folder = TAGGERS[tagger](tmp_path)
    lines = ["He has heart failure.", "No aspirin.", *filter(None, made.sample_lines()[:20])]
    documents = [Document(id=str(number), text=line) for number, line in enumerate(lines)]

    here = made.annotated(ModelNer(model=folder).start(), documents)
    with card:
        there = made.annotated(
            ModelNer(model=folder, device="cuda", batch_size=8).start(), documents
        )

    spans = [[span[:3] for span in found.spans] for found in here]
    assert any(spans)
    assert [[span[:3] for span in found.spans] for found in there] == spans


def test_scores__on_the_gpu_equal_the_cpu(
    card: AbstractContextManager[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.built(tmp_path / "built")
    examples = load(tmp_path / "built")["train"].examples(0, 25)
    attending = saved(tmp_path / "attending", "BertModel", **LABELS)
    classifying = saved(tmp_path / "classifying", "BertForTokenClassification", **LABELS)
    words = Ragged.from_rows(
        [[id_] for id_ in set(examples.input_ids.values[:50].tolist())], np.int32
    )

    def ignore(done: int) -> None:
        pass

    def compute() -> tuple[str, list[Any]]:
        attention = load_encoder(str(attending), attentions=True)
        classifier = load_encoder(str(classifying), head="AutoModelForTokenClassification")
        likeness = [
            Likeness(encoder=attention, tokenizer=made.word_piece(), embedding=name).score(
                words, words, ignore
            )[1]
            for name in ("mean", "pooler", "input")
        ]
        return attention.model.device.type, [
            Attention(attention)(examples, ignore),
            ClassLogits(classifier, 1, "margin")(examples, ignore),
            *likeness,
        ]

    with card:
        device, there = compute()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _, here = compute()

    assert device == "cuda"
    for one, other in zip(here, there, strict=True):
        if HAS_CARD:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(one, other)
