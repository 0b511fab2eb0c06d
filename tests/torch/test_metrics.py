from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import mslm_data as md  # noqa: E402
from mslm_data.batches.collate import Masked  # noqa: E402
from mslm_data.data.examples import Examples  # noqa: E402
from mslm_data.encode import tokenizer  # noqa: E402
from mslm_data.errors import AnnotateError  # noqa: E402
from mslm_data.io import resources  # noqa: E402
from mslm_data.shard.split import Rows  # noqa: E402
from mslm_data.torch import evaluate, perplexity  # noqa: E402
from tests import made  # noqa: E402
from tests.generate import IDS, Row, examples_of, fixed_examples, row_of, rows_of  # noqa: E402
from tests.made import build, pipeline_of  # noqa: E402
from tests.reference import mentions as twin  # noqa: E402

LABELS = ("X", "Y")


@dataclass
class Oracle:
    """A model that returns the true tags of each row, found by its ids, and records its inputs."""

    examples: Examples
    wrap: Any = None
    labels: int = len(LABELS)

    def __post_init__(self) -> None:
        self.seen: list[tuple[int, ...]] = []
        self.known = {tuple(row.ids): row.bio for row in rows_of(self.examples)}

    def __call__(self, *, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        logits = torch.zeros(*input_ids.shape, 1 + 2 * self.labels)
        for row, (ids, there) in enumerate(zip(input_ids, attention_mask, strict=True)):
            shown = tuple(ids[there.bool()].tolist())
            self.seen.append(shown)
            for t, tag in enumerate(self.known.get(shown, [0] * len(shown))):
                logits[row, t, tag] = 1
        return self.wrap(logits) if self.wrap else logits


def runs_of_masks(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, mask: int = IDS.mask
) -> torch.Tensor:
    """Predict a mention for each run of [MASK], without reading words."""
    hidden = input_ids == mask
    goes_on = torch.nn.functional.pad(hidden, (1, 0))[:, :-1]
    return torch.nn.functional.one_hot(
        torch.where(hidden, torch.where(goes_on, 2, 1), 0), 3
    ).float()


def _rule_of_row(ids: np.ndarray, mask: int) -> list[int]:
    return runs_of_masks(torch.from_numpy(ids)[None], torch.ones(1), mask)[0].argmax(-1).tolist()


@pytest.fixture
def examples() -> Examples:
    return fixed_examples(32)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_evaluate__scores_1_for_an_oracle(examples: Examples, size: int) -> None:
    oracle = Oracle(examples)

    result = evaluate(oracle, examples, labels=LABELS, batch_size=size)

    mentions = sum(len(row.mentions) for row in rows_of(examples))
    assert (result["recall"], result["precision"], result["micro_f1"], result["macro_f1"]) == (
        1,
        1,
        1,
        1,
    )
    assert (result["hits"], result["gold"], result["rows"]) == (mentions, mentions, len(examples))
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_evaluate__passes_unmasked_rows_once(examples: Examples) -> None:
    oracle = Oracle(examples)

    evaluate(oracle, examples, labels=LABELS)

    assert sorted(oracle.seen) == sorted(tuple(row.ids) for row in rows_of(examples))
    assert not any(IDS.mask in row for row in oracle.seen)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: SimpleNamespace(
            tag_logits=logits, logits=torch.zeros(*logits.shape[:2], 40)
        ),
        lambda logits: SimpleNamespace(tag_logits=None, logits=logits),
        lambda logits: {"logits": logits.bfloat16()},
    ],
)
def test_evaluate__accepts_outputs_with_logits(examples: Examples, wrap: Any) -> None:
    assert evaluate(Oracle(examples, wrap), examples, labels=LABELS)["recall"] == 1.0


def test_evaluate__uses_predicted_types() -> None:
    examples = examples_of([row_of([2, 1, 2], [(0, 2), (2, 3)])])

    def predict(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        spans = torch.tensor([[[1, 4, -1]], [[4, 6, -1]], [[0, 1, -1]]])
        return SimpleNamespace(
            span_starts=spans[0], span_ends=spans[1], span_labels=spans[2], mentions=None
        )

    result = evaluate(predict, examples, labels=LABELS)

    assert (result["hits"], result["predicted"], result["types"]["Y"]["predicted"]) == (1, 2, 1)


def test_evaluate__scores_first_sub_words() -> None:
    examples = examples_of([row_of([3, 1], [(0, 1)])])

    def only_first(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(
            torch.tensor([[1, 1, 0, 1, 0, 1]]), 3
        ).float()  # special tokens have tags, too

    result = evaluate(only_first, examples, labels=("X",))

    assert (result["hits"], result["predicted"], result["words"]) == (1, 1, 2)


def test_evaluate__of_no_row_and_of_empty_rows_is_0() -> None:
    none, empty = examples_of([]), examples_of([Row(key=0, ids=[], word_ids=[])])

    results = [evaluate(Oracle(rows), rows, labels=LABELS) for rows in (none, empty)]

    assert [(result["recall"], result["macro_f1"], result["rows"]) for result in results] == [
        (0, 0, 0),
        (0, 0, 1),
    ]


def test_evaluate__leaves_each_part_in_its_mode(examples: Examples) -> None:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.layer = torch.nn.Dropout(), torch.nn.Embedding(IDS.size, 5)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            assert not self.training
            assert not torch.is_grad_enabled()
            return self.layer(input_ids)

    model = Tagger()
    model.frozen.eval()

    evaluate(model, examples, labels=LABELS)

    assert (model.training, model.frozen.training, model.layer.training) == (True, False, True)


def test_evaluate__refuses_outputs_without_tag_logits(examples: Examples) -> None:
    with pytest.raises(
        ValueError, match=r"model: expected tag logits of shape \(8, \d+, 3\), got \(8, \d+, 5\)"
    ):
        evaluate(Oracle(examples), examples, labels=("X",), batch_size=8)
    with pytest.raises(
        ValueError,
        match=r"expected a tensor of logits \[B, L, .\], or an output with tag_logits or logits",
    ):
        evaluate(lambda **_: None, examples, labels=LABELS)
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        evaluate(Oracle(examples), examples, labels=LABELS, batch_size=0)


def test_evaluate__refuses_nan_logits(examples: Examples) -> None:
    def with_nan(logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill(2, torch.tensor([1]), math.nan)

    with pytest.raises(AnnotateError, match="its scores are NaN"):
        evaluate(Oracle(examples, with_nan), examples, labels=LABELS)


def test_evaluate__ignores_logits_of_special_tokens_and_padding() -> None:
    examples = examples_of([row_of([2, 1, 2], [(0, 2)]), row_of([1], [(0, 1)])])
    words = {len(row.ids): torch.tensor(row.word_ids) >= 0 for row in rows_of(examples)}

    def nan_outside(logits: torch.Tensor) -> torch.Tensor:
        known = words[logits.shape[1]]
        return logits.masked_fill(~known[None, :, None], math.nan)

    result = evaluate(Oracle(examples, nan_outside), examples, labels=LABELS, batch_size=1)

    assert (result["recall"], result["precision"]) == (1, 1)


@pytest.mark.parametrize(
    ("corpus", "released"), [("BC2GM-IOB", 0.915), ("NCBI-disease-IOB", 0.920)]
)
def test_evaluate__masked_test_sets_are_solved_without_a_model(
    corpus: str, released: float, real: Path, tmp_path: Path
) -> None:
    """With the protocol of the released code, a rule that reads no words reaches the published scores."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "test.tsv").write_bytes((real / "blurb" / corpus / "test.tsv").read_bytes())
    core = tokenizer.load_tokenizer(
        str(real / "tokenizers" / "bert-base-uncased__BlueBERT.vocab.txt")
    )
    build(pipeline_of(), [tmp_path / "in"], core, tmp_path / "out", workers=1)
    shards = md.load(tmp_path / "out")
    rows = shards["test"].examples()
    joint = shards.strategy("joint", elm=1.0, blm=0.075, count="bernoulli")
    scores = []
    for seed in range(4):
        hidden = joint.corrupt(rows, joint.plan(rows, seed=seed, epoch=0), seed=seed, epoch=0)
        found = [_rule_of_row(hidden[i], core.ids.mask) for i in range(len(rows))]
        scores.append(twin.released_exact_match(rows.bio.tolist(), found))

    def rule(**batch: torch.Tensor) -> torch.Tensor:
        return runs_of_masks(**batch, mask=core.ids.mask)

    fair = evaluate(rule, shards["test"], labels=shards.labels, mean_words=25.17)

    assert np.mean(scores) == pytest.approx(released, abs=0.01)
    assert (fair["recall"], fair["predicted"]) == (0.0, 0)
    if corpus == "BC2GM-IOB":
        assert (fair["gold"], fair["shorter"]["rows"], fair["longer"]["rows"]) == (6325, 2411, 2627)


def test_evaluate__accepts_a_mslm_model_and_its_predict() -> None:
    transformers = pytest.importorskip("transformers")
    from mslm_data.torch import MslmModel

    torch.manual_seed(0)
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    bert = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=IDS.size, **shape))
    model = MslmModel.wrap(bert, labels=LABELS)
    examples = examples_of(row_of([1] * 6, [(0, 2), (3, 4)], key=k, fill=10 + k) for k in range(20))
    batch = Masked.by_strategy(examples, md.strategy("joint"), seed=0, epoch=0).batch()

    by_tags, by_both = (evaluate(way, examples, labels=LABELS) for way in (model, model.predict))

    assert (
        by_tags["predicted"] == by_both["predicted"] > 0
    )  # the model is untrained, but both heads use the same spans
    assert perplexity(model, [batch]) == perplexity(model.masked_lm, [batch])
    assert model.training


def perplexity_of(*batches: tuple[Any, Any]) -> dict[str, Any]:
    """Return the perplexity of logits and labels."""
    logits = iter([logits for logits, _ in batches])
    given = [
        {"input_ids": labels, "attention_mask": torch.ones_like(labels), "labels": labels}
        for _, labels in batches
    ]
    return perplexity(lambda **_: next(logits), given)


def test_perplexity__worked_example() -> None:
    logits = torch.tensor([[[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]]]).log()

    result = perplexity_of((logits, torch.tensor([[0, -100, 0]])))

    assert result["perplexity"] == pytest.approx(math.exp((math.log(4) + math.log(8)) / 2))
    assert result["tokens"] == 2


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_perplexity__equals_numpy(seed: int, batches: int, dtype: torch.dtype) -> None:
    generator = np.random.default_rng(seed)
    made, losses = [], []
    for _ in range(batches):
        rows, tokens = generator.integers(1, 5, 2)
        logits = torch.from_numpy(generator.normal(0, 5, (rows, tokens, 7))).to(dtype)
        labels = np.where(
            generator.random((rows, tokens)) < 0.5, generator.integers(0, 7, (rows, tokens)), -100
        )
        made.append((logits, torch.from_numpy(labels)))
        wide = logits.double().numpy()
        top = wide.max(-1)
        norm = top + np.log(np.exp(wide - top[..., None]).sum(-1))
        true = np.take_along_axis(wide, np.maximum(labels, 0)[..., None], -1)[..., 0]
        losses += (norm - true)[labels >= 0].tolist()

    result = perplexity_of(*made)

    assert result["tokens"] == len(losses)
    if losses:
        expected = math.exp(sum(losses) / len(losses))
        assert result["perplexity"] == pytest.approx(expected, rel=1e-5)


def test_perplexity__sums_in_float64() -> None:
    def batch(*losses: float) -> tuple[Any, Any]:
        logits = torch.tensor([[[0.0, loss] for loss in losses]])
        return logits, torch.zeros((1, len(losses)), dtype=torch.int64)

    result = perplexity_of(batch(2.0**26), *[batch(65.0)] * 5)

    # A sum in float32 would be a multiple of 8.
    assert result["loss"] * result["tokens"] == 2**26 + 5 * 65
    assert result["perplexity"] is None  # it overflows


def test_perplexity__is_none_without_tokens() -> None:
    nothing = perplexity_of((torch.zeros(2, 3, 4), torch.full((2, 3), -100)))

    assert nothing == {"perplexity": None, "loss": None, "tokens": 0}


def test_perplexity__of_a_uniform_model_is_the_vocabulary_size(examples: Examples) -> None:
    masked = Masked.by_strategy(examples, md.strategy("joint"), seed=0, epoch=0)
    batches = [masked.batch(np.arange(k, k + 8)) for k in range(0, 32, 8)]

    result = perplexity(
        lambda input_ids, attention_mask: torch.zeros(*input_ids.shape, IDS.size), batches
    )

    assert result["perplexity"] == pytest.approx(IDS.size, rel=1e-6)
    assert result["tokens"] == np.count_nonzero(masked.kinds.values)


def test_evaluate__separates_memorised_from_new_mentions(tmp_path: Path) -> None:
    made.built(tmp_path / "out")
    shards = md.load(tmp_path / "out")
    test = shards["test"]
    oracle = Oracle(test.examples(), labels=len(shards.labels))

    result = evaluate(oracle, test, labels=shards.labels, train=shards["train"])

    unseen = result["unseen"]
    core = tokenizers.Tokenizer.from_file(str(shards.tokenizer))

    def texts(split: md.Split) -> list[str]:
        return [
            core.decode(row["input_ids"][start:end]).replace(" ", "").casefold()
            for row in map(split.__getitem__, range(len(split)))
            for start, end in zip(row["span_starts"], row["span_ends"], strict=True)
        ]

    known = {*texts(shards["train"])}
    expected = sum(text in known for text in texts(test))
    assert unseen["memorised"]["gold"] == unseen["memorised"]["hits"] == expected
    assert unseen["memorised"]["gold"] + unseen["new"]["gold"] == result["gold"]
    assert unseen["new"]["recall"] == 1.0
    assert unseen["documents"] == len({test[row]["doc_id"] for row in range(len(test))})


def test_evaluate__reads_document_ids_as_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.built(tmp_path / "out")
    shards = md.load(tmp_path / "out")
    test, train = shards["test"], shards["train"]
    oracle = Oracle(test.examples(), labels=len(shards.labels))
    monkeypatch.delattr(md.Split, "__getitem__")  # reads all columns of a row

    result = evaluate(oracle, test, labels=shards.labels, train=train)

    assert result["unseen"]["documents"] == len({*test.values("doc_id")})


def test_evaluate__rejects_training_rows_of_another_tokenizer(tmp_path: Path) -> None:
    made.built(tmp_path / "out")
    inputs = [made.SAMPLE / "ncbi-disease"]
    made.build(made.pipeline_of(), inputs, made.byte_level(), tmp_path / "bpe", workers=1)
    test, train = (md.load(tmp_path / name)["test"] for name in ("out", "bpe"))
    oracle = Oracle(test.examples(), labels=len(test.labels))

    for rows in (test, test.subset(share=1.0), test.examples()):
        with pytest.raises(ValueError, match="train: expected rows of the same tokenizer"):
            evaluate(oracle, rows, labels=test.labels, train=train)
    with pytest.raises(TypeError, match=r"train: expected the split .*, got Shards"):
        evaluate(oracle, test, labels=test.labels, train=md.load(tmp_path / "out"))  # type: ignore[arg-type]


def test_evaluate__separates_synonyms_if_both_folders_have_concepts(tmp_path: Path) -> None:
    rows = {
        "train": [("Gout came.", "gout", "D1"), ("Flu and cold.", "flu", "D2|D3")],
        "test": [
            ("Gout went.", "gout", "D9"),
            ("Podagra went.", "podagra", "D1"),
            ("Grippe went.", "grippe", "D3"),
            ("Asthma went.", "asthma", "D4"),
            ("Asthma came.", "asthma", ""),
        ],
    }
    for split, documents in rows.items():
        lines = []
        for number, (text, name, concept) in enumerate(documents):
            entity = {"start": 0, "end": len(name), "label": "X", "concept": concept}
            lines.append({"id": f"{split} {number}", "text": text, "entities": [entity]})
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shards, without = (
        md.build(
            "jsonl",
            input=tmp_path,
            tokenizer=resources.path("vocab", "sample/vocab.txt"),
            out=tmp_path / f"out{weak}",
            workers=1,
            options={"annotate.weak": weak},
        )
        for weak in (True, False)
    )
    nobody = Oracle(shards["test"].take(np.arange(2)), labels=1)

    def unseen(rows: Rows, train: Rows) -> dict[str, tuple[int, int]]:
        result = evaluate(nobody, rows, labels=["X"], train=train)["unseen"]
        return {
            name: (scores["gold"], scores["hits"])
            for name, scores in result.items()
            if isinstance(scores, dict)
        }

    expected = {"memorised": (1, 1), "synonym": (2, 1), "new": (2, 0)}
    assert unseen(shards["test"], shards["train"]) == expected
    assert unseen(shards["test"].subset(share=1.0), shards["train"].subset(share=1.0)) == expected
    for test, train in ((without, shards), (shards, without)):
        assert unseen(test["test"], train["train"]) == {"memorised": (1, 1), "new": (4, 1)}
