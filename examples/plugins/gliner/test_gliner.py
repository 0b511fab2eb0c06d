"""Tests of the plug-in: run `pytest` in this folder, with the package installed.

The models are small, with random weights. `constraints.txt` has the tested versions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gliner", reason="gliner is not installed")
import torch
from gliner import GLiNER
from mslm_data_gliner import GlinerNer, LoadedGliner
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig

import mslm_data as md
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError, PipelineError
from mslm_data.testing import check_annotator

PROMPTS = {"disease": "Disease", "drug": "Drug", "medication": "Drug"}
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("heart", "failure", "aspirin", "and", "a", "##a", *PROMPTS)
MAX_WORDS, MAX_TOKENS = 20, 64
"""Maximum number of words of a window, and of its tokens, prompts included."""
TEXT = "heart failure and aspirin"


def make_model(folder: Path, seed: int) -> str:
    """Save a model that finds mentions at random, and return its folder."""
    base = folder / "base"
    base.mkdir()
    vocabulary = {word: number for number, word in enumerate((*SPECIALS, *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(base / "tokenizer.json"))
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIALS}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (base / "tokenizer_config.json").write_text(json.dumps(config))
    BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MAX_TOKENS,
    ).save_pretrained(base)

    options = {
        "model_name": str(base),
        "max_len": MAX_WORDS,
        "max_width": 4,
        "hidden_size": 16,
    }
    torch.manual_seed(seed)
    model = GLiNER.from_config(options, backbone_from_pretrained=False)
    for parameter in model.model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder, safe_serialization=True)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_model(tmp_path_factory.mktemp("model"), seed=0)


def annotate(options: GlinerNer, *texts: str) -> list[list[Span]]:
    """Return the mentions of each text, by start."""
    found = loaded(options).find([Document(id="d", text=text) for text in texts])
    return [sorted(mentions.spans) for mentions in found]


def loaded(options: GlinerNer) -> LoadedGliner:
    return options.start()._find.__self__


def test_annotator__keeps_its_promises(model: str, tmp_path: Path) -> None:
    options = {"prompts": PROMPTS, "min_score": 0.3}
    other = make_model(tmp_path, seed=1)

    check_annotator(
        GlinerNer(model=model, **options),
        [f"{TEXT}.", "heart\nfailure", "Nothing."],
        other=GlinerNer(model=other, **options),
    )


def test_annotate__finds_what_the_package_finds(model: str) -> None:
    texts = [TEXT, "a aspirin", "and, a-failure: aspirin!", " x ", ""]

    mentions = annotate(GlinerNer(model=model, prompts=PROMPTS, min_score=0.3), *texts)

    peer = GLiNER.from_pretrained(model, local_files_only=True)
    expected = [
        sorted(peer.predict_entities(text, sorted(PROMPTS), threshold=0.3), key=by_start)
        for text in texts
    ]
    assert sum(map(len, expected)) > 3
    assert [[span[:3] for span in spans] for spans in mentions] == [
        [(e["start"], e["end"], PROMPTS[e["label"]]) for e in entities] for entities in expected
    ]
    scores = [span.score for spans in mentions for span in spans]
    assert scores == pytest.approx([e["score"] for es in expected for e in es], abs=1e-4)


def by_start(entity: dict[str, Any]) -> int:
    return int(entity["start"])


def test_annotate__leaves_out_what_is_less_sure(model: str) -> None:
    [every] = annotate(GlinerNer(model=model, prompts=PROMPTS, min_score=0.0), TEXT)
    lowest, *_, highest = sorted(span.score for span in every)
    between = (lowest + highest) / 2

    [sure] = annotate(GlinerNer(model=model, prompts=PROMPTS, min_score=between), TEXT)

    assert lowest < between < highest
    assert {span.score for span in sure} == {s.score for s in every if s.score > between}


@pytest.mark.parametrize("text", [f"{'a' * 12} " * 30, "and aspirin " * 100])
def test_annotate__reads_windows_that_fit_and_miss_no_word(
    model: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = loaded(GlinerNer(model=model, prompts=PROMPTS))
    inference = find._model.inference
    seen: list[str] = []

    def noted(texts: list[str], *given: Any, **named: Any) -> Any:
        seen.extend(texts)
        return inference(texts, *given, **named)

    monkeypatch.setattr(find._model, "inference", noted)
    find.find([Document(id="d", text=text)])

    tokenizer = find._model.data_processor.transformer_tokenizer
    assert find._tokens == MAX_TOKENS - 9  # prompts and special tokens
    assert len(seen) > 3
    assert sum(len(window.split()) for window in seen) > len(text.split())
    for window in seen:
        assert len(window.split()) <= MAX_WORDS
        assert len(tokenizer(window)["input_ids"]) - 2 <= find._tokens


def test_annotate__reads_around_a_word_that_is_too_long(model: str) -> None:
    options = GlinerNer(model=model, prompts=PROMPTS, min_score=0.0)

    [mentions] = annotate(options, f"aspirin {'a' * 90} aspirin")

    assert mentions
    assert all(span.end <= 7 or span.start >= 99 for span in mentions)


def test_build__has_the_same_bytes_for_any_number_of_workers(model: str, tmp_path: Path) -> None:
    rows = [{"id": str(number), "text": f"{TEXT} {number}."} for number in range(60)]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    pipeline = {
        "name": "notes",
        "source": {"use": "jsonl"},
        "segment": {"use": "whole"},
        "annotate": {
            "use": "gliner",
            "model": model,
            "prompts": PROMPTS,
            "min_score": 0.3,
            "labels": ["Disease", "Drug"],
        },
        "shard": {"input_bytes": 65_536},
    }

    manifests = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        tokenizer = Path(model, "base")
        md.build(pipeline, input=path, tokenizer=tokenizer, out=out, workers=workers)
        manifests.append((out / "manifest.json").read_bytes())

    assert manifests[0] == manifests[1]
    assert sum(map(len, md.load(tmp_path / "1")["train"].examples().span_starts.tolist())) > 60
    assert model.encode() not in manifests[0]


# Options and files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": {"": "X"}}, "expected words and a label for each, got an empty text"),
        ({"prompts": {"a": " "}}, "expected words and a label for each, got an empty text"),
        ({"min_score": -1.0}, "expected `float` >= 0.0 for option 'min_score'"),
        ({"promts": {}}, "unknown option 'promts'; did you mean 'prompts'"),
    ],
)
def test_options__are_checked(
    options: dict[str, Any], message: str, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.txt"
    path.write_text(TEXT, encoding="utf-8")
    pipeline = {"name": "x", "source": {"use": "text"}, "annotate": {"use": "gliner", **options}}

    with pytest.raises(PipelineError, match=message):
        md.build(pipeline, input=path, tokenizer=Path(model, "base"), out=tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": PROMPTS}, r"expected model, got none; pass --set annotate\.model"),
        ({"model": "model"}, r"expected prompts, got none; pass --set 'annotate\.prompts"),
        (
            {"model": "model", "prompts": {" ".join(["disease"] * 70): "X"}},
            "expected prompts that leave room for 4 words, got 1 ",
        ),
    ],
)
def test_start__names_what_is_missing(
    options: dict[str, Any], message: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(model).parent)
    Path("model").exists() or Path("model").symlink_to(model)

    with pytest.raises(AnnotateError, match=message):
        GlinerNer(**options).start()


def configured(**changed: Any) -> Callable[[Path], None]:
    """Return a function that changes the configuration of a model."""

    def change(folder: Path) -> None:
        path = folder / "gliner_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return change


def without(name: str) -> Callable[[Path], None]:
    """Return a function that deletes a file of a model."""
    return lambda folder: (folder / name).unlink()


def without_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.popitem()
    save_file(weights, folder / "model.safetensors")


def with_nan(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    damaged = next(name for name in weights if name.endswith("weight"))
    weights[damaged].view(-1)[0] = float("nan")
    save_file(weights, folder / "model.safetensors")


def cut(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            configured(encoder_config={"auto_map": {"AutoModel": "evil.Evil"}}),
            "whole.*one that names code of its own",
        ),
        (configured(words_splitter_type="stanza"), "whole.*words are split by 'stanza'"),
        (configured(encoder_config=None), "whole.*without its encoder's configuration"),
        (configured(labels_encoder="x"), "whole.*the configuration of its encoder of labels"),
        (configured(labels_decoder="x"), "whole.*one that writes labels"),
        (without("model.safetensors"), "no safetensors weights found"),
        (without("tokenizer_config.json"), "whole.*one without its tokenizer"),
        (without("gliner_config.json"), "a model's folder with a gliner_config.json, found none"),
        (without_weights, "expected all weights|got RuntimeError from it"),
        (with_nan, "expected weights that are numbers, got NaN or inf"),
        (cut, "expected a model that gliner loads, got Safetensor"),
    ],
)
def test_start__refuses_a_model(
    damage: Callable[[Path], None], message: str, model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    damage(folder)

    with pytest.raises(AnnotateError, match=message):
        GlinerNer(model=str(folder), prompts=PROMPTS).start()


def test_digest__depends_on_the_files(model: str, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    configured(max_len=12)(tmp_path / "model")

    digests = {
        GlinerNer(model=str(path), prompts=PROMPTS).digest() for path in (model, tmp_path / "model")
    }

    assert len(digests) == 2


def test_export__gliner_trains_on_the_mentions_of_the_rows(model: str, tmp_path: Path) -> None:
    keep_text = {"encode.keep_text": True}
    shards = md.build("blurb/ncbi-disease", sample=True, out=tmp_path / "built", options=keep_text)
    shards.export(to="gliner", out=tmp_path / "out")
    rows = [
        row
        for path in sorted((tmp_path / "out" / "train").glob("*.json"))
        for row in json.loads(path.read_text())
    ]
    processor = GLiNER.from_pretrained(model, local_files_only=True).data_processor
    processor.config.max_len, processor.config.max_width = 500, 20

    batch = processor.collate_raw_batch(rows, entity_types=[*shards.labels])

    trained = [
        [
            "".join(words[first : last + 1])
            for (first, last), label in zip(places.tolist(), labels.tolist(), strict=True)
            if label > 0
        ]
        for words, places, labels in zip(
            batch["tokens"], batch["span_idx"], batch["span_label"], strict=True
        )
    ]
    gold = [
        [
            "".join(row["text"][row["token_starts"][a] : row["token_ends"][b - 1]].split())
            for a, b in zip(row["span_starts"], row["span_ends"], strict=True)
        ]
        for row in shards["train"]
    ]
    assert any(gold)
    assert trained == gold
