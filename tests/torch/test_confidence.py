from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mslm_data as md  # noqa: E402
from mslm_data.api.loading import Shards  # noqa: E402
from mslm_data.data.examples import TokenIds  # noqa: E402
from mslm_data.data.ragged import Ragged  # noqa: E402
from mslm_data.errors import ShardError  # noqa: E402
from mslm_data.torch.predict.confidence import MentionConfidence, mention_confidence  # noqa: E402
from mslm_data.torch.predict.heatmap import confidence_heatmap  # noqa: E402
from tests.generate import IDS, Row, examples_of, fixed_examples, row_of, rows_of  # noqa: E402
from tests.made import built, pipeline_of  # noqa: E402


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


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    folder = tmp_path_factory.mktemp("heat") / "ncbi"
    built(folder)
    return md.load(folder)


def made_up(shards: Shards, rows: int = 4) -> MentionConfidence:
    examples = shards["train"].take(
        np.flatnonzero(shards["train"].examples().span_starts.lengths)[:rows]
    )
    sizes = (examples.span_ends.values - examples.span_starts.values).tolist()
    return MentionConfidence(
        examples, Ragged.from_rows([[math.log(0.25)] * size for size in sizes], np.float64)
    )


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.shades: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.shades += [dict(attrs)["class"] for name, _ in attrs if name == "title"]


def test_confidence_heatmap__shades_the_tokens_of_mentions(shards: Shards, tmp_path: Path) -> None:
    confidence = made_up(shards)

    confidence_heatmap(tmp_path / "deep" / "page.html", shards, confidence)

    path = tmp_path / "deep" / "page.html"
    elements = Elements(path.read_text(encoding="utf-8"))
    assert elements.shades == ["t f25"] * len(confidence.logs.values)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "0.2500" in path.read_text(encoding="utf-8")  # the average in the table


def test_confidence_heatmap__a_word_has_the_geometric_mean_of_its_tokens(
    shards: Shards, tmp_path: Path
) -> None:
    examples = examples_of([row_of([2, 1], [(0, 2)], fill=10)])
    logs = Ragged.from_rows([[math.log(0.5), math.log(0.125), math.log(0.8)]], np.float64)

    confidence_heatmap(tmp_path / "page.html", shards, MentionConfidence(examples, logs))

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert Elements(page).shades == ["t f25", "t f25", "t f80"]
    assert "word 0.250, token 0.125, mention 0.368" in page


def test_confidence_heatmap__is_deterministic_and_self_contained(
    shards: Shards, tmp_path: Path
) -> None:
    confidence_heatmap(tmp_path / "a.html", shards, made_up(shards))
    confidence_heatmap(str(tmp_path / "b.html"), shards, made_up(shards))

    page = (tmp_path / "a.html").read_bytes()
    assert page == (tmp_path / "b.html").read_bytes()
    assert not re.search(rb"https?://|src=|href=|url\(|@import|<script", page)
    assert str(tmp_path).encode() not in page


def test_confidence_heatmap__escapes_everything(
    shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "<script>alert('&\")</script>"
    monkeypatch.setattr(
        "mslm_data.draw.marked_rows.Pieces.__getitem__", lambda self, token: hostile
    )
    monkeypatch.setattr(type(shards), "labels", (f"\"'>{hostile}",))
    monkeypatch.setattr(shards, "manifest", msgspec.structs.replace(shards.manifest, name=hostile))

    confidence_heatmap(tmp_path / "page.html", shards, made_up(shards, rows=1))

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "script" not in Elements(page).tags
    assert "&lt;script&gt;alert" in page


def test_confidence_heatmap__of_no_mention(shards: Shards, tmp_path: Path) -> None:
    none = MentionConfidence(
        examples_of([row_of([1, 1], fill=10)]), Ragged.from_rows([], np.float64)
    )

    confidence_heatmap(tmp_path / "page.html", shards, none)

    assert "No mention" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_confidence_heatmap__refuses_protected_text_by_default(tmp_path: Path) -> None:
    pipeline = pipeline_of()
    about = msgspec.structs.replace(pipeline.about, protected=True)
    built(tmp_path / "notes", pipeline=msgspec.structs.replace(pipeline, about=about))
    shards = md.load(tmp_path / "notes")

    with pytest.raises(ShardError, match="contains patients' text; pass show_text=True"):
        confidence_heatmap(tmp_path / "page.html", shards, made_up(shards))
    assert not (tmp_path / "page.html").exists()

    confidence_heatmap(tmp_path / "page.html", shards, made_up(shards), show_text=True)
    assert (tmp_path / "page.html").exists()
