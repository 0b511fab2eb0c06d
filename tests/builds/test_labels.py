"""Texts used as labels: rejected before a manifest, a card or a message shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds.data_loss import seem_texts
from mslm_data.builds.stages import make_source
from mslm_data.errors import BuildError, MslmDataError, PipelineError
from tests import made
from tests.builds.inputs import jsonl, preview

SECRET = "Miller"


def rows(number: int, label: str) -> list[dict[str, Any]]:
    """Make rows with numbered labels of the document and of its mention."""
    return [
        {
            "id": str(n),
            "text": "kinase inhibitors work",
            "note": label.format(n),
            "entities": [{"start": 0, "end": 6, "label": label.format(n)}],
        }
        for n in range(number)
    ]


def files_with(word: str, folder: Path) -> list[str]:
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and word.encode() in path.read_bytes()
    ]


CASES = {
    "many": rows(30, "Mr. Miller, {}"),
    "few and long": rows(3, "Mr. Miller was seen on day {} for pain in the chest and a dry cough."),
    "some very long": [*rows(200, "note"), *rows(1, "Mr. Miller was seen. " * 15)],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("which", ["doc_label", "mentions"])
def test_build__rejects_texts_as_labels(case: str, which: str, tmp_path: Path) -> None:
    given = [{**row, "id": str(number)} for number, row in enumerate(CASES[case])]
    source: dict[str, Any] = {"use": "jsonl"}
    if which == "doc_label":
        source["doc_label"] = "note"
        given = [{**row, "entities": []} for row in given]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *given)

    messages = []
    for build in (preview, made.built):
        with pytest.raises(BuildError, match=r"labels of .* that are short and repeat") as error:
            build(tmp_path / "out", inputs, made.pipeline_of(source=source))
        messages.append(str(error.value))

        assert SECRET not in messages[-1]
        assert ("in place of 'note'" in messages[-1]) == (which == "doc_label")
    # A build ends at the first unit with a very long label.
    assert messages[0] == messages[1] or case == "some very long"
    in_pieces = {f".build/pieces/{name}.arrow" for name in ("train-00000-00000",)}
    assert not {*files_with(SECRET, tmp_path / "out")} - in_pieces


@pytest.mark.parametrize("unit_bytes", [64 << 20, 1 << 20], ids=["one unit", "units"])
def test_build__rejects_more_labels_of_documents_than_the_column_holds(
    unit_bytes: int, tmp_path: Path
) -> None:
    given = [{**row, "entities": []} for row in rows(33_000, "Miller {}")]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *given)
    pipeline = made.pipeline_of(source={"use": "jsonl", "doc_label": "note"}, unit_bytes=unit_bytes)

    with pytest.raises(BuildError, match=r"at most 16,383, got .* in place of 'note'") as error:
        made.built(tmp_path / "out", inputs, pipeline)

    assert SECRET not in str(error.value)
    assert not files_with(SECRET, tmp_path / "out" / ".build" / "receipts")


def test_build__keeps_no_long_label_of_a_lost_mention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mentions = [
        {"start": 0, "end": 6, "label": "protein"},
        {"start": 0, "end": 3, "label": "Mr. Miller was seen. " * 15},  # inside the other
    ]
    row = {"id": "1", "text": "kinase inhibitors work", "entities": mentions}
    inputs = jsonl(tmp_path / "in", "train.jsonl", row)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mslm_data.builds.steps.finish", stop)
    with pytest.raises(KeyboardInterrupt):
        made.built(tmp_path / "out", inputs, made.pipeline_of(source={"use": "jsonl"}))

    assert files_with("protein", tmp_path / "out" / ".build" / "receipts")
    assert files_with(SECRET, tmp_path / "out") == []


def test_build__shows_no_texts_among_unused_labels(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *CASES["many"])
    pipeline = made.pipeline_of(source={"use": "jsonl"}, annotate={"labels": ["Disease"]})

    with pytest.raises(MslmDataError, match="they have labels that are not shown") as error:
        made.built(tmp_path / "out", inputs, pipeline)

    assert SECRET not in str(error.value)


def test_build__accepts_any_labels_named_by_the_pipeline(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *CASES["many"])
    labels = [row["note"] for row in CASES["many"]]
    pipeline = made.pipeline_of(source={"use": "jsonl"}, annotate={"labels": labels})

    assert made.built(tmp_path / "out", inputs, pipeline).labels == tuple(labels)


@pytest.mark.parametrize(
    ("labels", "items", "seem"),
    [
        ([str(n) for n in range(20)], 20, True),
        ([str(n) for n in range(20)], 26, False),
        ([str(n) for n in range(19)], 19, False),
        (["a" * 64, "b"], 2, False),
        (["a" * 65, "b"], 2, True),
        (["a" * 65, "b"], 3, False),
        (["a" * 256], 1, False),
        (["a" * 257], 10_000, True),
        ([], 0, False),
    ],
)
def test_seem_texts__checks_number_and_length(labels: list[str], items: int, seem: bool) -> None:
    assert seem_texts(labels, items) is seem


def test_text__rejects_the_same_column_as_text_and_label() -> None:
    with pytest.raises(PipelineError, match="doc_label to differ from text_column"):
        make_source(made.pipeline_of(source={"use": "text", "doc_label": "text"}))
