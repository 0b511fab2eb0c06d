"""Notebook output of objects, which shows patients' text only on request."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

import mslm_data as md
from mslm_data.draw import style_sheet
from mslm_data.draw.id_words import try_open_tokenizer
from mslm_data.draw.sample import sample
from mslm_data.mask.artefacts import iter_artefacts
from mslm_data.mask.table import STRATEGIES
from mslm_data.stats import mask_stats


def build(folder: Path, **options: Any) -> md.Shards:
    return md.build(
        "blurb/ncbi-disease", sample=True, out=folder / "out", workers=1, options=options
    )


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    return build(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    """The same rows, marked as patients' text."""
    return build(tmp_path_factory.mktemp("notes"), **{"about.protected": True})


@pytest.fixture
def copied(shards: md.Shards, tmp_path: Path) -> Path:
    shutil.copytree(shards.folder, tmp_path / "copy")
    return tmp_path / "copy"


OBJECTS: dict[str, Callable[[md.Shards], Any]] = {
    "shards": lambda shards: shards,
    "split": lambda shards: shards["train"],
    "mix": lambda shards: md.mix([shards["train"], shards["test"]]),
    "subset": lambda shards: shards["train"].subset(documents=5, seed=1),
}


def words(page: str) -> str:
    """Return the visible text of HTML."""
    return re.sub("<[^>]*>", "", re.sub("<style>.*?</style>", "", page, flags=re.DOTALL))


@pytest.mark.parametrize("name", OBJECTS)
def test_repr_html__shows_rows_like_the_page(name: str, shards: md.Shards) -> None:
    html = OBJECTS[name](shards)._repr_html_()

    assert style_sheet() in html
    assert html.count('<p class="s"') == 3
    assert '<u class="m">' in html
    assert '<small class="l">Disease</small>' in html


@pytest.mark.parametrize("name", OBJECTS)
def test_repr_html__hides_patients_text(name: str, shards: md.Shards, notes: md.Shards) -> None:
    plain = OBJECTS[name](shards)._repr_html_()
    of_notes = OBJECTS[name](notes)._repr_html_()

    drawn = re.findall(r'<p class="s".*?</p>', plain)
    shown = {word for row in drawn for word in words(row).split() if len(word) > 7}
    assert shown
    assert not shown & set(words(of_notes).split())
    assert '<p class="s"' not in of_notes
    assert "md.show(..., show_text=True) shows it" in of_notes


def test_repr_html__shows_counts_of_a_folder_without_a_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").write_text("{}")

    html = md.load(copied)["train"]._repr_html_()

    assert '<th scope="row">train</th>' in html
    assert '<p class="s"' not in html
    assert try_open_tokenizer(copied / "nothing.json") is None


def test_repr_html__reports_a_damaged_shard(copied: Path) -> None:
    (shard,) = (copied / "train").glob("*.arrow")
    shard.write_bytes(b"")

    html = md.load(copied)._repr_html_()

    assert 'class="note"' in html
    assert "data-00000-of-00001.arrow" in html


NEED_OPTIONS = {"curriculum.v1", "mixture.v1", "picks.v1"}


@pytest.mark.parametrize("name", sorted({*STRATEGIES.names()} - NEED_OPTIONS))
def test_repr_html__shows_a_sentence_or_the_requirements_of_a_strategy(name: str) -> None:
    strategy = md.strategy(name)
    needs_a_file = any(iter_artefacts(strategy))

    html = strategy._repr_html_()

    assert f"<b>{name}</b>" in html
    assert html.count('<p class="s"') == (0 if needs_a_file else 2)
    assert ('<p class="soft">' in html) == needs_a_file


def test_repr_html__supports_user_defined_strategies() -> None:
    joint = md.strategy("joint")
    own = type(joint)(joint.picks, joint.corruption)  # type: ignore[attr-defined,call-arg]

    html = own._repr_html_()

    assert "a strategy of your own" in html
    assert html.count('<mark class="e"') > 0


def test_sample__is_a_row_with_mentions() -> None:
    examples = sample().examples
    plan = md.strategy("elm", elm=1.0).plan(examples)

    assert len(examples.span_starts.values) == 4
    assert plan.counts()[0] == int((examples.span_ends.values - examples.span_starts.values).sum())
    drawn = words(html.unescape(sample().mentions()))
    assert "raised the risk of intracranial haemorrhage\u202fDisease in" in drawn
    assert (
        repr(plan)
        == f"MaskPlan(1 rows, {len(plan.kinds.values)} tokens: {plan.counts()[0]} masked as ELM, 0 as BLM)"
    )


def test_repr__statistics_take_one_line(shards: md.Shards) -> None:
    stats = mask_stats(shards["train"].chunks, md.strategy("joint"), labels=shards.labels)

    assert repr(stats).startswith(
        f"MaskStats({stats.sequences} rows, {stats.realised_rate:.2%} of "
    )
    html = stats._repr_html_()
    for value in (f"{stats.n_elm:,}", f"{stats.weights.w_elm:.3f}", f"{stats.realised_elm:.2%}"):
        assert value in words(html)


def test_show__shows_rows_under_each_strategy(shards: md.Shards) -> None:
    joint = md.strategy("joint")
    drawing = md.show(shards["train"], joint, "span", joint, rows=[5, 2], seed=3, epoch=1)

    assert (drawing.rows, drawing.strategies) == ((5, 2), ("joint", "span", "joint 2"))
    assert repr(drawing) == (
        "Drawing(rows 5, 2 under joint, span, joint 2; a notebook shows it, .html has it)"
    )
    assert drawing._repr_html_() == drawing.html
    assert drawing.html.count('<p class="s"') == 6

    examples = shards["train"].examples(2, 3)
    n_elm, n_blm = joint.plan(examples, seed=3, epoch=1).counts()
    assert n_elm + n_blm > 0
    last = drawing.html.split("<b>joint</b>")[-1].split("<b>span</b>")[0]
    tokenizer = tokenizers.Tokenizer.from_file(str(shards.tokenizer))
    for kind, count in (("e", n_elm), ("b", n_blm)):
        masked = re.findall(rf'<mark class="{kind}"[^>]*>(.*?)</mark>', last)
        kinds = joint.plan(examples, seed=3, epoch=1).kinds[0]
        ids = examples.input_ids[0][kinds == {"b": 1, "e": 2}[kind]]
        assert len(ids) == count
        assert "".join(masked).replace(" ", "") == "".join(
            tokenizer.id_to_token(id_).removeprefix("##") for id_ in ids.tolist()
        )


def test_show__without_a_strategy_shows_mentions(shards: md.Shards) -> None:
    drawing = md.show(shards["train"], rows=np.int64(2))

    assert (len(drawing.rows), drawing.strategies) == (2, ())
    assert drawing.html.count('<p class="s"') == 2
    assert "<mark" not in drawing.html


def test_show__shows_patients_text_only_on_request(shards: md.Shards, notes: md.Shards) -> None:
    for rows in (
        notes["train"],
        md.mix([notes["train"], notes["test"]]),
        md.mix([notes["train"], shards["test"]]),
        md.mix([shards["train"], notes["test"]]),
    ):
        with pytest.raises(md.MslmDataError, match=r"holds patients' text.* pass show_text=True"):
            md.show(rows, "joint")
        assert '<p class="s"' in md.show(rows, "joint", show_text=True).html


NO_NUMBERS = "rows: expected a sequence of whole numbers, got "
WRONG_ROWS: list[tuple[Any, type[Exception], str]] = [
    ([10**6], IndexError, "rows: expected numbers from 0 to"),
    *((rows, ValueError, f"rows: expected at least 1, .*, got {rows}$")
      for rows in (0, -1, np.int64(0))),
    *((rows, TypeError, NO_NUMBERS)
      for rows in ([1.5], [True, False], True, 2.5, None, "3", [2**70])),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "error", "message"), WRONG_ROWS)
def test_show__rejects_invalid_rows(
    rows: Any, error: type[Exception], message: str, shards: md.Shards
) -> None:
    with pytest.raises(error, match=message):
        md.show(shards["train"], rows=rows)


def test_show__rejects_values_that_are_no_split(shards: md.Shards) -> None:
    with pytest.raises(TypeError, match="split: expected a split"):
        md.show(shards)  # type: ignore[arg-type]
