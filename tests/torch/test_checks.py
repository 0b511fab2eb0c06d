"""Silent training mistakes raise an error before training begins. The error names the fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
pytest.importorskip("accelerate")

from msgspec.structs import replace  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.data.examples import TokenIds  # noqa: E402
from mslm_data.errors import PushError  # noqa: E402
from mslm_data.torch import (  # noqa: E402
    MaskedDataset,
    MaskEpochCallback,
    MaskingCollator,
    MslmModel,
    MslmTrainer,
    evaluate,
    mention_confidence,
)
from mslm_data.torch.model.checks import check_tokenizer  # noqa: E402
from tests import made  # noqa: E402
from tests.support.cases import long  # noqa: E402
from tests.torch.families import masked_lm  # noqa: E402
from tests.torch.shards import JOINT  # noqa: E402


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return md.load(out)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a protected folder, as built from patients' text."""
    out = tmp_path_factory.mktemp("notes") / "ncbi"
    pipeline = made.pipeline_of()
    made.built(out, pipeline=replace(pipeline, about=replace(pipeline.about, protected=True)))
    return md.load(out)


def model_for(shards: Any, **options: Any) -> Any:
    """Return a model with the shards' vocabulary."""
    ids = shards.manifest.token_ids
    return masked_lm(
        **{"vocab_size": ids.size, "pad_token_id": ids.pad, "max_position_embeddings": 512}
        | options
    )


def with_tokenizer(model: Any, folder: Path, shards: Any, **tokens: str) -> Any:
    """Save a model beside the shards' tokenizer, optionally with other special tokens, and load it."""
    text = shards.tokenizer.read_text(encoding="utf-8")
    for name, other in tokens.items():
        text = text.replace(f"[{name}]", "[HELD]").replace(other, f"[{name}]")
        text = text.replace("[HELD]", other)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return transformers.AutoModelForMaskedLM.from_pretrained(folder)


def train(
    model: Any, shards: Any, folder: Path, kind: Any, *, shape: Any = None, **options: Any
) -> None:
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=1, use_cpu=True, report_to=[], disable_tqdm=True, **options
    )
    kind(
        model=model,
        args=arguments,
        train_dataset=MaskedDataset(shards["train"], JOINT).loader(4, **(shape or {})),
        callbacks=[MaskEpochCallback()],
    ).train()


class LoaderTrainer(transformers.Trainer):
    """The class of docs/training.md, for loaders."""

    def get_train_dataloader(self) -> Any:
        train_dataset: Any = self.train_dataset
        return train_dataset.for_trainer()


TRAINERS = [MslmTrainer, *long(LoaderTrainer)]


def trained_by(kind: Any, shards: Any, *, protected: bool) -> Any:
    """Return a model trained on patients' text or not, for a trainer."""
    plain = model_for(shards)
    if kind is MslmTrainer or protected:
        return MslmModel.wrap(plain, protected=protected)
    return plain


@pytest.mark.parametrize("kind", TRAINERS)
def test_trainer__refuses_a_model_with_another_vocabulary(
    shards: Any, tmp_path: Path, kind: Any
) -> None:
    size = shards.manifest.token_ids.size
    model = MslmModel.wrap(model_for(shards, vocab_size=size - 1), labels=shards.labels)
    message = rf"{size - 1:,} ids in the model and {size:,} in the rows; build"

    with pytest.raises(ValueError, match=message):
        train(model, shards, tmp_path, kind)


@pytest.mark.parametrize("kind", TRAINERS)
def test_trainer__refuses_another_tokenizer_of_the_same_size(
    shards: Any, tmp_path: Path, kind: Any
) -> None:
    plain = with_tokenizer(model_for(shards), tmp_path / "model", shards, MASK="[UNK]")
    model = MslmModel.wrap(plain, labels=shards.labels)

    with pytest.raises(ValueError, match=r"different tokenizers: mask \d+ in the model and \d+ in"):
        train(model, shards, tmp_path, kind)


@pytest.mark.parametrize("kind", TRAINERS)
def test_trainer__accepts_spare_ids_of_the_same_tokenizer(
    shards: Any, tmp_path: Path, kind: Any
) -> None:
    wider = model_for(shards, vocab_size=shards.manifest.token_ids.size + 100)
    plain = with_tokenizer(wider, tmp_path / "model", shards)

    train(MslmModel.wrap(plain, labels=shards.labels), shards, tmp_path, kind)


def test_trainer__checks_evaluation_rows(shards: Any, tmp_path: Path) -> None:
    model = MslmModel.wrap(model_for(shards, vocab_size=200), labels=shards.labels)
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])
    rows = {"one": MaskedDataset(shards["test"], JOINT, static=True).loader()}

    with pytest.raises(ValueError, match="MslmTrainer: model and rows have different tokenizers"):
        MslmTrainer(model=model, args=arguments, eval_dataset=rows)


def test_trainer__checks_the_tokenizer_of_the_collator(shards: Any, tmp_path: Path) -> None:
    model = MslmModel.wrap(model_for(shards, vocab_size=200), labels=shards.labels)
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])

    with pytest.raises(ValueError, match="model and rows have different tokenizers"):
        MslmTrainer(
            model=model, args=arguments, data_collator=MaskingCollator("bert", shards["train"])
        )


@pytest.mark.parametrize("kind", [MslmTrainer, LoaderTrainer])
@pytest.mark.parametrize("protected", [*long("model"), "rows", *long("some rows")])
def test_trainer__uploads_no_protected_checkpoint(
    shards: Any, notes: Any, tmp_path: Path, kind: Any, protected: str, monkeypatch: Any
) -> None:
    # The Trainer creates the repository before our check. It stays empty.
    monkeypatch.setattr(kind, "init_hf_repo", lambda *_, **__: None)
    model = trained_by(kind, shards, protected=protected == "model")
    rows = {"rows": notes["train"], "some rows": md.mix([shards["train"], notes["test"]])}
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=1, use_cpu=True, report_to=[], push_to_hub=True
    )

    with pytest.raises(PushError, match="push_to_hub is set, but the model is trained on"):
        kind(
            model=model,
            args=arguments,
            train_dataset=MaskedDataset(rows.get(protected, shards["train"]), JOINT).loader(),
            callbacks=[MaskEpochCallback()],
        ).train()


@pytest.mark.parametrize("kind", TRAINERS)
@pytest.mark.parametrize("protected", ["model", "rows"])
def test_push_to_hub__refuses_a_protected_model_of_the_trainer(
    shards: Any, notes: Any, tmp_path: Path, kind: Any, protected: str
) -> None:
    rows = notes["train"] if protected == "rows" else shards["train"]
    trainer = kind(
        model=trained_by(kind, shards, protected=protected == "model"),
        args=transformers.TrainingArguments(
            str(tmp_path), max_steps=1, use_cpu=True, report_to=[], save_strategy="no"
        ),
        train_dataset=MaskedDataset(rows, JOINT).loader(),
        callbacks=[MaskEpochCallback()],
    )
    if protected == "rows":
        trainer.train()

    with pytest.raises(PushError, match="push_to_hub is set, but the model is trained on"):
        trainer.push_to_hub()


@pytest.mark.parametrize("kind", [MslmTrainer, *long(transformers.Trainer)])
@pytest.mark.parametrize("library", ["mslm_data", "datasets"])
def test_trainer__uploads_no_protected_model_of_collated_rows(
    shards: Any, notes: Any, tmp_path: Path, kind: Any, library: str
) -> None:
    rows = notes["train"]
    if library == "datasets":
        rows = datasets.Dataset(pa.Table.from_batches(list(rows.batches())))
    trainer = kind(
        model=trained_by(kind, shards, protected=False),
        args=transformers.TrainingArguments(
            str(tmp_path),
            max_steps=1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            remove_unused_columns=False,
        ),
        train_dataset=rows,
        data_collator=MaskingCollator(JOINT, notes["train"]),
        callbacks=[MaskEpochCallback()],
    )
    trainer.train()

    with pytest.raises(PushError, match="push_to_hub is set, but the model is trained on"):
        trainer.push_to_hub()


@pytest.mark.parametrize("rows", ["split", "dataset"])
def test_mslm_trainer__refuses_rows_without_a_collator(
    shards: Any, tmp_path: Path, rows: str
) -> None:
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])
    model = MslmModel.wrap(model_for(shards), labels=shards.labels)
    split = shards["train"]
    given = split if rows == "split" else MaskedDataset(split, JOINT)

    with pytest.raises(TypeError, match=r"expected a loader, .*, got .*; for other rows pass"):
        MslmTrainer(model=model, args=arguments, train_dataset=given)


def test_mslm_trainer__refuses_a_model_that_is_not_wrapped(shards: Any, tmp_path: Path) -> None:
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])

    with pytest.raises(TypeError, match="expected an MslmModel, got BertForMaskedLM; pass"):
        MslmTrainer(model=model_for(shards), args=arguments)


@pytest.mark.parametrize("kind", [MslmTrainer, LoaderTrainer])
@pytest.mark.parametrize("given", ["loader", *long("split")])
@pytest.mark.parametrize("protected", [True, False])
def test_trainer__marks_a_model_trained_on_protected_text(
    shards: Any, notes: Any, tmp_path: Path, kind: Any, given: str, protected: bool
) -> None:
    split = (notes if protected else shards)["train"]
    options: dict[str, Any] = {"train_dataset": MaskedDataset(split, JOINT).loader(batch_size=4)}
    if given == "split":
        kind = MslmTrainer if kind is MslmTrainer else transformers.Trainer
        options = {"train_dataset": split, "data_collator": MaskingCollator(JOINT, split)}
    model = MslmModel.wrap(model_for(shards), labels=shards.labels)
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"), max_steps=1, use_cpu=True, report_to=[], remove_unused_columns=False
    )

    kind(model=model, args=arguments, callbacks=[MaskEpochCallback()], **options).train()
    model.save_pretrained(tmp_path / "saved")

    assert MslmModel.from_pretrained(tmp_path / "saved").config.protected is protected


def test_trainer__does_not_mark_a_model_evaluated_on_protected_text(
    shards: Any, notes: Any, tmp_path: Path
) -> None:
    model = MslmModel.wrap(model_for(shards), labels=shards.labels)
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=1, use_cpu=True, report_to=[]
    )
    trainer = MslmTrainer(
        model=model,
        args=arguments,
        train_dataset=MaskedDataset(shards["train"], JOINT).loader(),
        eval_dataset=MaskedDataset(notes["test"], JOINT, static=True).loader(),
    )

    trainer.train()
    trainer.evaluate()

    assert not model.config.protected


def test_trainer__checks_loaders_by_name(shards: Any, tmp_path: Path) -> None:
    model = MslmModel.wrap(model_for(shards, vocab_size=200), labels=shards.labels)
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])
    loader = MaskedDataset(shards["test"], JOINT, static=True).loader(batch_size=2)

    with pytest.raises(ValueError, match="model and rows have different tokenizers"):
        MslmTrainer(model=model, args=arguments, eval_dataset={"one": loader})


def test_evaluate__refuses_rows_of_another_tokenizer(shards: Any) -> None:
    model = MslmModel.wrap(model_for(shards, vocab_size=200), labels=shards.labels)

    for rows in (shards["test"], shards["test"].examples()):
        with pytest.raises(ValueError, match="evaluate: model and rows have different tokenizers"):
            evaluate(model.predict, rows, labels=shards.labels)


def test_mention_confidence__refuses_rows_of_another_tokenizer(shards: Any) -> None:
    model = model_for(shards, vocab_size=200)

    with pytest.raises(ValueError, match="mention_confidence: model and rows have different tok"):
        mention_confidence(model, shards["test"].examples())


def with_labels(folder: Path, *labels: str) -> Any:
    """Build rows with these labels, in this order."""
    spans = [[0, 6, labels[0]], [7, 12, labels[-1]]]
    rows = [{"id": str(n), "text": "kinase genes", "entities": spans} for n in range(8)]
    for split in ("train", "test"):
        made_of = folder.with_name(f"{folder.name}-in") / f"{split}.jsonl"
        made_of.parent.mkdir(exist_ok=True)
        made_of.write_text("\n".join(map(json.dumps, rows)))
    pipeline = made.pipeline_of(source={"use": "jsonl"}, labels=labels, name=folder.name)
    made.built(folder, made_of.parent, pipeline)
    return md.load(folder)


def test_trainer__refuses_rows_with_other_labels(tmp_path: Path) -> None:
    both, second = with_labels(tmp_path / "a", "X", "Y"), with_labels(tmp_path / "b", "Y")
    model = MslmModel.wrap(model_for(both), labels=both.labels, w_elm=0.5, w_blm=0.5)
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"), use_cpu=True, report_to=[], max_steps=1, save_strategy="no"
    )

    def train(rows: Any) -> None:
        MslmTrainer(
            model=model,
            args=arguments,
            train_dataset=MaskedDataset(rows, JOINT).loader(),
        ).train()

    train(both["train"])
    train(md.mix({both.folder: 0.5, second.folder: 0.5}))
    for rows in (second["train"], md.mix({second.folder: 1.0})):
        with pytest.raises(
            ValueError, match="rows with the labels of the model: X, Y, got Y; wrap"
        ):
            train(rows)


def test_evaluate__compares_labels_by_name(tmp_path: Path) -> None:
    second = with_labels(tmp_path / "b", "Y")
    gold = torch.from_numpy(second["test"].examples(0, 1).bio.values.astype("int64"))

    def knows(*, input_ids: Any, attention_mask: Any) -> Any:
        """Tag all rows, which are equal, with the labels X and Y."""
        tags = torch.where(gold > 0, gold + 2, gold).expand_as(input_ids)
        return torch.nn.functional.one_hot(tags, 5).float()

    found = evaluate(knows, second["test"], labels=("X", "Y"))

    assert found["types"]["Y"]["f1"] == 1.0
    assert found["types"]["X"]["gold"] == 0
    with pytest.raises(
        ValueError, match="the rows have the labels Y, but the model has X, Z; pass"
    ):
        evaluate(knows, second["test"], labels=("X", "Z"))


def test_evaluate__refuses_labels_other_than_the_models(tmp_path: Path) -> None:
    shards = with_labels(tmp_path / "a", "X", "Y")
    model = MslmModel.wrap(model_for(shards), labels=("Y", "X"), w_elm=0.5, w_blm=0.5)

    with pytest.raises(ValueError, match="expected the labels of the model, Y, X, got X, Y"):
        evaluate(model.predict, shards["test"], labels=shards.labels)
    evaluate(model.predict, shards["test"], labels=("Y", "X"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"labels": ("X",), "two_view": True},
            "unknown option 'two_view'; did you mean 'two_views'",
        ),
        ({"labels": "Disease"}, "expected labels as a list of unique names"),
        ({"labels": ["X", "X"]}, "expected labels as a list of unique names"),
    ],
)
def test_wrap__refuses_unknown_options(shards: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MslmModel.wrap(model_for(shards), **options)


def test_wrap__refuses_an_mslm_model(shards: Any) -> None:
    model = MslmModel.wrap(model_for(shards), labels=shards.labels)

    with pytest.raises(ValueError, match="got an MslmModel; wrap its masked_lm"):
        MslmModel.wrap(model)
    assert MslmModel.wrap(model.masked_lm, labels=("Z",)).config.labels == ["Z"]


def test_wrap__refuses_another_tokenizer_than_the_models(shards: Any, tmp_path: Path) -> None:
    same = with_tokenizer(model_for(shards), tmp_path / "same", shards)
    other = with_tokenizer(model_for(shards), tmp_path / "other", shards, MASK="[UNK]")

    MslmModel.wrap(same, tokenizer=shards.tokenizer)
    with pytest.raises(
        ValueError, match=r"MslmModel.wrap: model and rows have different tokenizers: mask"
    ):
        MslmModel.wrap(other, tokenizer=shards.tokenizer)


def test_check_tokenizer__checks_padding() -> None:
    """In RoBERTa-like models, tokens with the padding id have no position."""
    model = masked_lm("roberta", pad_token_id=1)
    ids = TokenIds(size=100, pad=0, special=(0,))

    with pytest.raises(
        ValueError, match="different tokenizers: pad 1 in the model and 0 in the rows"
    ):
        check_tokenizer("here", model, ids)


@pytest.mark.parametrize(
    "model", [lambda input_ids: input_ids, torch.nn.Linear(1, 1), masked_lm(name_or_path="a/b c")]
)
def test_check_tokenizer__skips_models_without_a_known_tokenizer(model: Any) -> None:
    check_tokenizer("here", model, TokenIds(size=100, pad=0, mask=4, special=(0, 4)))


def test_trainer__refuses_flat_rows_for_a_model_that_cannot_separate_them(
    shards: Any, tmp_path: Path
) -> None:
    with pytest.raises(
        ValueError, match="in a BertForMaskedLM flat rows would attend to each other; pass Mslm"
    ):
        train(model_for(shards), shards, tmp_path, LoaderTrainer, shape={"flat": True})
    train(model_for(shards), shards, tmp_path, LoaderTrainer)
