"""The annotator "model"; test_contract.py tests the common contract."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    BertModel,
    pipeline,
)

from mslm_data.annotate.cached import IN_PLACEHOLDER, LOW_SCORE, FoundMentions
from mslm_data.data.document import Document, Placeholder, Span
from mslm_data.errors import AnnotateError, MslmDataError
from mslm_data.torch import MslmModel
from mslm_data.torch.predict import machine, tagger
from mslm_data.torch.predict.model_ner import ModelNer
from tests import made
from tests.annotate.model_made import name_tagger
from tests.torch.families import SIZES, masked_lm

NAMES = ("heart failure", "aspirin")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that finds the names."""
    return name_tagger(tmp_path_factory.mktemp("model"), NAMES)


def saved(folder: Path, of_tags: Any) -> str:
    """Save a model with the tokenizer of the sample."""
    tokenizer = made.word_piece()
    of_tags.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.json)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer.config()))
    return str(folder)


def random_bert(folder: Path, **options: Any) -> str:
    """Save a BERT with random weights, which tags many kinds of words as mentions."""
    tags = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    torch.manual_seed(0)
    sizes = SIZES | {"vocab_size": made.word_piece().ids.size, "hidden_size": 64}
    bert = BertForTokenClassification(
        BertConfig(**(sizes | options), id2label=dict(enumerate(tags)))
    )
    torch.nn.init.normal_(bert.classifier.weight, std=1.0)
    return saved(folder, bert)


def random_mslm(folder: Path) -> str:
    plain = masked_lm("bert", vocab_size=made.word_piece().ids.size, hidden_size=64)
    mslm = MslmModel.wrap(plain, labels=["X", "Y"], tokenizer=made.word_piece())
    for head in (mslm.detection, mslm.classification):
        torch.nn.init.normal_(head.f[-1].weight, std=2.0)
    mslm.save_pretrained(folder)
    return str(folder)


def annotate(options: ModelNer, *documents: Document | str) -> list[FoundMentions]:
    given = [Document(id="d", text=d) if isinstance(d, str) else d for d in documents]
    return made.annotated(options.start(), given)


# Mentions -----------------------------------------------------------------------------------------


def test_annotate__equals_the_pipeline_of_transformers(tmp_path: Path) -> None:
    folder = random_bert(tmp_path, max_position_embeddings=512)
    texts = [line for line in made.sample_lines() if line][:30]

    found = annotate(ModelNer(model=folder), *texts)

    peer = pipeline(
        "token-classification",
        folder,
        tokenizer=AutoTokenizer.from_pretrained(folder),
        aggregation_strategy="first",
    )
    of_peer = [[(e["start"], e["end"], e["entity_group"]) for e in peer(text)] for text in texts]
    assert sum(map(len, of_peer)) > 100
    assert [[span[:3] for span in of_text.spans] for of_text in found] == of_peer


@pytest.mark.parametrize("make", [random_bert, random_mslm])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_annotate__last_bit_does_not_depend_on_other_documents(
    make: Any, batch_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger, "_DIGITS", 17)
    loaded = ModelNer(model=make(tmp_path), batch_size=batch_size).start()
    lines = [line for line in made.sample_lines() if line]
    rng = random.Random(0)
    texts = [" ".join(rng.choices(lines, k=rng.choice([1, 1, 1, 2, 9]))) for _ in range(60)]
    documents = [Document(id=str(number), text=text) for number, text in enumerate(texts)]

    together = made.annotated(loaded, documents)
    rng.shuffle(documents)
    again = ModelNer(model=str(tmp_path), batch_size=batch_size).start()
    alone = {d.id: made.annotated(again, [d])[0] for d in documents}

    assert sum(len(of_one.spans) for of_one in together) > 500
    assert together == [alone[str(number)] for number in range(len(texts))]


def test_annotate__uses_the_words_of_the_source(model: str) -> None:
    words = np.array([[0, 7], [8, 15]], np.int32)
    joined = np.array([[0, 15]], np.int32)
    text = "aspirin aspirin"

    [of_words, of_one_word, of_text] = annotate(
        ModelNer(model=model),
        Document(id="a", text=text, words=words),
        Document(id="b", text="aspirin-aspirin", words=joined),
        Document(id="c", text="aspirin-aspirin"),
    )

    assert [span[:2] for span in of_words.spans] == [(0, 7), (8, 15)]
    assert [span[:2] for span in of_text.spans] == [(0, 7), (8, 15)]
    assert [span[:2] for span in of_one_word.spans] == [(0, 15)]


def test_annotate__excludes_low_scores_and_mentions_in_placeholders(model: str) -> None:
    document = Document(id="d", text="[**aspirin**] aspirin", placeholders=(Placeholder(0, 13),))

    [found] = annotate(ModelNer(model=model), document)
    [unsure] = annotate(ModelNer(model=model, min_score=1.0), "x aspirin")

    (span,) = found.spans
    assert span == Span(14, 21, "X", score=span.score)
    assert 0.9 < span.score <= 1
    assert found.left_out == {IN_PLACEHOLDER: 1}
    assert unsure == FoundMentions((), {LOW_SCORE: 1})


def test_annotate__splits_long_documents_into_windows(model: str) -> None:
    text = "then heart failure and " * 100

    [found] = annotate(ModelNer(model=model), text)

    expected = [(23 * copy + 5, 23 * copy + 18) for copy in range(100)]
    assert [span[:2] for span in found.spans] == expected


@pytest.mark.long
def test_build__bytes_do_not_depend_on_the_number_of_workers(model: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    texts = [f"He has heart failure. {number} mg aspirin daily." for number in range(200)]
    rows = ({"id": str(number), "text": text} for number, text in enumerate(texts))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    pipeline = made.pipeline_of(
        source={"use": "jsonl"},
        annotate={"use": "model", "model": model, "labels": ["X"]},
        segment="clinical",
        unit_bytes=2000,
    )

    trees = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        manifest = made.build(pipeline, [path], made.word_piece(), out, workers=workers)
        trees.append(made.tree(out))

    assert trees[0] == trees[1]
    assert manifest is not None
    assert manifest.splits["train"].mentions == 400
    assert len(manifest.splits["train"].shards) > 3
    assert model not in str(manifest)


# Options ------------------------------------------------------------------------------------------


def test_start__reads_labels_and_digest_without_torch(model: str) -> None:
    code = (
        "import sys; from mslm_data.annotate import ANNOTATORS; "
        f"made = ANNOTATORS.make('model', {{'model': {model!r}}}); "
        "print(made.labels(), len(made.digest()), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "('X',) 64 False"


def test_digest__depends_on_the_version_of_torch(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(version: str) -> str:
        monkeypatch.setattr(machine.importlib.metadata, "version", lambda _: version)
        return ModelNer(model=model).digest()

    assert digest("2.13.0+cpu") == digest("2.13.0+cu130") != digest("2.14.0")


def without_safetensors(folder: Path) -> None:
    random_bert(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("make", "methods", "message"),
    [
        (None, "start digest labels", r"no model given; pass --set annotate\.mod"),
        (
            lambda folder: None,
            "start digest labels",
            "expected a model's folder or a hub name, found noth",
        ),
        (without_safetensors, "start digest", "no safetensors weights found"),
        (
            lambda folder: saved(folder, BertModel(BertConfig(**SIZES))),
            "labels",
            "it has no labels",
        ),
    ],
)
def test_model__must_be_a_tagger_in_safetensors(
    make: Any, methods: str, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    if make is not None:
        make(folder)
    options = ModelNer(model="" if make is None else str(folder))

    for method in methods.split():
        with pytest.raises(AnnotateError, match=message):
            getattr(options, method)()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("corpus", "this is a built corpus, not a model"),
        ("encoder", "not trained for token classification"),
        ("no tokenizer", r"no tokenizer\.json, vocab\.txt, or vocab\.json"),
        ("strange", "transformers cannot load it as a token-classification model"),
    ],
)
def test_start__rejects_folders_without_a_tagger(name: str, message: str, tmp_path: Path) -> None:
    if name == "corpus":
        made.built(tmp_path)
    else:
        random_bert(tmp_path)
    if name == "encoder":
        BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    elif name == "no tokenizer":
        (tmp_path / "tokenizer.json").unlink()
    elif name == "strange":
        (tmp_path / "config.json").write_text('{"model_type": "strange"}')

    with pytest.raises(MslmDataError, match=message):
        ModelNer(model=str(tmp_path)).start()


def test_start__initialises_no_gpu_before_a_fork(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> bool:
        raise AssertionError("asked for a GPU")

    monkeypatch.setattr(torch.cuda, "is_available", asked)
    loaded = ModelNer(model=model, device="cuda").start()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(AnnotateError, match="torch finds no GPU"):
        made.annotated(loaded, [Document(id="d", text="aspirin")])


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (torch.OutOfMemoryError("x"), AnnotateError, "out of GPU memory"),
        (RuntimeError("[...] can't allocate memory: you [...]"), MemoryError, None),
        (RuntimeError("CUDA error: unspecified"), AnnotateError, r"GPU failed \(RuntimeError\)"),
        (RuntimeError("a secret"), RuntimeError, "a secret"),
    ],
)
def test_find__blames_no_document_for_errors_of_the_machine(
    model: str,
    raised: Exception,
    expected: type[Exception],
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise raised

    loaded = ModelNer(model=model).start()
    monkeypatch.setattr(tagger.Tagger, "mentions", fails)

    with pytest.raises(expected, match=message):
        made.annotated(loaded, [Document(id="d", text="aspirin")])


def test_find__uses_the_given_number_of_threads(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    mentions = tagger.Tagger.mentions

    def noted(*given: Any, **options: Any) -> Any:
        seen.append(torch.get_num_threads())
        return mentions(*given, **options)

    monkeypatch.setattr(tagger.Tagger, "mentions", noted)
    before = torch.get_num_threads()
    annotate(ModelNer(model=model, threads=before + 1), "aspirin")

    assert seen == [before + 1]
    assert torch.get_num_threads() == before


def test_start__restores_the_logging_of_transformers(model: str) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_info()
    logging.enable_progress_bar()
    try:
        annotate(ModelNer(model=model), "aspirin")
        after = logging.get_verbosity(), logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity(before[0])

    assert after == (logging.INFO, True)
