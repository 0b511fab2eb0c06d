"""Tests of the plug-in: run `pytest` in this folder, with the package installed.

The models are small, with random weights, of both architectures of the package.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gliner2", reason="gliner2 is not installed")
import torch
from gliner2 import AutoExtractor, ExtractorConfig
from mslm_data_gliner2 import Gliner2Ner, LoadedGliner2
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, PreTrainedTokenizerFast

import mslm_data as md
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError, PipelineError
from mslm_data.testing import check_annotator

PROMPTS = {"medication": "Drug", "disease": "Disease", "drug": "Drug"}
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("heart", "failure", "aspirin", "and", "a", "##a", ".", "(", ")", "entities", *PROMPTS)
MAX_TOKENS = 64
"""Maximum number of tokens of a window, prompts included."""
TEXT = "heart failure and aspirin"


def make_model(folder: Path, seed: int, architecture: str = "span") -> str:
    """Save a model that finds mentions at random, and return its folder."""
    vocabulary = {word: number for number, word in enumerate((*SPECIALS, *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIALS}
    encoder = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MAX_TOKENS,
    )

    torch.manual_seed(seed)
    model = AutoExtractor.from_config(
        ExtractorConfig(model_name="none", architecture=architecture, span_head={"max_width": 2}),
        encoder_config=encoder,
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names),
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    if architecture == "span":
        # With a predicted count of 0, nothing is found.
        torch.nn.init.constant_(model.count_pred[-1].bias[1], 100)
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_model(tmp_path_factory.mktemp("model"), seed=0)


def annotate(options: Gliner2Ner, *texts: str) -> list[list[Span]]:
    """Return the mentions of each text, by start."""
    found = loaded(options).find([Document(id="d", text=text) for text in texts])
    return [sorted(mentions.spans) for mentions in found]


def loaded(options: Gliner2Ner) -> LoadedGliner2:
    return options.start()._find.__self__


def find_by_package(model: str, text: str, prompts: Any, threshold: float) -> list[dict[str, Any]]:
    """Return the entities that the package finds, by score."""
    extractor = AutoExtractor.from_pretrained(model, local_files_only=True)
    found = extractor.extract_entities(
        text, prompts, threshold=threshold, include_confidence=True, include_spans=True
    )
    entities = [
        {"label": PROMPTS[prompt], **entity}
        for prompt, prompt_entities in found["entities"].items()
        for entity in prompt_entities
    ]
    return sorted(entities, key=lambda entity: -entity["confidence"])


@pytest.mark.parametrize("architecture", ["span", "boundary"])
def test_annotator__keeps_its_promises(architecture: str, tmp_path: Path) -> None:
    options = {"prompts": PROMPTS, "min_score": 0.3}
    first, other = (
        make_model(tmp_path / str(seed), seed, architecture=architecture) for seed in (0, 1)
    )

    check_annotator(
        Gliner2Ner(model=first, **options),
        [f"{TEXT}.", "heart\nfailure", f"a, {TEXT}", "Nothing."],
        other=Gliner2Ner(model=other, **options),
    )


@pytest.mark.parametrize("architecture", ["span", "boundary"])
def test_annotate__finds_what_the_package_finds(architecture: str, tmp_path: Path) -> None:
    model = make_model(tmp_path, 0, architecture)
    texts = [f"{TEXT}.", "A aspirin!", "and, a-failure: aspirin?"]

    mentions = annotate(Gliner2Ner(model=model, prompts=PROMPTS, min_score=0.1), *texts)

    assert sum(map(len, mentions)) > 3
    for text, spans in zip(texts, mentions, strict=True):
        kept: list[dict[str, Any]] = []
        for entity in find_by_package(model, text, sorted(PROMPTS), threshold=0.1):
            if all(entity["end"] <= e["start"] or e["end"] <= entity["start"] for e in kept):
                kept.append(entity)
        kept.sort(key=lambda entity: entity["start"])
        assert [span[:3] for span in spans] == [(e["start"], e["end"], e["label"]) for e in kept]
        assert [text[span.start : span.end] for span in spans] == [e["text"] for e in kept]
        scores = [span.score for span in spans]
        assert scores == pytest.approx([e["confidence"] for e in kept], abs=1e-4)


@pytest.mark.parametrize(
    ("text", "entity", "mentions"),
    [
        ("aspirin ", (0, 8), [(0, 7)]),
        ("aspirin ", (7, 8), []),
        ("and http://a", (4, 13), [(4, 12)]),
        (f"aspirin,{'a' * 90}", (7, 9), [(7, 8)]),  # a word that is too long follows
        (f"aspirin,{'a' * 90}", (8, 9), []),
    ],
)
def test_annotate__does_not_find_the_full_stop_that_the_package_adds(
    text: str,
    entity: tuple[int, int],
    mentions: list[tuple[int, int]],
    model: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = loaded(Gliner2Ner(model=model, prompts=PROMPTS))
    start, end = entity
    result = {"entities": {"drug": [{"start": start, "end": end, "confidence": 0.9}]}}
    monkeypatch.setattr(find._model, "batch_extract_entities", lambda *_, **__: [result])

    [found] = find.find([Document(id="d", text=text)])

    assert [span[:3] for span in found.spans] == [(*mention, "Drug") for mention in mentions]


def test_annotate__leaves_out_what_is_less_sure(model: str) -> None:
    [every] = annotate(Gliner2Ner(model=model, prompts=PROMPTS, min_score=0.0), TEXT)
    lowest, *_, highest = sorted(span.score for span in every)
    between = (lowest + highest) / 2

    [sure] = annotate(Gliner2Ner(model=model, prompts=PROMPTS, min_score=between), TEXT)

    assert lowest < between < highest
    assert {span.score for span in sure} == {s.score for s in every if s.score > between}


def test_annotate__reads_descriptions(model: str) -> None:
    options = {"model": model, "prompts": PROMPTS, "min_score": 0.0}
    descriptions = {"drug": "aspirin and a medication"}

    mentions = annotate(Gliner2Ner(descriptions=descriptions, **options), f"{TEXT}.")

    prompts = {prompt: descriptions.get(prompt, {}) for prompt in sorted(PROMPTS)}
    best, *_ = find_by_package(model, f"{TEXT}.", prompts, threshold=0.0)
    assert mentions != annotate(Gliner2Ner(**options), f"{TEXT}.")
    assert (
        Span(best["start"], best["end"], best["label"], score=round(best["confidence"], 4))
        in (mentions[0])
    )


@pytest.mark.parametrize("words", [f"{'a' * 12}", "and aspirin", "heart. http://a a,\x00"])
def test_annotate__reads_windows_that_fit_and_miss_no_word(
    model: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"{words} {number} " for number in range(50))
    find = loaded(Gliner2Ner(model=model, prompts=PROMPTS))
    extract = find._model.batch_extract_entities
    seen: list[str] = []

    def noted(texts: list[str], *given: Any, **named: Any) -> Any:
        seen.extend(texts)
        return extract(texts, *given, **named)

    monkeypatch.setattr(find._model, "batch_extract_entities", noted)
    find.find([Document(id="d", text=text)])

    schema = find._model.create_schema().entities(sorted(PROMPTS))
    sizes = [
        len(find._model.processor.transform_record(window, schema).input_ids) for window in seen
    ]
    assert len(seen) > 3
    assert sum(map(len, seen)) > len(text)
    assert MAX_TOKENS - 12 < max(sizes) <= MAX_TOKENS

    # Each window begins in the one before, and the last one ends with the text.
    at = 0
    for number, window in enumerate(seen):
        start = text.index(window, at)
        assert not number or start < at + len(seen[number - 1])
        at = start
    assert text[at:].rstrip() == seen[-1]


def test_annotate__finds_the_mentions_of_a_long_text_in_any_batch_size(model: str) -> None:
    text = f"{TEXT}, a " * 40
    options = {"model": model, "prompts": PROMPTS, "min_score": 0.3}

    [single] = annotate(Gliner2Ner(**options), text)
    [batched] = annotate(Gliner2Ner(batch_size=4, **options), text)

    assert single[-1].end > len(text) - 20
    assert [span[:3] for span in batched] == [span[:3] for span in single]
    scores = [span.score for span in single]
    assert [span.score for span in batched] == pytest.approx(scores, abs=2e-4)


@pytest.mark.parametrize("before", ["aspirin ", "aspirin,"])
def test_annotate__reads_around_a_word_that_is_too_long(before: str, model: str) -> None:
    options = Gliner2Ner(model=model, prompts=PROMPTS, min_score=0.0)

    [mentions] = annotate(options, f"{before}{'a' * 90} aspirin")

    first, past = len(before), len(before) + 90
    assert {span.start < first for span in mentions} == {True, False}
    assert all(span.end <= first or span.start > past for span in mentions)


def test_annotate__logs_no_text(model: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        annotate(Gliner2Ner(model=model, prompts=PROMPTS), f"{TEXT} \x00 {TEXT}")

    assert not [record for record in caplog.records if record.name.startswith("gliner2")]


def test_annotate__needs_no_network(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    [mentions] = annotate(Gliner2Ner(model=model, prompts=PROMPTS, min_score=0.0), TEXT)

    assert mentions


def test_build__has_the_same_bytes_by_the_command_with_two_workers(
    model: str, tmp_path: Path
) -> None:
    rows = [{"id": str(number), "text": f"{TEXT} {number}."} for number in range(60)]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    pipeline = tmp_path / "notes.toml"
    pipeline.write_text(
        f"""
name = "notes"
source.use = "jsonl"
segment.use = "whole"
shard.input_bytes = 65_536

[annotate]
use = "gliner2"
model = {json.dumps(model)}
min_score = 0.3
labels = ["Disease", "Drug"]
prompts = {{ disease = "Disease", drug = "Drug" }}
""",
        encoding="utf-8",
    )

    options = {"input": path, "tokenizer": Path(model)}
    md.build(pipeline, out=tmp_path / "1", workers=1, **options)
    command = [sys.executable, "-m", "mslm_data", "build", "--source", pipeline, "--workers", "2"]
    command += ["--input", path, "--tokenizer", model, "--out", tmp_path / "2"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603

    manifests = [(tmp_path / name / "manifest.json").read_bytes() for name in ("1", "2")]
    assert manifests[0] == manifests[1]
    assert sum(map(len, md.load(tmp_path / "1")["train"].examples().span_starts.tolist())) > 60
    assert model.encode() not in manifests[0]


# Options and files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": {"": "X"}}, "expected words, got an empty text"),
        ({"prompts": {"a": "X"}, "descriptions": {"a": " "}}, "expected words, got an empty text"),
        ({"prompts": {"a": "X"}, "descriptions": {"b": "y"}}, "those of prompts, got 'b'"),
        ({"min_score": -1.0}, "expected `float` >= 0.0 for option 'min_score'"),
        ({"promts": {}}, "unknown option 'promts'; did you mean 'prompts'"),
    ],
)
def test_options__are_checked(
    options: dict[str, Any], message: str, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.txt"
    path.write_text(TEXT, encoding="utf-8")
    pipeline = {"name": "x", "source": {"use": "text"}, "annotate": {"use": "gliner2", **options}}

    with pytest.raises(PipelineError, match=message):
        md.build(pipeline, input=path, tokenizer=Path(model), out=tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": PROMPTS}, r"expected model, got none; pass --set annotate\.model"),
        ({"prompts": PROMPTS, "model": "owner/name"}, "found none; download .* with `hf download"),
        ({"model": "model"}, r"expected prompts, got none; pass --set 'annotate\.prompts"),
        (
            {"model": "model", "prompts": {" ".join(["disease"] * 70): "X"}},
            "expected prompts that leave room for 4 tokens, got 1 ",
        ),
    ],
)
def test_start__names_what_is_missing(
    options: dict[str, Any],
    message: str,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "model").symlink_to(model)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(AnnotateError, match=message):
        Gliner2Ner(**options).start()


def configured(name: str, **changed: Any) -> Callable[[Path], None]:
    """Return a function that changes a configuration file of a model."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return change


def without(name: str) -> Callable[[Path], None]:
    """Return a function that deletes a file of a model."""
    return lambda folder: (folder / name).unlink()


def without_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.0.weight"]
    save_file(weights, folder / "model.safetensors")


def with_fewer_words(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = "encoder.embeddings.word_embeddings.weight"
    weights[name] = weights[name][:-1].clone()
    save_file(weights, folder / "model.safetensors")


def with_nan(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["classifier.0.weight"].view(-1)[0] = float("nan")
    save_file(weights, folder / "model.safetensors")


def as_pickle(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").rename(folder / "other.safetensors")


def with_code(folder: Path) -> None:
    """Let the encoder's configuration name a module that deletes the model's tokenizer."""
    (folder / "evil.py").write_text(f"import os\nos.unlink({str(folder / 'tokenizer.json')!r})\n")
    configured("encoder_config/config.json", auto_map={"AutoModel": "evil.Evil"})(folder)


def cut(name: str) -> Callable[[Path], None]:
    """Return a function that damages a file of a model."""
    return lambda folder: (folder / name).write_text("no") and None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (with_code, "encoder_config/config.json.*names code of its own"),
        (configured("tokenizer_config.json", auto_map={}), "names code of its own"),
        (configured("encoder_config/config.json", hidden_size=32), "gliner2 loads, got RuntimeErr"),
        (cut("encoder_config/config.json"), "encoder_config/config.json.*got a damaged file"),
        (cut("model.safetensors"), "expected a model that gliner2 loads, got RuntimeError"),
        (cut("tokenizer.json"), "expected a model that gliner2 loads, got "),
        (without("encoder_config/config.json"), "the encoder_config/config.json of .* got none"),
        (without("tokenizer.json"), "the tokenizer.json of a GLiNER2 model, got none"),
        (without("model.safetensors"), "no safetensors weights found"),
        (as_pickle, "the model.safetensors of a GLiNER2 model, got none"),
        (without("config.json"), "a model's folder with a config.json"),
        (without_weights, "expected a model that gliner2 loads, got RuntimeError"),
        (with_fewer_words, "expected all weights of .*word_embeddings"),
        (with_nan, r"expected weights that are numbers, got NaN .* classifier\.0\.weight"),
    ],
)
def test_start__refuses_a_model(
    damage: Callable[[Path], None], message: str, model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    damage(folder)
    files = sorted(folder.iterdir())

    with pytest.raises(AnnotateError, match=message):
        Gliner2Ner(model=str(folder), prompts=PROMPTS).start()

    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize("name", ["config.json", "encoder_config/config.json"])
def test_digest__depends_on_the_files(name: str, model: str, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    configured(name, note=1)(tmp_path / "model")

    digests = {
        Gliner2Ner(model=str(path), prompts=PROMPTS).digest()
        for path in (model, tmp_path / "model")
    }

    assert len(digests) == 2
