from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, processors

from mslm_data.data.document import Document
from mslm_data.encode.tokenizer import Tokenizer, load_tokenizer, parse_tokenizer
from mslm_data.errors import TokenizerError
from mslm_data.segment.given import Whole
from tests import made

CASED = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "The",
    "the",
    "p",
    "##53",
    "[",
    "]",
    "SE",
    "##P",
    "MASK",
    "é",
    "e",
]
TEMPLATE = processors.TemplateProcessing(
    single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
)
UNCASED = [piece if piece.startswith("[") else piece.lower() for piece in CASED]


def vocab_file(folder: Path, pieces: list[str], *, end: str = "\n") -> Path:
    path = folder / "vocab.txt"
    path.write_bytes(end.join([*pieces, ""]).encode())
    return path


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.core.encode(text).tokens


def byte_level_folder(folder: Path) -> Path:
    made.byte_level().core.model.save(str(folder))
    return folder


def test_load__disables_truncation_and_padding_of_tokenizer_json(tmp_path: Path) -> None:
    core = tokenizers.Tokenizer.from_str(made.word_piece().json)
    core.enable_truncation(4)
    core.enable_padding(length=64)
    path = tmp_path / "tokenizer.json"
    core.save(str(path))

    tokenizer = load_tokenizer(str(path))

    assert len(tokenizer.core.encode("the " * 50).ids) == 52
    assert len(tokenizer.core.encode("the").ids) == 3
    assert json.loads(tokenizer.json)["truncation"] is None
    assert json.loads(tokenizer.json)["padding"] is None
    assert tokenizer.digest == made.word_piece().digest


def test_load__disables_dropout_of_tokenizer_json(tmp_path: Path) -> None:
    content = json.loads(made.byte_level().json)
    content["model"]["dropout"] = 0.5
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")

    tokenizer = load_tokenizer(str(path))

    assert tokenizer.digest == made.byte_level().digest
    assert tokens(tokenizer, "inhibitor " * 50) == tokens(made.byte_level(), "inhibitor " * 50)


def test_load__reads_a_cased_vocabulary(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(vocab_file(tmp_path, CASED)))

    assert tokens(tokenizer, "The the p53 é") == ["[CLS]", "The", "the", "p", "##53", "é", "[SEP]"]
    assert tokenizer.ids.size == len(CASED)
    assert (tokenizer.ids.pad, tokenizer.ids.unk, tokenizer.ids.mask) == (0, 1, 4)
    assert tokenizer.ids.special == (0, 1, 2, 3, 4)
    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.lead) == ((2,), (3,), "")


def test_load__lowers_text_for_an_uncased_vocabulary(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(vocab_file(tmp_path, UNCASED)))

    assert tokens(tokenizer, "The P53 É") == ["[CLS]", "the", "p", "##53", "e", "[SEP]"]


def test_load__lowers_text_for_a_cased_vocabulary_on_request_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = vocab_file(tmp_path, CASED)

    tokenizer = load_tokenizer(str(path), lowercase=True)

    assert caplog.messages == ["vocab.txt: lower-casing text for a vocabulary that has capitals"]
    assert tokens(tokenizer, "The") == ["[CLS]", "the", "[SEP]"]
    assert tokens(load_tokenizer(str(path), lowercase=False), "The") == ["[CLS]", "The", "[SEP]"]


def test_load__counts_an_empty_token(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(vocab_file(tmp_path, [*CASED[:5], "", "the"])))

    assert tokenizer.core.encode("the").ids == [2, 6, 3]
    assert tokenizer.ids.size == 7


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_load__accepts_any_line_end(tmp_path: Path, end: str, final: bool) -> None:
    path = vocab_file(tmp_path, CASED, end=end)
    if not final:
        path.write_bytes(path.read_bytes().removesuffix(end.encode()))

    assert (
        load_tokenizer(str(path)).digest == load_tokenizer(str(vocab_file(tmp_path, CASED))).digest
    )
    assert tokens(load_tokenizer(str(path)), "The e")[-2] == "e"


def test_load__ignores_do_lower_case_with_a_cased_vocabulary(tmp_path: Path) -> None:
    vocab_file(tmp_path, CASED)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"do_lower_case": true, "model_max_length": 512}'
    )

    assert tokens(load_tokenizer(str(tmp_path)), "The") == ["[CLS]", "The", "[SEP]"]


def test_load__prefers_tokenizer_json_in_a_folder(tmp_path: Path) -> None:
    vocab_file(tmp_path, CASED)
    (tmp_path / "tokenizer.json").write_text(made.unigram().json)

    assert load_tokenizer(str(tmp_path)).digest == made.unigram().digest


@pytest.mark.parametrize("file", ["special_tokens_map.json", "tokenizer_config.json"])
@pytest.mark.parametrize("token", ["<hide>", {"content": "<hide>", "lstrip": True}])
def test_load__reads_names_of_special_tokens_from_other_files(
    tmp_path: Path, file: str, token: str | dict[str, object]
) -> None:
    vocab_file(tmp_path, [*CASED, "<hide>", "<nil>"])
    (tmp_path / file).write_text(
        json.dumps({"mask_token": token, "pad_token": "<nil>", "unk_token": None})
    )

    tokenizer = load_tokenizer(str(tmp_path))

    assert (tokenizer.ids.mask, tokenizer.ids.pad, tokenizer.ids.unk) == (
        len(CASED),
        len(CASED) + 1,
        1,
    )
    assert {len(CASED), len(CASED) + 1} <= set(tokenizer.ids.special)


def test_load__reads_sentinels_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    size = len(made.t5().core.get_vocab())
    (tmp_path / "tokenizer.json").write_text(made.t5().json)

    tokenizer = load_tokenizer(str(tmp_path))

    # T5's sentinel 0 has the last id of its vocabulary.
    assert tokenizer.ids.sentinels == tuple(range(size - 1, size - 11, -1))
    assert set(tokenizer.ids.sentinels) < set(tokenizer.ids.special)
    assert tokenizer.config()["additional_special_tokens"] == [
        f"<extra_id_{number}>" for number in range(10)
    ]


def test_load__reads_sentinels_named_as_in_mt5_up_to_a_missing_number(tmp_path: Path) -> None:
    names = [f"\u2581<extra_id_{number}>" for number in (0, 1, 3)]

    tokenizer = load_tokenizer(str(vocab_file(tmp_path, [*CASED, *names])))

    assert tokenizer.ids.sentinels == (len(CASED), len(CASED) + 1)


def test_load__reads_vocab_json_and_merges(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(byte_level_folder(tmp_path)))

    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.lead) == ((0,), (2,), " ")
    assert tokenizer.ids == made.byte_level().ids
    text = " The kinase binds p53/MDM2."
    assert tokenizer.core.encode(text).ids == made.byte_level().core.encode(text).ids


@pytest.mark.parametrize(
    "name", ["missing.json", "missing/vocab.txt", "a/b/c", "no such file", "../missing"]
)
def test_load__reports_a_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenizerError, match=r"no such file or folder; pass a tokenizer\.json"):
        load_tokenizer(name)


NO_TOKENIZER = r"tokenizer\.json: not a tokenizer of the tokenizers library"
NO_OBJECT = r"special_tokens_map\.json: expected"
MODEL = "no tokenizer.json, vocab.txt, or .* convert a SentencePiece model with"
VOCABULARY = "\n".join(CASED).encode()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"spiece.model": b"\x0a\x0e\x0a\x05<unk>"}, MODEL),
        ({"tokenizer.json": b"{"}, NO_TOKENIZER),
        ({"tokenizer.json": b"{}"}, NO_TOKENIZER),
        ({"tokenizer.json": b'{"model": {"type": "Nope"}}'}, NO_TOKENIZER),
        ({"vocab.txt": VOCABULARY, "special_tokens_map.json": b"{"}, NO_OBJECT),
        ({"vocab.txt": VOCABULARY, "special_tokens_map.json": b"[1]"}, NO_OBJECT),
        ({"vocab.txt": VOCABULARY, "special_tokens_map.json": b'"x"'}, NO_OBJECT),
        ({"vocab.txt": VOCABULARY.replace(b"[UNK]", b"")}, r"vocab\.txt: not a BERT.*\[UNK\]"),
        ({"vocab.txt": VOCABULARY.replace(b"[CLS]", b"")}, r"vocab\.txt: not a BERT.*\[CLS\]"),
        ({"vocab.txt": VOCABULARY.replace(b"[SEP]", b"")}, r"vocab\.txt: not a BERT.*\[SEP\]"),
        ({"vocab.txt": b"\x0a\xff\xfe<unk>"}, r"vocab\.txt: not valid UTF-8; pass a tokenizer"),
    ],
)
def test_load__rejects_wrong_files(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(str(tmp_path))


def test_load__reports_an_unreachable_hub_once(tmp_path: Path) -> None:
    """In a separate process, as the hub's client reads HF_HUB_OFFLINE at its import."""
    code = "from mslm_data.encode.tokenizer import load_tokenizer\nload_tokenizer('nobody/no-such-model')"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}

    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )

    assert (
        "TokenizerError: nobody/no-such-model: no such file or folder, and the hub cannot be reached"
        in ended.stderr
    )
    assert "During handling" not in ended.stderr
    assert "direct cause" not in ended.stderr


ANGLED = ["<s>", "<mask>", "</s>", "<pad>", "x<mask>"]
BRACKETED = ["[SEP]", "[MASK]", "[UNK]", "a[SEP]b"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, text) for name in ("byte_level", "word_piece") for text in ANGLED),
        *((name, text) for name in sorted(made.TOKENIZERS) for text in BRACKETED),
        *(("unigram", text) for text in ANGLED),
    ],
)
def test_encode__never_makes_a_special_token_of_text(name: str, text: str) -> None:
    tokenizer = made.TOKENIZERS[name]()
    documents = [Document(id="a", text=text), made.of_words([text], doc_id="b")]

    examples, _ = made.encoded(made.encoder(tokenizer, ()), documents, Whole())

    for ids in examples.input_ids.tolist():
        inside = ids[len(tokenizer.prefix) : len(ids) - len(tokenizer.suffix)]
        assert inside
        assert not set(inside) & (set(tokenizer.ids.special) - {tokenizer.ids.unk})


@pytest.mark.parametrize("name", sorted(made.TOKENIZERS))
def test_tokenizer__is_equal_after_pickling(name: str) -> None:
    tokenizer = made.TOKENIZERS[name]()

    again = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - our own

    assert again.json == tokenizer.json
    assert (again.ids, again.prefix, again.suffix, again.lead) == (
        tokenizer.ids, tokenizer.prefix, tokenizer.suffix, tokenizer.lead
    )  # fmt: skip
    assert again.core.encode("[SEP] p53").ids == tokenizer.core.encode("[SEP] p53").ids


@pytest.mark.parametrize(("name", "mask"), [("<hide>", len(CASED)), ("<missing>", -1)])
def test_tokenizer__has_the_same_special_tokens_after_pickling(
    tmp_path: Path, name: str, mask: int
) -> None:
    vocab_file(tmp_path, [*CASED, "<hide>"])
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"mask_token": name}))
    tokenizer = load_tokenizer(str(tmp_path))

    again = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - our own

    assert again.ids == tokenizer.ids
    assert again.ids.mask == mask


def test_parse_tokenizer__uses_minus_one_for_missing_special_tokens(tmp_path: Path) -> None:
    pieces = [piece for piece in CASED if piece not in ("[PAD]", "[MASK]")]

    ids = load_tokenizer(str(vocab_file(tmp_path, pieces))).ids

    assert (ids.mask, ids.pad, ids.unk) == (-1, -1, 0)


@pytest.mark.parametrize(
    "processor",
    [
        TEMPLATE,
        processors.Sequence([processors.ByteLevel(trim_offsets=True), TEMPLATE]),
        processors.RobertaProcessing(("</s>", 2), ("<s>", 0)),
    ],
)
def test_parse_tokenizer__finds_the_special_tokens_around_a_row(processor: Any) -> None:
    core = tokenizers.Tokenizer.from_str(made.byte_level().json)
    core.post_processor = processor

    tokenizer = parse_tokenizer(core.to_str())

    assert (tokenizer.prefix, tokenizer.suffix) == ((0,), (2,))


def test_parse_tokenizer__rejects_a_tokenizer_without_output() -> None:
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    core.normalizer = tokenizers.normalizers.Replace(tokenizers.Regex("."), "")

    with pytest.raises(TokenizerError, match="expected tokens for 'a 0 the A', got none"):
        parse_tokenizer(core.to_str())


@pytest.mark.parametrize(
    ("file", "cased", "special"),
    [
        ("bert-base-cased__Bio_ClinicalBERT.vocab.txt", True, (0, 100, 101, 102, 103)),
        ("bert-base-uncased__BlueBERT.vocab.txt", False, (0, 100, 101, 102, 103)),
        ("PubMedBERT_BiomedBERT.vocab.txt", False, (0, 1, 2, 3, 4)),
    ],
)
def test_load__recognises_the_case_of_real_vocabularies(
    real: Path, file: str, cased: bool, special: tuple[int, ...]
) -> None:
    tokenizer = load_tokenizer(str(real / "tokenizers" / file))

    assert ("The" in tokens(tokenizer, "The tumor")) is cased
    assert tokenizer.ids.special == special


def test_parse_tokenizer__pieces_with_usual_names_are_text_if_tokens_were_added() -> None:
    """Qwen 3 has pieces named <s> and <unk>, and neither such token."""
    core = tokenizers.Tokenizer(models.BPE({"a": 0, "<s>": 1, "<unk>": 2, "<|end|>": 3}, []))
    plain = parse_tokenizer(core.to_str()).ids
    core.add_special_tokens(["<|end|>"])
    ids = parse_tokenizer(core.to_str(), {"eos": "<|end|>"}).ids

    assert (plain.bos, plain.unk) == (1, 2)
    assert (ids.bos, ids.unk, ids.eos) == (-1, -1, 3)
