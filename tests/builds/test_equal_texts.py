"""Texts that are in a corpus twice, ids that repeat, and what a preview says about both."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.builds import plan
from mslm_data.builds.tasks import BuildUnit
from mslm_data.builds.verify import verify
from mslm_data.errors import BuildError
from mslm_data.pipeline import Pipeline
from tests import made
from tests.builds.inputs import jsonl, lines_of, preview
from tests.support.build_tasks import tasks_run


def pipeline_of(duplicates: str = "ask", **options: Any) -> Pipeline:
    source = {"use": "jsonl", "duplicates": duplicates, **options.pop("source", {})}
    return made.pipeline_of(source=source, annotate={"use": "none"}, **options)


def rows_of(first: str, texts: Sequence[str]) -> list[dict[str, str]]:
    return [{"id": f"{first}{number}", "text": text} for number, text in enumerate(texts)]


def texts_of(first: str, number: int) -> list[str]:
    return [f"{first} {n} was in the house" for n in range(number)]


# Equal texts --------------------------------------------------------------------------------------

X = texts_of("x", 40)
Y = texts_of("y", 40)
TWICE = "most texts of these stand elsewhere in the corpus too"
CASES: dict[str, tuple[Mapping[str, Sequence[str]], dict[str, dict[str, int]], str]] = {
    "different": ({"train": X, "test": Y}, {"train": {}, "test": {}}, ""),
    "a trifle": (
        {"train": [*X, *Y, *texts_of("z", 40), X[0]]},
        {"train": {"within the split": 1}},
        "",
    ),
    "some in test": (
        {"train": X, "test": [*X[:10], *Y]},
        {"train": {"in test": 10}, "test": {"in train": 10}},
        "10 of 50 texts are also in train",
    ),
    "some twice": (
        {"train": [*X, *X[:10]]},
        {"train": {"within the split": 10}},
        "10 of 50 texts equal an earlier text of the split",
    ),
    "each twice": ({"train": [*X, *X]}, {"train": {"within the split": 40}}, TWICE),
    "all of test": (
        {"train": [*X, *Y], "test": Y[:25]},
        {"train": {"in test": 25}, "test": {"in train": 25}},
        TWICE,
    ),
    # Too few to be sure of.
    "small test": (
        {"train": X, "test": X[:10]},
        {"train": {"in test": 10}, "test": {"in train": 10}},
        "10 of 10 texts are also in train",
    ),
}


@pytest.mark.parametrize("unit_bytes", [500, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_build__counts_equal_texts(
    case: str,
    unit_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many are reported, and about most of a file or a split a build asks."""
    splits, expected, message = CASES[case]
    for name, texts in splits.items():
        inputs = jsonl(tmp_path / "in", f"{name}.jsonl", *rows_of(name, texts))
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)
    out = tmp_path / "out"

    if message == TWICE:
        for build in (preview, made.built):
            with pytest.raises(BuildError, match=TWICE) as error:
                build(out, inputs, pipeline_of())
            where = f"'{[*splits][-1]}'" if len(splits) > 1 else "train.jsonl: "
            assert where in str(error.value)
            assert "--set source.duplicates=keep" in str(error.value)
            assert "house" not in str(error.value)
    else:
        preview(out, inputs, pipeline_of())
    caplog.clear()
    manifest = made.built(out, inputs, pipeline_of("keep" if message == TWICE else "ask"))

    assert {name: split.equal_texts for name, split in manifest.splits.items()} == expected
    assert (message in caplog.text) or message == TWICE
    assert message or "texts" not in caplog.text
    assert verify(out)[1] == []


@pytest.mark.parametrize("answer", ["keep", "drop", "count"])
def test_build__goes_on_in_the_same_folder_after_the_question(answer: str, tmp_path: Path) -> None:
    """Folds of a cross-validation, as they are published."""
    in_files = {"train_fold1": X, "test_fold1": Y, "train_fold2": Y, "test_fold2": X}
    for name, texts in in_files.items():
        inputs = jsonl(tmp_path / "in", f"{name}.jsonl", *rows_of(name, texts))
    options = {"source": {"duplicate_similarity": 1}, "unit_bytes": 1000}
    with pytest.raises(BuildError, match=r"(?s)train_fold1\.jsonl: 40 of 40 texts.*keep.*drop"):
        made.built(tmp_path / "out", inputs, pipeline_of(**options))

    with tasks_run() as tasks:
        manifest = made.built(tmp_path / "out", inputs, pipeline_of(answer, **options))
    made.built(tmp_path / "whole", inputs, pipeline_of(answer, **options))

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")
    train, test = manifest.splits["train"], manifest.splits["test"]
    assert (train.written, test.written) == (0 if answer == "drop" else 80, 80)
    assert train.equal_texts == {"in test": 80}
    # Accepting makes no other rows, so what was built is used.
    assert any(isinstance(task, BuildUnit) for task in tasks) == (answer != "keep")


def test_build__compares_sentences_where_the_source_has_them(tmp_path: Path) -> None:
    sentences = [f"x{n}\tB-X\nwas\tO\nin\tO\nYork\tO\n" for n in range(30)]
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "train.tsv").write_text("\n".join(sentences))
    (inputs / "test.tsv").write_text("\n".join(sentences[::-1]))

    with pytest.raises(BuildError, match="split 'test': 30 of 30 texts"):
        made.built(tmp_path / "out", inputs, made.pipeline_of(source={"duplicates": "ask"}))


# Ids ----------------------------------------------------------------------------------------------


def write_corpora(folder: Path) -> Path:
    """Write files of the same names into a folder for each domain.

    Of 7 lines of a file, 2 are broken, and 2 have no token.
    """
    for domain in ("web", "news"):
        texts = [{"text": f"{domain} text {number}"} for number in range(3)]
        lost = ["{broken", {"text": "\u200b"}]
        lines = [texts[0], *lost, texts[1], *lost, texts[2]]
        for name in ("train", "test"):
            jsonl(folder / "corpus" / domain, f"{name}.jsonl", *lines)
    return folder / "corpus"


@pytest.mark.parametrize("unit_bytes", [1, 100, 1 << 20])
def test_build__ids_and_places_have_the_folders_that_tell_files_apart(
    unit_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places are in the order of the input, whichever stage sets a document aside."""
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)
    inputs = write_corpora(tmp_path / "in")
    pipeline = pipeline_of("keep")
    assert preview(tmp_path / "out", inputs, pipeline).counts["train"].written == 10

    made.built(tmp_path / "out", inputs, pipeline)

    expected = [f"{domain}/train:{n}" for domain in ("news", "web") for n in (0, 3, 6)]
    assert [row["doc_id"] for row in load(tmp_path / "out")["train"]] == expected
    assert [line["place"] for line in lines_of(tmp_path / "out")] == [
        f"{domain}/{name}.jsonl:{number}"
        for name in ("train", "test")
        for domain in ("news", "web")
        for number in (2, 3, 5, 6)
    ]

    # They do not depend on where the input is.
    moved = shutil.copytree(inputs, tmp_path / "other" / "news" / "place")
    made.built(tmp_path / "moved", Path(moved), pipeline)
    assert made.tree(tmp_path / "moved") == made.tree(tmp_path / "out")


def test_build__leaves_the_ids_of_the_corpus(tmp_path: Path) -> None:
    """Though they begin like the name of their file."""
    for domain in ("news", "web"):
        jsonl(tmp_path / "in" / domain, "train.jsonl", {"id": "train-1", "text": f"In {domain}."})

    with pytest.raises(BuildError, match=r"web/train\.jsonl: 1 of its document ids.* are also in"):
        made.built(tmp_path / "out", tmp_path / "in", pipeline_of("keep"))


@pytest.mark.parametrize("unit_bytes", [1, 130, 1 << 20])
def test_build__rejects_ids_of_several_files(
    unit_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id of the corpus itself that two files have: one of them may be a copy."""
    for name, ids in (("a", "xz"), ("b", "123456"), ("c", "x"), ("d", "z5")):
        rows = [{"id": doc_id, "text": f"kinase {name}"} for doc_id in ids]
        inputs = jsonl(tmp_path / "in", f"train-{name}.jsonl", *rows)
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)

    messages = []
    for build in (preview, made.built):
        with pytest.raises(
            BuildError, match=r"c\.jsonl: 1 of its document ids.*a\.jsonl; remove one"
        ) as error:
            build(tmp_path / "out", inputs, pipeline_of())
        messages.append(str(error.value))

    assert messages[0] == messages[1]
