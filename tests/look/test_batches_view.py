"""The view of batches, against the arrays of `md.Batches`."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.errors import CallError
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import State
from mslm_data.look.views import batches as view
from mslm_data.look.views.batches import BatchSizes, form_options, read_sizes
from mslm_data.stats import BatchShape
from tests import made
from tests.draw.test_drawing import Page

FORMS = ("padded", "padded, in buckets", "by tokens", "by tokens, in buckets", "flat")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    out = tmp_path_factory.mktemp("built") / "many"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 24}))
    return md.load(out)


def drawn(shards: md.Shards, **extra: str) -> str:
    names = {f"batches.{name}": value for name, value in extra.items()}
    state = State(view="batches", seed=4, epoch=1, extra=names)
    return str(render_view("batches", Corpus(shards), state, live=False)[0])


@pytest.mark.parametrize(
    "extra",
    [{}, {"rows": "5"}, {"rows": "3", "tokens": "100", "multiple_of": "8"}],
    ids=["usual", "few", "all"],
)
def test_view__numbers_equal_the_arrays(shards: md.Shards, extra: dict[str, str]) -> None:
    html = drawn(shards, **extra)

    rows = dict(re.findall(r'<tr data-form="(.*?)">(.*?)</tr>', html, re.DOTALL))
    assert tuple(rows) == FORMS
    given = {name: int(value) for name, value in extra.items()}
    for name, options in form_options(shards["train"], BatchSizes(**given), seed=4):
        masks = [
            batch["attention_mask"] for batch in md.Batches(shards["train"], "joint", **options)
        ]
        tokens = sum(int(mask.sum()) for mask in masks)
        padding = 1 - tokens / sum(mask.size for mask in masks)
        assert dict(re.findall(r'data-count="(\w+)">(.*?)<', rows[name])) == {
            "steps": f"{len(masks):,}",
            "tokens_per_step": f"{tokens / len(masks):,.1f}",
            "padding": f"{padding:.2%}",
        }
        call = ", ".join(f"{option}={value}" for option, value in options.items())
        assert f"<code>{call}</code>" in rows[name]
    Page(html)


def test_view__draws_the_first_batches(shards: md.Shards) -> None:
    html = drawn(shards, rows="5")

    for name, options in form_options(shards["train"], BatchSizes(rows=5), seed=4):
        batches = md.Batches(shards["train"], "joint", epoch=1, **options)
        for number, batch in enumerate(itertools.islice(batches, view.DRAWN), 1):
            mask = batch["attention_mask"]
            words = (
                f"{name}, batch {number}: {len(batch['keys'])} rows, {mask.sum()} tokens, "
                f"{1 - mask.mean():.1%} padding"
            )
            assert f'aria-label="{words}"' in html


@pytest.mark.parametrize(
    "shape",
    [
        BatchShape(((3,), (7,), (5,)), 8),
        BatchShape(((10, 20, 2), (31,)), 32),
        BatchShape(((9, 9, 9),), 27),
    ],
)
def test_draw__is_to_scale(shape: BatchShape) -> None:
    wide = 10
    unit = view._WIDTH / wide

    drawing = view.draw(shape, unit)

    for bars, tokens in (
        (drawing.rows, shape.tokens),
        (drawing.padding, shape.width * len(shape.lines) - shape.tokens),
    ):
        assert sum(bar.width for bar in bars) == pytest.approx(tokens * unit)
        assert all(bar.x + bar.width <= view._WIDTH + 0.01 for bar in bars)
        assert all(0 <= bar.y <= drawing.height - view._LINE for bar in bars)

    # No two bars overlap.
    painted = np.zeros((drawing.height, view._WIDTH), np.int64)
    for bar in (*drawing.rows, *drawing.padding):
        painted[bar.y, round(bar.x) : round(bar.x + bar.width)] += 1
    assert painted.max() == 1


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "9999999", "\u0661"])
def test_read_sizes__refuses_invalid_sizes(value: str) -> None:
    with pytest.raises(CallError, match=r"batches\.rows: expected a whole number from 1 to"):
        read_sizes(State(extra={"batches.rows": value}))


def test_view__names_the_shape_with_rows_that_are_too_long(shards: md.Shards) -> None:
    assert "by tokens: batch_tokens: expected room for a row of" in drawn(shards, tokens="4")


def test_view__keeps_typed_values(shards: md.Shards) -> None:
    state = State(view="batches", extra={"batches.rows": "x<y"})
    html = str(render_view("batches", Corpus(shards), state, live=True)[0])

    assert 'name="batches.rows" value="x&lt;y"' in html
    assert "batches.rows: expected a whole number" in html


def test_view__of_a_large_split_is_an_estimate(
    shards: md.Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "_MAX_ROWS", 10)
    monkeypatch.setattr(view, "_STEPS", 2)

    assert "Estimated from the first 2 steps of each." in drawn(shards, rows="5")


def test_view__of_an_empty_split(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("train", "test"):
        words = "a\tO\n\n" if name == "test" else ""
        (tmp_path / "in" / f"{name}.tsv").write_text(words)
    bare = made.pipeline_of(annotate={"use": "none"})
    made.built(tmp_path / "out", tmp_path / "in", bare)
    shards = md.load(tmp_path / "out")

    for split in shards:
        state = State(view="batches", split=split)
        assert "padded" in render_view("batches", Corpus(shards), state, live=False)[0]
        assert "Splits" in render_view("corpus", Corpus(shards), state, live=False)[0]
