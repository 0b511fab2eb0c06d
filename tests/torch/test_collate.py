from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from hypothesis import given

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils.data import DataLoader  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.data.examples import Examples, TokenIds  # noqa: E402
from mslm_data.data.ragged import Ragged  # noqa: E402
from mslm_data.encode.tokenizer import load_tokenizer  # noqa: E402
from mslm_data.torch import (  # noqa: E402
    MaskedDataset,
    MaskEpochCallback,
    MaskingCollator,
    MslmModel,
)
from mslm_data.torch.data.mentions import read_tag_spans  # noqa: E402
from mslm_data.torch.data.rows import make_examples, token_ids  # noqa: E402
from tests import made  # noqa: E402
from tests.cli.running import run  # noqa: E402
from tests.generate import IDS, random_examples  # noqa: E402
from tests.support.cases import long  # noqa: E402
from tests.torch.families import masked_lm  # noqa: E402
from tests.torch.shards import JOINT, all_lists, lists, of_numpy  # noqa: E402

BERT, WORDS = md.strategy("bert"), md.strategy("whole-word")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return out


@pytest.fixture(scope="module")
def train(folder: Path) -> Any:
    return md.load(folder)["train"]


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        **{f"{name}_token": f"[{name.upper()}]" for name in ("mask", "pad", "unk", "cls", "sep")},
    )


def as_rows(examples: Examples) -> Rows:
    """Return rows with the columns of shards."""
    names = ("input_ids", "word_ids", "bio", "span_starts", "span_ends", "span_labels")
    columns = {name: getattr(examples, name).tolist() for name in names} | {
        "key": examples.keys.tolist()
    }
    return [{name: column[i] for name, column in columns.items()} for i in range(len(examples))]


def without(rows: Rows, *names: str) -> Rows:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def equal(a: Examples, b: Examples) -> bool:
    return as_rows(a) == as_rows(b)


# Equal batches in all ways -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [None, "numpy", "torch"])
@pytest.mark.parametrize("strategy", [JOINT, WORDS, md.strategy("causal")])
def test_collator__equals_loader_and_md_batches(
    folder: Path, train: Any, strategy: Any, form: str | None
) -> None:
    rows = datasets.load_from_disk(str(folder))["train"].with_format(form)
    weights = (3, 0.5)
    collator = MaskingCollator(strategy, train, seed=3, epoch=2, weights=weights)

    of_rows = all_lists(DataLoader(rows, batch_size=16, collate_fn=collator))  # type: ignore[arg-type]
    loader = MaskedDataset(train, strategy, seed=3).loader(16, shuffle=False, weights=weights)
    loader.set_epoch(2)

    assert of_rows == all_lists(loader)
    assert of_rows == of_numpy(
        md.Batches(train, strategy, batch_size=16, seed=3, epoch=2, shuffle=False, weights=weights)
    )


def test_collator__accepts_rows_of_shards_with_texts(tmp_path: Path) -> None:
    made.built(tmp_path / "out", pipeline=made.pipeline_of(encode={"keep_text": True}))
    split = md.load(tmp_path / "out")["train"]
    chunks = md.strategy("picks", picks=[{"units": "chunks", "budget": {"rate": 0.5}}])

    batch = MaskingCollator(chunks, split, epoch=0)([split[row] for row in range(8)])

    (expected,) = of_numpy(md.Batches(split, chunks, batch_size=len(split), shuffle=False))
    assert lists(batch)["labels"] == [
        row[: batch["labels"].shape[1]] for row in expected["labels"][:8]
    ]


def test_collator__finds_ngrams_within_sentences_of_joined_rows(tmp_path: Path) -> None:
    lines = ["-DOCSTART-\tO", "", *["kinase\tO", "inhibitors\tO", ""] * 3, "the\tO", ""] * 20
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    pipeline = made.pipeline_of(encode={"join": "document"}, annotate={"use": "none"})
    made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline)
    assert run("vocab", "pmi", tmp_path / "out", "--across-sentences", "--min-count", 2).code == 0
    shards = md.load(tmp_path / "out")
    split = shards["train"]
    strategy = shards.strategy("pmi-levine", rate=0.5)
    rows = [split[row] for row in range(len(split))]

    batch = MaskingCollator(strategy, split, epoch=0)(rows)

    (expected,) = of_numpy(md.Batches(split, strategy, batch_size=len(split), shuffle=False))
    assert lists(batch)["labels"] == expected["labels"]
    alone = MaskingCollator(strategy, split, epoch=0)(without(rows, "sentence_starts"))
    assert lists(alone)["labels"] != expected["labels"]


def test_make_examples__reads_sentences() -> None:
    row = {"input_ids": [2, 9, 9, 9, 3], "sentence_starts": [1, 3]}

    examples = make_examples([row, row | {"sentence_starts": [1]}], IDS)

    assert examples.sentence_starts is not None
    assert examples.sentence_starts.tolist() == [[1, 3], [1]]
    assert make_examples([{"input_ids": [2, 9, 3]}], IDS).sentence_starts is None


@pytest.mark.parametrize("starts", [[], [1, 1], [2, 1], [-1, 1], [1, 4]])
def test_make_examples__refuses_sentences_outside_the_row(starts: list[int]) -> None:
    rows = [
        {"input_ids": [2, 9, 9, 3], "sentence_starts": starts_of_row}
        for starts_of_row in ([1, 2], starts)
    ]

    with pytest.raises(
        ValueError, match="sentence_starts: expected at least one token position per row"
    ):
        make_examples(rows, IDS)


@given(random_examples())
def test_make_examples__inverts_as_rows(examples: Examples) -> None:
    rows = as_rows(examples)
    if not rows:
        return

    assert equal(make_examples(rows, IDS), examples)
    assert equal(
        make_examples(without(rows, "span_starts", "span_ends", "span_labels"), IDS), examples
    )


def test_collator__masks_a_row_equally_in_any_batch(train: Any) -> None:
    collator = MaskingCollator(JOINT, train, epoch=0)
    rows = [train[row] for row in range(12)]

    together = lists(collator(rows))
    alone = [lists(collator([row])) for row in rows]

    for i, batch in enumerate(alone):
        size = len(rows[i]["input_ids"])
        assert together["input_ids"][i][:size] == batch["input_ids"][0]


# Rows of other pipelines ----------------------------------------------------------------------------------------------


def test_collator__replaces_other_collators_on_plain_text(tokenizer: Any) -> None:
    texts = made.sample_lines()[:6]
    rows = [dict(tokenizer(text)) for text in texts]

    batch = MaskingCollator(BERT, tokenizer, multiple_of=8, plain=True, epoch=0)(rows)

    assert batch["input_ids"].shape[1] % 8 == 0
    for i, row in enumerate(rows):
        size = len(row["input_ids"])
        masked = batch["labels"][i] != -100
        assert (
            torch.where(masked, batch["labels"][i], batch["input_ids"][i])[:size].tolist()
            == row["input_ids"]
        )
        assert not masked[0]
        assert not masked[size - 1 :].any()
        assert masked.sum() == max(1, round(0.15 * size))
        assert batch["attention_mask"][i].sum() == size
    assert batch["span_starts"].shape == (6, 0)


def test_collator__equal_texts_without_keys_get_equal_masks(tokenizer: Any) -> None:
    rows = [dict(tokenizer(text)) for text in made.sample_lines()[:2] * 2]

    batch = lists(MaskingCollator(BERT, tokenizer, plain=True, epoch=0)(rows))

    assert batch["keys"][:2] == batch["keys"][2:]
    assert batch["input_ids"][:2] == batch["input_ids"][2:]
    assert batch["keys"][0] != batch["keys"][1]


def test_collator__takes_words_from_a_batch_encoding(tokenizer: Any) -> None:
    encoding = tokenizer(made.sample_lines()[3])
    row = {**encoding, "word_ids": encoding.word_ids()}

    collator = MaskingCollator(WORDS, tokenizer, plain=True, epoch=0)
    assert lists(collator([encoding])) == lists(collator([row]))
    encoding["key"] = 7
    keyed = MaskingCollator(WORDS, tokenizer, epoch=0)
    assert lists(keyed([encoding])) == lists(keyed([row | {"key": 7}]))


@pytest.mark.parametrize("brought", ["encoding", "word_ids", "special_tokens_mask", "input_ids"])
def test_collator__masks_no_special_token_in_the_text(brought: str, tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<e1>", "</e1>"]})
    encoding = tokenizer(f"<e1> {made.sample_lines()[3]} </e1>", return_special_tokens_mask=True)
    special = np.isin(encoding["input_ids"], tokenizer.all_special_ids)
    columns = {**encoding, "word_ids": encoding.word_ids()}
    row = encoding
    if brought != "encoding":
        row = {name: columns[name] for name in {"input_ids", brought}}
    collators = [
        MaskingCollator(md.strategy("token", rate=0.9), tokenizer, seed=seed, plain=True, epoch=0)
        for seed in range(10)
    ]

    labels = [lists(collator([row]))["labels"][0] for collator in collators]

    assert special.sum() == 4
    assert (np.array(labels)[:, special] == -100).all()
    assert (np.array(labels)[:, ~special] != -100).any()


def test_make_examples__continues_word_numbers_in_the_second_text() -> None:
    rows: Rows = [
        {"input_ids": [2, 9, 9, 3, 8, 7, 3], "word_ids": [None, 0, 0, None, 0, 1, None]},
        {"input_ids": [2, 9, 9, 3], "word_ids": [None, 4, 6, None]},
    ]

    words = make_examples(rows, IDS).word_ids

    assert words.tolist() == [[-1, 0, 0, -1, 1, 2, -1], [-1, 4, 6, -1]]


def test_make_examples__refuses_nonzero_segments() -> None:
    row = {"input_ids": [2, 9, 3, 8, 3]}

    examples = make_examples([{**row, "token_type_ids": [0, 0, 0, 0, 0]}], IDS)

    assert equal(examples, make_examples([row], IDS))
    with pytest.raises(ValueError, match=r"token_type_ids: expected only 0"):
        make_examples([{**row, "token_type_ids": [0, 0, 0, 1, 1]}], IDS)


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        torch.tensor,
        lambda items: list(np.array(items)),
        lambda items: np.array(items, np.int8),
        lambda items: np.array(items) if items[0] == 2 else items,
    ],
)
def test_make_examples__accepts_integers_in_any_form(form: Callable[[list[int]], Any]) -> None:
    rows: Rows = [
        {"input_ids": [2, 9, 3], "word_ids": [-1, 0, -1]},
        {"input_ids": [7, 3], "word_ids": [0, -1]},
    ]

    examples = make_examples(
        [{name: form(items) for name, items in row.items()} for row in rows], IDS
    )

    assert examples.input_ids.tolist() == [[2, 9, 3], [7, 3]]
    assert examples.word_ids.tolist() == [[-1, 0, -1], [0, -1]]
    assert (examples.input_ids.values.dtype, examples.word_ids.values.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize("number", [int, np.int32, np.int64])
def test_make_examples__reads_none_in_lists_as_no_word(number: Callable[[int], Any]) -> None:
    words = [[None, number(0), number(1), None], [number(0), None]]
    rows: Rows = [{"input_ids": [9] * len(row), "word_ids": row} for row in words]

    examples = make_examples(rows, IDS)

    assert examples.word_ids.tolist() == [[-1, 0, 1, -1], [0, -1]]


@pytest.mark.parametrize("form", [np.array, lambda words: np.array(words, float), torch.tensor])
@pytest.mark.filterwarnings("error")
def test_make_examples__reads_none_in_arrays_as_no_word(form: Callable[[list[Any]], Any]) -> None:
    """`datasets` converts None to NaN in arrays and tensors; casts of NaN differ between processors."""
    missing = float("nan") if form is torch.tensor else None
    words = [[missing, 0, 1, missing], [0, missing]]
    rows: Rows = [{"input_ids": [9] * len(row), "word_ids": form(row)} for row in words]

    examples = make_examples(rows, IDS)

    assert examples.word_ids.tolist() == [[-1, 0, 1, -1], [0, -1]]


@pytest.mark.parametrize("numbers", [[0, 2**31], [0.5, 1.0], [float("inf"), 1.0], ["kinase"]])
@pytest.mark.parametrize("form", [list, np.array])
def test_make_examples__refuses_invalid_ids(form: Callable[[Any], Any], numbers: list[Any]) -> None:
    message = "^rows: input_ids: expected whole numbers of int32, got others$"
    with pytest.raises(ValueError, match=message):
        make_examples([{"input_ids": form(numbers)}], IDS)


def test_make_examples__does_not_change_the_rows() -> None:
    words = np.array([-1, 0, -1, 0, -1], np.int32)

    examples = make_examples([{"input_ids": [2, 9, 3, 8, 3], "word_ids": words}], IDS)

    assert examples.word_ids.tolist() == [[-1, 0, -1, 1, -1]]
    assert words.tolist() == [-1, 0, -1, 0, -1]


@pytest.mark.parametrize("label", [2**15, -(2**15) - 1])
def test_make_examples__refuses_labels_that_are_too_large(label: int) -> None:
    row = {"input_ids": [9, 8], "span_starts": [0], "span_ends": [1], "span_labels": [label]}

    with pytest.raises(ValueError, match="span_labels: expected whole numbers of int16"):
        make_examples([row], IDS)


@pytest.mark.parametrize("mask", [{}, {"special_tokens_mask": [1, 0, 0, 0, 1]}])
def test_make_examples__makes_each_token_a_word_by_default(mask: dict[str, Any]) -> None:
    examples = make_examples([{"input_ids": [2, 9, IDS.unk, 8, 3], **mask}] * 2, IDS)

    assert examples.word_ids.tolist() == [[-1, 0, 1, 2, -1]] * 2


@pytest.mark.parametrize("names", [None, ["O", "B-X", "I-X", "B-Y", "I-Y"]])
def test_read_tag_spans__reads_tags_of_token_classification(names: list[str] | None) -> None:
    words = made_ragged([[-1, 0, 0, 1, 2, 3, 4, 5, -1], [-1, 0, 1, 1, -1]])
    #                       B  -  I  B  O  I  IY
    tags = made_ragged([[-100, 1, -100, 2, 1, 0, 2, 4, -100], [-100, 0, 3, -100, -100]])

    starts, ends, labels = read_tag_spans(tags, words, names)

    assert starts.tolist() == [[1, 4, 6, 7], [2]]
    assert ends.tolist() == [[4, 5, 7, 8], [4]]
    assert labels.tolist() == [[0, 0, 0, 1], [1]]


def test_collator__maps_labels_by_name(tokenizer: Any) -> None:
    row = {"input_ids": [2, 9, 8, 7, 3], "labels": [-100, 2, 1, 0, -100]}

    batch = MaskingCollator(
        md.strategy("elm", elm=1.0), tokenizer, tags=["I-Drug", "O", "B-Drug"], epoch=0
    )([row | {"key": 1}])

    assert batch["span_starts"].tolist() == [[1, 3]]
    assert batch["bio"].tolist() == [[-100, 1, 0, 2 - 1, -100]]
    assert batch["mask_kinds"].tolist() == [[0, 2, 0, 2, 0]]


def made_ragged(rows: list[list[int]]) -> Any:
    return Ragged.from_rows(rows, np.int64)


# Token ids of a tokenizer ---------------------------------------------------------------------------------------------


def test_token_ids__of_any_form_equal_the_shards(folder: Path, train: Any, tokenizer: Any) -> None:
    forms = [train, train.token_ids, tokenizer, load_tokenizer(str(folder / "tokenizer.json"))]

    assert [token_ids(form) for form in forms] == [train.token_ids] * 4


def test_token_ids__of_a_slow_tokenizer() -> None:
    class Slow:
        all_special_ids = (0, 1)
        mask_token, pad_token, unk_token = "<mask>", "<pad>", None

        def __len__(self) -> int:
            return 9

        def convert_tokens_to_ids(self, token: str) -> int:
            return {"<mask>": 2, "<pad>": 0}[token]

    assert token_ids(Slow()) == TokenIds(size=9, mask=2, pad=0, special=(0, 1, 2))


def test_token_ids__refuses_other_objects() -> None:
    with pytest.raises(
        TypeError, match="tokenizer: expected a Hugging Face tokenizer or a split, got str"
    ):
        MaskingCollator(BERT, "bert-base-cased")


# Refusals -------------------------------------------------------------------------------------------------------------

ROW = {
    "key": 5,
    "input_ids": [2, 9, 8, 3],
    "word_ids": [-1, 0, 1, -1],
    "span_starts": [1],
    "span_ends": [2],
    "span_labels": [0],
}


MENTIONS = "span_starts, span_ends, span_labels"


def test_collator__refuses_mentions_without_their_labels() -> None:
    row = {name: value for name, value in ROW.items() if name != "span_labels"}

    with pytest.raises(ValueError, match=f"{MENTIONS} together, got span_starts and span_ends"):
        MaskingCollator("bert", IDS, epoch=0)([row])


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("token", "key"),
        ("elm", f"key, {MENTIONS}"),
        ("whole-word", "key, word_ids"),
        ("ernie", f"key, word_ids, {MENTIONS}"),
    ],
)
@pytest.mark.parametrize("others", [(), ("attention_mask",), ("labels",)])
def test_collator__error_names_columns_the_trainer_drops(
    name: str, columns: str, others: tuple[str, ...]
) -> None:
    """Each strategy would silently mask too little without these columns, or mask other tokens."""
    row: dict[str, Any] = {"input_ids": [2, 9, 3]} | {other: [1, 1, 1] for other in others}
    message = (
        rf"expected the columns {columns}, got only {', '.join(sorted(row))}; "
        r".*remove_unused_columns=False .* plain=True"
    )

    with pytest.raises(ValueError, match=message):
        MaskingCollator(name, IDS, epoch=0)([row])
    assert MaskingCollator(name, IDS, plain=True, epoch=0)([row])["input_ids"].shape == (1, 3)


@pytest.mark.parametrize("wrap", [True, *long(False)])
def test_collator__refuses_rows_without_their_key(
    train: Any, folder: Path, tmp_path: Path, wrap: bool
) -> None:
    """Masks would silently differ from those counted by `mask-stats`."""
    model = masked_lm(vocab_size=train.token_ids.size, max_position_embeddings=512)
    rows = datasets.load_from_disk(str(folder))["train"]

    def trained(**options: Any) -> None:
        arguments = transformers.TrainingArguments(
            str(tmp_path), use_cpu=True, max_steps=1, report_to=[], disable_tqdm=True, **options
        )
        transformers.Trainer(
            model=MslmModel.wrap(model, labels=["Disease"]) if wrap else model,
            args=arguments,
            train_dataset=rows,
            data_collator=MaskingCollator("token", train),
            callbacks=[MaskEpochCallback()],
        ).train()

    with pytest.raises(
        ValueError, match=r"expected the columns key, got only .*remove_unused_columns=False"
    ):
        trained()
    trained(remove_unused_columns=False)


@pytest.mark.parametrize("name", ["joint", "whole-word", "spanbert-ner"])
def test_collator__accepts_plain_rows_if_declared(name: str) -> None:
    row = {"input_ids": [2, 3], "labels": [1, 1]}

    batch = MaskingCollator(md.strategy(name), IDS, plain=True, epoch=0)([row])

    assert batch["input_ids"].tolist() == [[2, 3]]


@pytest.mark.parametrize(
    "mentions",
    [{"span_starts": [1], "span_ends": [2], "span_labels": [0]}, {"bio": [0, 1, 0]}],
)
def test_collator__accepts_mentions_in_either_form(mentions: dict[str, Any]) -> None:
    batch = MaskingCollator("elm", IDS, epoch=0)([{"key": 1, "input_ids": [2, 9, 3], **mentions}])

    assert batch["mask_kinds"].tolist() == [[0, 2, 0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows: expected at least one row, got none"),
        (
            [{"text": "a", "id": 1}],
            "rows: expected input_ids, got id, text; tokenise the rows first",
        ),
        ([{}], "rows: expected input_ids, got no column"),
        (
            [ROW, {"key": 6, "input_ids": [2]}],
            "rows: expected word_ids in each row of a batch, got none in row 1",
        ),
        (
            [ROW, ROW | {"word_ids": [0]}],
            "rows: word_ids: expected 4 items, one a token, got 1 in row 1",
        ),
        (
            [ROW | {"span_ends": []}],
            "rows: expected as many span_ends and span_labels as span_starts",
        ),
        (
            [ROW, ROW | {"span_ends": [5]}],
            "row 1: mentions must be sorted, must not overlap, and must end within the row",
        ),
        (
            [ROW | {"span_starts": [2]}],
            "row 0: mentions must be sorted, must not overlap, and must end within the row",
        ),
        (
            [ROW | {"span_starts": [1, 1], "span_ends": [2, 3], "span_labels": [0, 0]}],
            "row 0: mentions must be sorted, must not overlap, and must end within the row",
        ),
        (
            [ROW | {"span_starts": [0]}],
            r"a mention contains 1 special token.* in row 0 of a batch, tokens .0, 2.",
        ),
        (
            [ROW | {"attention_mask": [1, 1, 1, 1]}, ROW | {"attention_mask": [1, 1, 1, 0]}],
            r"rows: row 1 of a batch has padding, .* tokenise with padding=False",
        ),
        (
            [{"key": 1, "input_ids": [9], "bio": [-7]}],
            "rows: expected tags in .0, 32767. or -100, got -7 to -7",
        ),
    ],
)
def test_collator__refuses_invalid_rows(rows: Rows, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskingCollator(BERT if "bio" in str(rows) else WORDS, IDS, epoch=0)(rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MaskingCollator(BERT, IDS, multiple_of=0),
            "multiple_of: expected an integer of at least 1, got 0",
        ),
        (
            lambda: MaskingCollator(BERT, IDS, columns=["label"]),
            "columns: unknown column 'label'; did you mean 'labels'",
        ),
        (lambda: MaskingCollator(BERT, IDS, seed=-1), "seed: expected an integer"),
        (lambda: MaskingCollator(BERT, IDS, epoch=-1), "epoch: expected an integer"),
        (
            lambda: MaskingCollator(JOINT, IDS, tags=["X"], epoch=0)(
                [{"key": 1, "input_ids": [9], "labels": [0]}]
            ),
            "tags: expected O",
        ),
        (
            lambda: MaskingCollator(JOINT, IDS, tags=["O"], epoch=0)(
                [{"key": 1, "input_ids": [9], "labels": [1]}]
            ),
            "rows: expected tags in .0, 1. or -100, got 1 to 1",
        ),
        (
            lambda: MaskingCollator(
                md.strategy(
                    "blm",
                    blm={"shape": "linear", "start": 1.0, "stop": 0.0, "over": 9, "per": "step"},
                ),
                IDS,
            ),
            "strategy: a rate follows the training step or tokens, which a collator",
        ),
    ],
)
def test_collator__refuses_wrong_options(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Epochs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_collator__epoch_reaches_running_workers(folder: Path, train: Any, workers: int) -> None:
    collator = MaskingCollator(JOINT, train)
    rows: Any = datasets.load_from_disk(str(folder))["train"]
    loader = DataLoader(
        rows,
        batch_size=1000,
        num_workers=workers,
        persistent_workers=workers > 0,
        collate_fn=collator,
    )
    seen = []
    for epoch in (0, 1):
        collator.epoch = epoch
        seen += all_lists(loader)

    expected = [
        of_numpy(md.Batches(train, JOINT, epoch=e, batch_size=1000, shuffle=False)) for e in (0, 1)
    ]
    assert [[batch] for batch in seen] == expected


def test_collator__refuses_rows_before_the_epoch_is_known(train: Any) -> None:
    collator = MaskingCollator(JOINT, train)

    assert collator.epoch is None
    with pytest.raises(ValueError, match=r"epoch: not set, .* pass MaskEpochCallback\(\) to"):
        collator([train[0]])
    with pytest.raises(ValueError, match="epoch: expected an integer"):
        collator.epoch = 1.0  # type: ignore[assignment]
    collator.epoch = 0
    assert len(collator([train[0]])["keys"]) == 1


def test_collator__keeps_the_masks_of_a_static_epoch(train: Any) -> None:
    rows = [train[row] for row in range(8)]
    static = MaskingCollator(JOINT, train, static=True)

    first = lists(static(rows))
    static.epoch = 5

    assert static.epoch == 0
    assert lists(static(rows)) == first


class Wrapped:
    def __init__(self, collator: Any) -> None:
        self.data_collator = collator


def test_callback__sets_the_epoch_of_a_collator(train: Any) -> None:
    """The Trainer wraps it to remove columns."""
    collator = MaskingCollator(JOINT, train)
    loader: Any = DataLoader([], collate_fn=Wrapped(collator))  # type: ignore[arg-type, var-annotated]
    state = transformers.TrainerState(epoch=1.9999999)

    MaskEpochCallback().on_epoch_begin(None, state, None, train_dataloader=loader)

    assert collator.epoch == 2
