from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest

from mslm_data.data.ragged import Ragged
from mslm_data.errors import MissingExtraError, VocabularyError
from mslm_data.lexicon.scores import encoders
from mslm_data.lexicon.scores.encoders import load_encoder, split_batches
from tests import made
from tests.lexicon.models import SIZE, config, plain, sample_vocab, saved, torch, transformers


def test_load_encoder__equals_transformers(tmp_path):
    encoder = load_encoder(str(saved(tmp_path / "m")))
    rows = Ragged.from_rows([[2, 9, 8, 3], [2, 7, 3], [2, *range(20, 60), 3]], np.int32)
    model = plain(tmp_path / "m")

    for places, output in encoder.batches(rows):
        for place, row in zip(places, output.last_hidden_state, strict=True):
            with torch.inference_mode():
                expected = model(torch.tensor([rows[place].tolist()])).last_hidden_state[0]
            torch.testing.assert_close(row[: len(expected)], expected, rtol=1e-4, atol=1e-5)


def test_load_encoder__digest_depends_on_the_weights(tmp_path):
    first, again = (load_encoder(str(saved(tmp_path / name))) for name in "ab")
    other = load_encoder(str(saved(tmp_path / "c", initializer_range=0.6)))
    with_tokenizer = load_encoder(str(saved(tmp_path / "d", vocab=sample_vocab())))

    assert first.digest == again.digest
    assert len({first.digest, other.digest, with_tokenizer.digest}) == 3
    assert first.about == {"class": "BertModel", "sha256": first.digest}


def pickle_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save(transformers.BertModel(config()).state_dict(), folder / "pytorch_model.bin")


def add_code(folder):
    settings = json.loads((folder / "config.json").read_text())
    settings |= {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"},
    }
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "own.py").write_text("raise SystemExit('this must not run')")


@pytest.mark.parametrize(
    ("change", "head", "message"),
    [
        (pickle_weights, "AutoModel", r"/m: cannot load a model from safetensors \(OSError"),
        (add_code, "AutoModel", r"/m: cannot load a model from safetensors \(ValueError"),
        (shutil.rmtree, "AutoModel", "/m: no such folder"),
        (
            lambda folder: (folder / "config.json").unlink(),
            "AutoModel",
            r"cannot load a model from safetensors \(\w+: ",
        ),
        (
            lambda folder: (folder / "adapter_config.json").write_text("{}"),
            "AutoModel",
            "/m: an adapter, not a complete model; merge it",
        ),
        (
            lambda folder: None,
            "AutoModelForTokenClassification",
            "2 weights of BertForTokenClassification are missing",
        ),
    ],
)
def test_load_encoder__refuses_other_models(tmp_path, change, head, message):
    folder = saved(tmp_path / "m")
    change(folder)

    with pytest.raises(VocabularyError, match=message):
        load_encoder(str(folder), head=head)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/folder", "no such folder; pass a model's folder or a hub id"),
        ("../no-such-folder", "no such folder; pass a model's folder or a hub id"),
        ("nobody/nothing-here", "no such folder, and the hub cannot be reached"),
    ],
)
def test_load_encoder__no_such_model(monkeypatch, name, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(VocabularyError, match=f"{name}: {message}"):
        load_encoder(name)


def test_load_encoder__package_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'mslm-data\[hf\]'"):
        load_encoder("x")


@pytest.mark.parametrize(("kind", "has"), [("BertModel", True), ("BertForMaskedLM", False)])
def test_load_encoder__pooler_only_if_trained(tmp_path, kind, has):
    assert load_encoder(str(saved(tmp_path / "m", kind))).has_pooler is has


def test_limit__of_positions(tmp_path):
    bert = load_encoder(str(saved(tmp_path / "b", max_position_embeddings=100)))
    torch.manual_seed(0)
    roberta = transformers.RobertaConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=66, pad_token_id=1,
    )  # fmt: skip
    transformers.RobertaModel(roberta).save_pretrained(tmp_path / "r")

    assert bert.limit == 100
    assert load_encoder(str(tmp_path / "r")).limit == 64
    bert.check_row_length(100)
    with pytest.raises(
        VocabularyError,
        match=r"at most 100 tokens, got 101; build the folder with encode.max_tokens",
    ):
        bert.check_row_length(101)


@pytest.mark.parametrize(("spare", "shares"), [(-1, False), (0, True), (8, True), (128, False)])
def test_shares_ids__without_a_tokenizer_by_size(tmp_path, spare, shares):
    encoder = load_encoder(str(saved(tmp_path / "m", vocab_size=SIZE + spare)))

    assert encoder.shares_ids(made.word_piece()) is shares


def test_shares_ids__with_a_tokenizer_piece_by_piece(tmp_path):
    pieces = sample_vocab().splitlines()
    same = load_encoder(str(saved(tmp_path / "a", vocab="\n".join(pieces))))
    pieces[-1], pieces[-2] = pieces[-2], pieces[-1]
    other = load_encoder(str(saved(tmp_path / "b", vocab="\n".join(pieces))))

    assert same.shares_ids(made.word_piece())
    assert not other.shares_ids(made.word_piece())
    with pytest.raises(
        VocabularyError, match=rf"its vocabulary differs from that of the shards \({SIZE} ids\)"
    ):
        other.check_shares_ids(made.word_piece())


def test_cut__returns_each_row_once_within_limits(monkeypatch):
    monkeypatch.setattr(encoders, "TOKENS_AT_ONCE", 40)
    lengths = np.random.default_rng(0).integers(1, 60, 200)

    batches = list(split_batches(lengths, squares=300))

    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    for batch in batches:
        longest = int(lengths[batch].max())
        assert len(batch) == 1 or (len(batch) * longest <= 40 and len(batch) * longest**2 <= 300)
    assert len(batches) < 200
