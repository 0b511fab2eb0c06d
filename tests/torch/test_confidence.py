from __future__ import annotations

import json
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mslm_data.data.examples import TokenIds  # noqa: E402
from mslm_data.data.ragged import Ragged  # noqa: E402
from mslm_data.torch.predict.confidence import MentionConfidence, mention_confidence  # noqa: E402
from tests.generate import IDS, Row, examples_of, fixed_examples, row_of, rows_of  # noqa: E402


class Reader(torch.nn.Module):
    """A model whose logits depend only on the input ids of the row, on all of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = torch.nn.Embedding(IDS.size, 8), torch.nn.Linear(16, IDS.size)
        self.seen: list[list[int]] = []

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        self.seen += [
            ids[there.bool()].tolist() for ids, there in zip(input_ids, attention_mask, strict=True)
        ]
        tokens = self.table(input_ids) * attention_mask[..., None]
        mean = tokens.sum(1, keepdim=True) / attention_mask.sum(1)[:, None, None]
        return {"logits": self.out(torch.cat([tokens, mean.expand_as(tokens)], -1))}


def slow(model: Reader, row: Row) -> list[list[float]]:
    """Return the log-probabilities of each mention's tokens, one mention at a time, in float64."""
    found = []
    for start, end, _ in row.mentions:
        ids = [*row.ids[:start], *[IDS.mask] * (end - start), *row.ids[end:]]
        with torch.no_grad():
            logits = model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.int64))[
                "logits"
            ][0].double()
        found.append(
            [float(torch.log_softmax(logits[t], -1)[row.ids[t]]) for t in range(start, end)]
        )
    return found


@pytest.mark.parametrize("size", [1, 5, 100])
def test_mention_confidence__equals_its_twin(size: int) -> None:
    examples, model = fixed_examples(24), Reader()

    confidence = mention_confidence(model, examples, batch_size=size)

    expected = [logs for row in rows_of(examples) for logs in slow(model, row)]
    assert confidence.logs.lengths.tolist() == [len(logs) for logs in expected]
    np.testing.assert_allclose(confidence.logs.values, np.concatenate(expected), rtol=2e-5)


def test_mention_confidence__masks_one_whole_mention_at_a_time() -> None:
    model, row = Reader(), row_of([1, 2, 1], [(0, 1), (1, 2)], fill=10)

    mention_confidence(model, examples_of([row]))

    assert sorted(model.seen) == [[2, 4, 10, 10, 10, 3], [2, 10, 4, 4, 10, 3]]


def test_mention_confidence__worked_example() -> None:
    examples = examples_of([row_of([2, 1], [(0, 1), (1, 2)], fill=10)])
    logs = Ragged.from_rows([[math.log(0.5), math.log(0.125)], [math.log(0.2)]], np.float64)

    confidence = MentionConfidence(examples, logs)

    assert confidence.geometric_mean == pytest.approx([0.25, 0.2])
    assert confidence.mean == pytest.approx([0.3125, 0.2])
    assert confidence.least == pytest.approx([0.125, 0.2])
    result = confidence.result(("X", "Y"))
    assert (result["mentions"], result["geometric_mean"]) == (2, pytest.approx(0.225))
    assert result["types"]["Y"] == {
        "mentions": 0,
        "geometric_mean": None,
        "mean": None,
        "least": None,
    }
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize("rows", [[], [row_of([1, 2])]])
def test_mention_confidence__of_no_mention(rows: list[Row]) -> None:
    confidence = mention_confidence(Reader(), examples_of(rows))

    assert len(confidence.geometric_mean) == len(confidence.mean) == len(confidence.least) == 0
    assert confidence.result(("X",))["geometric_mean"] is None


def test_mention_confidence__is_1_for_a_certain_model() -> None:
    examples = examples_of([row_of([1, 1], [(0, 1)], fill=10)])

    def certain(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.full_like(input_ids, 10), IDS.size) * 1000.0

    assert mention_confidence(certain, examples).geometric_mean.tolist() == [1.0]


def test_mention_confidence__needs_a_mask_token() -> None:
    examples = examples_of([row_of([1], [(0, 1)])], TokenIds(size=40))

    with pytest.raises(ValueError, match="examples: the tokenizer has no mask token"):
        mention_confidence(Reader(), examples)
