"""Tests of the annotator "gliner", and of the export for GLiNER.

Run `python -m pytest examples/plugins/gliner` from the root, with the package installed.
`constraints.txt` has the tested versions.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gliner", reason="gliner is not installed")
import torch
from gliner import GLiNER
from mslm_data_gliner import GlinerNer
from transformers import BertConfig

import mslm_data as md
from mslm_data.annotate import ANNOTATORS
from mslm_data.annotate.cached import FoundMentions
from mslm_data.data.document import Document
from mslm_data.errors import AnnotateError, PipelineError
from mslm_data.testing import check_annotator
from tests import made
from tests.annotate.model_made import config_for, hand_on, words_of, write_tokenizer, zero
from tests.made import build

NAMES = ("heart failure", "aspirin")
PROMPTS = {"disease": "Disease", "drug": "Drug", "medication": "Drug"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that finds `NAMES`."""
    return name_finder(tmp_path_factory.mktemp("model"), NAMES)


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with random weights, at most 20 words and 64 tokens, prompts included."""
    folder = tmp_path_factory.mktemp("random")
    words = ["heart", "failure", "aspirin", "and", "a", "##a", *PROMPTS]
    write_tokenizer(folder / "base", words)
    BertConfig(
        vocab_size=5 + len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    ).save_pretrained(folder / "base")
    options = {"model_name": str(folder / "base"), "max_len": 20, "max_width": 4, "hidden_size": 16}
    torch.manual_seed(0)
    model = GLiNER.from_config(options, backbone_from_pretrained=False)
    for parameter in model.model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder, safe_serialization=True)
    return str(folder)


def name_finder(folder: Path, names: Sequence[str], *, longest: int = 64) -> str:
    """Save a model that finds the names for any prompt, and return its folder."""
    words = words_of(names)
    base = folder / "base"
    write_tokenizer(base, words)
    config = config_for(words, longest)
    config.save_pretrained(base)
    width = config.hidden_size
    options = {
        "model_name": str(base),
        "max_len": 24,
        "max_width": 2,
        "hidden_size": width,
        "num_rnn_layers": 0,
    }
    model = GLiNER.from_config(options, backbone_from_pretrained=False)

    # Dimension n of a span is marked by the first word of name n, and by its last one. With both
    # marks, the output is 1, and the product with the prompt 20 - 10; otherwise, it is -10.
    with torch.no_grad():
        hand_on(model.model.token_rep_layer.bert_layer.model, words)
        spans = model.model.span_rep_layer.span_rep_layer
        for layers, place in ((spans.project_start, 0), (spans.project_end, -1)):
            zero(layers)
            layers[0].weight[: len(words), : len(words)] = torch.eye(len(words))
            for number, name in enumerate(names):
                layers[3].weight[number, words.index(name.lower().split()[place])] = (
                    1 / (width - 1) ** 0.5
                )
        zero(spans.out_project)
        for number in range(len(names)):
            spans.out_project[0].weight[number, number] = 1.0
            spans.out_project[0].weight[number, width + number] = 1.0
            spans.out_project[0].bias[number] = -1.5
            spans.out_project[3].weight[0, number] = 2.0
        spans.out_project[3].bias[1] = 1.0
        zero(model.model.prompt_rep_layer)
        model.model.prompt_rep_layer[3].bias[0] = 20.0
        model.model.prompt_rep_layer[3].bias[1] = -10.0
    model.save_pretrained(folder, safe_serialization=True)
    return str(folder)


def annotate(options: GlinerNer, *texts: str) -> list[FoundMentions]:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*truncated.*")
        return made.annotated(options.start(), [Document(id="d", text=text) for text in texts])


def places(mentions: FoundMentions) -> list[tuple[int, int, str]]:
    return [(start, end, label) for start, end, label, _, _ in mentions.spans]


def test_annotator__keeps_what_all_annotators_promise(model: str, tmp_path: Path) -> None:
    other = name_finder(tmp_path, NAMES[:1])
    prompts = {"names": "X"}

    check_annotator(
        GlinerNer(model=model, prompts=prompts),
        ["Heart failure,\non aspirin.", "Heart\nfailure", "Nothing."],
        other=GlinerNer(model=other, prompts=prompts),
    )


def test_annotate__finds_what_the_package_finds(random_model: str) -> None:
    texts = ["heart failure and aspirin", "a aspirin", "and, a-failure: aspirin!", " x ", ""]

    mentions = annotate(GlinerNer(model=random_model, prompts=PROMPTS, min_score=0.3), *texts)

    peer = GLiNER.from_pretrained(random_model, local_files_only=True)
    peer_entities = [peer.predict_entities(text, sorted(PROMPTS), threshold=0.3) for text in texts]
    assert sum(map(len, peer_entities)) > 3
    assert [places(text_mentions) for text_mentions in mentions] == [
        sorted((e["start"], e["end"], PROMPTS[e["label"]]) for e in text_mentions)
        for text_mentions in peer_entities
    ]
    assert [
        span.score for text_mentions in mentions for span in text_mentions.spans
    ] == pytest.approx(
        [
            e["score"]
            for text_mentions in peer_entities
            for e in sorted(text_mentions, key=lambda e: e["start"])
        ],
        abs=1e-4,
    )


@pytest.mark.parametrize("batch_size", [1, 3])
def test_annotate__reads_long_texts_in_windows_and_truncates_nothing(
    model: str, batch_size: int
) -> None:
    text = "then heart failure and " * 100

    [mentions] = annotate(
        GlinerNer(model=model, prompts={"names": "X"}, batch_size=batch_size), text
    )

    assert places(mentions) == [(23 * copy + 5, 23 * copy + 18, "X") for copy in range(100)]


def test_annotate__counts_tokens_as_well_as_words(random_model: str) -> None:
    # Prompts and special tokens take 9 of 64 tokens, so at most four of these words fit.
    options = GlinerNer(model=random_model, prompts=PROMPTS)
    loaded = options.start()
    seen = []
    find = loaded._find.__self__  # type: ignore[attr-defined]
    tokenizer = find._model.data_processor.transformer_tokenizer
    inference = find._model.inference

    def noted(texts: list[str], *given: Any, **named: Any) -> Any:
        seen.extend(texts)
        return inference(texts, *given, **named)

    find._model.inference = noted
    made.annotated(loaded, [Document(id="d", text=f"{'a' * 12} " * 30)])

    assert find._tokens == 64 - 9
    assert sum(map(len, seen)) > 30 * 13
    assert all(len(tokenizer(text)["input_ids"]) - 2 <= find._tokens for text in seen)


def test_annotate__reads_around_a_word_that_is_too_long(random_model: str) -> None:
    text = f"aspirin {'a' * 90} aspirin"

    loaded = GlinerNer(model=random_model, prompts=PROMPTS, min_score=0.0).start()
    [mentions] = made.annotated(loaded, [Document(id="d", text=text)])

    assert mentions.spans
    assert all(end <= 7 or start >= 99 for start, end, *_ in mentions.spans)


def test_annotate__leaves_out_what_is_less_sure(random_model: str) -> None:
    text = "heart failure and aspirin"
    [every] = annotate(GlinerNer(model=random_model, prompts=PROMPTS, min_score=0.0), text)
    lowest, *_, highest = sorted(span.score for span in every.spans)
    between = (lowest + highest) / 2

    [sure] = annotate(GlinerNer(model=random_model, prompts=PROMPTS, min_score=between), text)

    assert lowest < between < highest
    assert {span.score for span in sure.spans} == {
        span.score for span in every.spans if span.score > between
    }


def test_build__has_the_same_bytes_for_any_number_of_workers(model: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    texts = [f"He has heart failure. {number} mg aspirin daily." for number in range(60)]
    rows = ({"id": str(number), "text": text} for number, text in enumerate(texts))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    pipeline = made.pipeline_of(
        source={"use": "jsonl"},
        annotate={"use": "gliner", "model": model, "prompts": {"names": "X"}, "labels": ["X"]},
        unit_bytes=1500,
    )

    trees = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        manifest = build(pipeline, [path], made.word_piece(), out, workers=workers)
        trees.append(made.tree(out))

    assert trees[0] == trees[1]
    assert manifest is not None
    assert manifest.splits["train"].mentions == 120
    assert model not in str(manifest)


# Options and files --------------------------------------------------------------------------------


def test_labels__are_those_of_the_prompts() -> None:
    assert GlinerNer(model="m", prompts=PROMPTS).labels() == ("Disease", "Drug")
    with pytest.raises(AnnotateError, match=r"expected prompts, got none; pass --set 'annotate"):
        GlinerNer(model="m").labels()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": {"": "X"}}, "expected words and a label for each, got an empty text"),
        ({"prompts": {"a": " "}}, "expected words and a label for each, got an empty text"),
        ({"min_score": -1.0}, "expected min_score between 0 and 1"),
        ({"promts": {}}, "unknown option 'promts'; did you mean 'prompts'"),
    ],
)
def test_options__are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        ANNOTATORS.make("gliner", options)


def test_prompts__must_leave_room(random_model: str) -> None:
    prompts = {" ".join(["disease"] * 70): "X"}

    with pytest.raises(AnnotateError, match="expected prompts that leave room for 4 words, got 1 "):
        GlinerNer(model=random_model, prompts=prompts).start()


def copy_model(model: str, folder: Path, **changed: Any) -> Path:
    """Copy a model and change its configuration."""
    shutil.copytree(model, folder)
    path = folder / "gliner_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return folder


@pytest.mark.parametrize(
    ("changed", "got"),
    [
        ({"encoder_config": {"auto_map": {"AutoModel": "evil.Evil"}}}, "names code of its own"),
        ({"words_splitter_type": "stanza"}, "one whose words are split by 'stanza'"),
        ({"encoder_config": None}, "one without its encoder's configuration"),
        ({"labels_encoder": "x"}, "without the configuration of its encoder of labels"),
        ({"labels_decoder": "x"}, "one that writes labels"),
    ],
)
def test_model__that_needs_more_than_its_folder_is_refused(
    model: str, changed: dict[str, Any], got: str, tmp_path: Path
) -> None:
    folder = copy_model(model, tmp_path / "model", **changed)

    with pytest.raises(AnnotateError, match=f"expected a GLiNER model that is whole.*{got}"):
        GlinerNer(model=str(folder), prompts=PROMPTS).digest()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", "no safetensors weights found"),
        ("tokenizer_config.json", "one without its tokenizer"),
        ("gliner_config.json", "a model's folder with a gliner_config.json, found none"),
    ],
)
def test_model__without_a_file_is_refused(
    model: str, file: str, message: str, tmp_path: Path
) -> None:
    folder = copy_model(model, tmp_path / "model")
    (folder / file).unlink()

    with pytest.raises(AnnotateError, match=message):
        GlinerNer(model=str(folder), prompts=PROMPTS).start()


def test_model__without_some_weights_is_refused(model: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copy_model(model, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    missing = weights.popitem()[0]
    save_file(weights, folder / "model.safetensors")

    with pytest.raises(
        AnnotateError, match=r"expected all weights|got RuntimeError from it"
    ) as error:
        GlinerNer(model=str(folder), prompts=PROMPTS).start()
    assert missing in str(error.value) or "RuntimeError" in str(error.value)


def test_model__with_weights_that_are_no_numbers_is_refused(model: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copy_model(model, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    damaged = next(name for name in weights if name.endswith("weight"))
    weights[damaged].view(-1)[0] = float("nan")
    save_file(weights, folder / "model.safetensors")

    with pytest.raises(AnnotateError, match="expected weights that are numbers, got NaN or inf"):
        GlinerNer(model=str(folder), prompts=PROMPTS).start()


def test_model__of_other_files_has_another_digest(model: str, tmp_path: Path) -> None:
    other = copy_model(model, tmp_path / "model", max_len=12)

    digests = {GlinerNer(model=str(path), prompts=PROMPTS).digest() for path in (model, other)}

    assert len(digests) == 2


def test_model__that_is_damaged_is_refused(model: str, tmp_path: Path) -> None:
    folder = copy_model(model, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"no")

    with pytest.raises(AnnotateError, match="expected a model that gliner loads, got Safetensor"):
        GlinerNer(model=str(folder), prompts=PROMPTS).start()


def test_model__must_be_named() -> None:
    with pytest.raises(AnnotateError, match=r"expected model, got none; pass --set annotate\.mod"):
        GlinerNer(prompts=PROMPTS).start()


def test_export__gliner_trains_on_the_mentions_of_the_rows(
    random_model: str, tmp_path: Path
) -> None:
    made.built(tmp_path / "built", pipeline=made.pipeline_of(encode={"keep_text": True}))
    shards = md.load(tmp_path / "built")
    shards.export(to="gliner", out=tmp_path / "out")
    rows = [
        row
        for path in sorted((tmp_path / "out" / "train").glob("*.json"))
        for row in json.loads(path.read_text())
    ]
    processor = GLiNER.from_pretrained(random_model, local_files_only=True).data_processor
    processor.config.max_len, processor.config.max_width = 500, 20

    batch = processor.collate_raw_batch(rows, entity_types=[*shards.labels])

    batch_rows = zip(batch["tokens"], batch["span_idx"], batch["span_label"], strict=True)
    mentions = [
        [
            ("".join(words[first : last + 1]), batch["id_to_classes"][label])
            for (first, last), label in zip(places.tolist(), labels.tolist(), strict=True)
            if label > 0
        ]
        for words, places, labels in batch_rows
    ]
    gold = [
        [
            (
                "".join(row["text"][row["token_starts"][a] : row["token_ends"][b - 1]].split()),
                shards.labels[label],
            )
            for a, b, label in zip(
                row["span_starts"], row["span_ends"], row["span_labels"], strict=True
            )
        ]
        for row in shards["train"]
    ]
    assert any(gold)
    assert mentions == gold
