from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

import mslm_data as md
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.errors import PushError, TokenizerError
from mslm_data.io import resources
from mslm_data.torch import MslmModel
from mslm_data.torch.model.saved import longest_row
from tests import made
from tests.torch.families import masked_lm

VOCAB = resources.path("vocab", "sample/vocab.txt")
SPECIAL = {
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
}
LOAD = """
import json, sys
from transformers import AutoModel, AutoTokenizer
whole, encoder = sys.argv[1:]
plain = AutoModel.from_pretrained(encoder)
names = [AutoTokenizer.from_pretrained(folder).mask_token for folder in (whole, encoder)]
from mslm_data.torch import MslmModel
model = MslmModel.from_pretrained(whole)
print(json.dumps([type(plain).__name__, names, model.config.labels, model.tokenizer.digest]))
"""


@pytest.fixture(scope="module")
def of_sample() -> tokenizers.Tokenizer:
    return tokenizers.load_tokenizer(str(VOCAB))


def wrapped(tokenizer: Any, **options: Any) -> MslmModel:
    size = tokenizers.load_tokenizer(str(VOCAB)).ids.size
    return MslmModel.wrap(
        masked_lm("bert", vocab_size=size), labels=["Drug"], tokenizer=tokenizer, **options
    )


@pytest.mark.long
def test_save_pretrained__folder_loads_in_a_new_process(
    of_sample: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    # In this process, AutoModel already knows the model, so load it in a new one.
    model = wrapped(VOCAB)
    model.save_pretrained(tmp_path / "whole")
    model.save_encoder(tmp_path / "encoder")

    done = subprocess.run(
        [sys.executable, "-c", LOAD, tmp_path / "whole", tmp_path / "encoder"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert json.loads(done.stdout) == [
        "BertModel",
        ["[MASK]", "[MASK]"],
        ["Drug"],
        of_sample.digest,
    ]


def test_save_pretrained__writes_private_files_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        wrapped(VOCAB).save_pretrained(tmp_path / "model")
        wrapped(VOCAB).save_encoder(tmp_path / "encoder")
    finally:
        os.umask(before)

    for folder in tmp_path.iterdir():
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700


def test_save_pretrained__writes_special_tokens_and_the_longest_row(tmp_path: Path) -> None:
    wrapped(VOCAB).save_pretrained(tmp_path)

    loaded: Any = AutoTokenizer.from_pretrained(tmp_path)

    assert {name: getattr(loaded, name) for name in SPECIAL} == SPECIAL
    assert loaded.model_max_length == 64
    assert loaded.backend_tokenizer.to_str() == (tmp_path / "tokenizer.json").read_text()


def test_tokenizer__of_a_built_folder_has_its_special_tokens_in_transformers(
    tmp_path: Path,
) -> None:
    shards = md.build("blurb/ncbi-disease", sample=True, out=tmp_path / "ncbi", workers=1)
    assert isinstance(shards.folder, Path)

    loaded: Any = AutoTokenizer.from_pretrained(shards.folder)

    assert {name: getattr(loaded, name) for name in SPECIAL} == SPECIAL
    assert loaded("Aspirin helps").input_ids[0] == loaded.cls_token_id
    assert tokenizers.load_tokenizer(str(shards.folder)).ids == shards.manifest.token_ids


@pytest.mark.parametrize("name", ["t5", "byte_level"])
def test_tokenizer__of_a_built_folder_keeps_its_ids_in_transformers(
    tmp_path: Path, name: str
) -> None:
    given = made.TOKENIZERS[name]()
    (tmp_path / "tokenizer.json").write_text(given.json)
    shards = md.build(
        "blurb/ncbi-disease",
        sample=True,
        tokenizer=str(tmp_path),
        out=tmp_path / "ncbi",
        workers=1,
    )

    loaded: Any = AutoTokenizer.from_pretrained(shards.folder)

    assert shards.manifest.token_ids == given.ids
    assert set(loaded.all_special_ids) == set(given.ids.special)
    assert [loaded.pad_token_id, loaded.eos_token_id] == [given.ids.pad, given.ids.eos]
    assert loaded.convert_tokens_to_ids([f"<extra_id_{k}>" for k in range(10)]) == (
        [*given.ids.sentinels] or [given.ids.unk] * 10
    )


def test_wrap__accepts_a_tokenizer_in_any_form(
    of_sample: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(of_sample.json)
    fast = PreTrainedTokenizerFast(tokenizer_file=str(path), **SPECIAL)

    for given in (of_sample, path, str(tmp_path), fast):
        tokenizer = wrapped(given).tokenizer

        assert tokenizer is not None
        assert (tokenizer.digest, tokenizer.ids) == (of_sample.digest, of_sample.ids)


def test_wrap__reads_the_tokenizer_of_a_folder_with_unusual_names(tmp_path: Path) -> None:
    lines = VOCAB.read_text().replace("[MASK]", "<hide>").replace("[UNK]", "[UNK]")
    (tmp_path / "vocab.txt").write_text(lines)
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": "<hide>"}')
    masked_lm("bert", vocab_size=lines.count("\n")).save_pretrained(tmp_path)

    model = MslmModel.wrap(tmp_path, labels=["Drug"])
    model.save_pretrained(tmp_path / "saved")
    again = MslmModel.from_pretrained(tmp_path / "saved").tokenizer

    assert again is not None
    assert again.ids.mask == lines.split("\n").index("<hide>")
    assert model.config.special_ids == [0, 2, 3]


def test_wrap__without_a_tokenizer_saves_none(tmp_path: Path) -> None:
    MslmModel.wrap(masked_lm()).save_pretrained(tmp_path)

    assert MslmModel.from_pretrained(tmp_path).tokenizer is None
    assert not list(tmp_path.glob("tokenizer*"))


def test_wrap__refuses_a_tokenizer_with_more_ids_than_the_model(tmp_path: Path) -> None:
    message = r"different tokenizers: 100 ids in the model and 1,\d\d\d in the rows"
    with pytest.raises(ValueError, match=message):
        MslmModel.wrap(masked_lm(), tokenizer=VOCAB)

    MslmModel.wrap(masked_lm()).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        MslmModel.from_pretrained(tmp_path, tokenizer=VOCAB)


def test_wrap__accepts_a_model_with_many_spare_embeddings() -> None:
    """mDeBERTa has 251,000 embeddings for 250,102 ids."""
    size = tokenizers.load_tokenizer(str(VOCAB)).ids.size
    plain = masked_lm(vocab_size=size + 900)

    assert MslmModel.wrap(plain, tokenizer=VOCAB).tokenizer is not None


def test_wrap__refuses_a_damaged_tokenizer_beside_the_model(tmp_path: Path) -> None:
    masked_lm().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")

    with pytest.raises(TokenizerError, match=r"tokenizer.json"):
        MslmModel.wrap(tmp_path)


def test_wrap__refuses_an_invalid_tokenizer() -> None:
    with pytest.raises(TokenizerError, match="expected a path, a hub name, or a fast tokenizer"):
        MslmModel.wrap(masked_lm(), tokenizer=3)


def test_card__cleans_labels_and_marks_a_protected_model(tmp_path: Path) -> None:
    model = MslmModel.wrap(masked_lm(), labels=["<b>\x1b[31m*"], protected=True)

    model.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text()

    assert "* Labels: &lt;b&gt;\\\\u001b\\[31m\\*" in card
    assert "patients' text" in card


def test_card__of_the_user_is_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")

    MslmModel.wrap(masked_lm()).save_pretrained(tmp_path)

    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("family", "expected"), [("bert", 64), ("roberta", 62), ("modernbert", 64), ("mpnet", 62)]
)
def test_longest_row__fits_the_model(family: str, expected: int) -> None:
    import torch

    model = masked_lm(family)

    assert longest_row(model) == expected
    model(input_ids=torch.full((1, expected), 7))
    if family in ("bert", "roberta", "mpnet"):
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, expected + 1), 7))


def test_push_to_hub__refuses_a_protected_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[Any] = []
    monkeypatch.setattr(PreTrainedModel, "push_to_hub", lambda *given: pushed.append(given[1:]))
    model = wrapped(VOCAB, protected=True)
    model.save_pretrained(tmp_path / "saved")
    again = MslmModel.from_pretrained(tmp_path / "saved")

    for one in (model, again):
        for push in (
            lambda one=one: one.push_to_hub("me/model"),
            lambda one=one: one.save_pretrained(tmp_path / "more", push_to_hub=True),
            lambda one=one: one.save_pretrained(tmp_path / "more", True, None, True),
        ):
            with pytest.raises(PushError, match=r"patients' text.*model.config.protected = False"):
                push()

    assert not pushed
    assert not (tmp_path / "more").exists()
    model.config.protected = False
    model.push_to_hub("me/model")
    assert pushed == [("me/model",)]
