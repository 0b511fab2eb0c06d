"""Data loss that stops a build, and the messages about it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.builds.data_loss import Outcome, check_losses, check_set_aside
from mslm_data.builds.stages import find_inputs
from mslm_data.builds.tasks import BuildUnit
from mslm_data.data.accounts import Counts
from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.source.reading.records import WITHDRAWN
from tests import made
from tests.builds.inputs import jsonl
from tests.stats.test_overlap import folder_of
from tests.support.build_tasks import Interruption, interrupt, tasks_run


def pipeline(*, use: str = "jsonl", max_loss: float = 0.05, **options: Any) -> Any:
    """Make a pipeline with the default maximum loss."""
    annotate = options.pop("annotate", None)
    source = {"use": use, "max_loss": max_loss, **options}
    return made.pipeline_of(source=source, annotate=annotate)


def rows(count: int, *, same: int = 0) -> list[dict[str, Any]]:
    """Return rows with one mention each. The last rows repeat the id of the first."""
    ids = [*range(count - same), *[0] * same]
    return [
        {"id": str(doc_id), "text": "kinase", "entities": [{"start": 0, "end": 6, "label": "X"}]}
        for doc_id in ids
    ]


@pytest.mark.parametrize(
    ("max_loss", "most", "total", "said"),
    [(0.05, 5, 100, "5%"), (0.29, 29, 100, "29%"), (0.001, 1, 1000, "0.1%")],
)
def test_build__accepts_exactly_the_maximum_share_of_documents(
    max_loss: float, most: int, total: int, said: str, tmp_path: Path
) -> None:
    wanted = pipeline(max_loss=max_loss, id_column="id")
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows(total, same=most))
    manifest = made.built(tmp_path / "out", inputs, wanted)
    assert manifest.splits["train"].aside == most

    jsonl(inputs, "train.jsonl", *rows(total, same=most + 1))
    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "other", inputs, wanted)

    assert f"split 'train': expected at most {said} of the documents set aside" in str(caught.value)
    assert f"got {most + 1} of {total:,}" in str(caught.value)
    assert f"first at train.jsonl:{total - most}; name the column of the id" in str(caught.value)
    assert "source.max_loss=1" in str(caught.value)


ENTITY = {"start": 0, "end": 5, "label": "X", "text": "kinase"}
TAGS = {"tokens": ["a", "b", "c", "d"], "ner_tags": ["O"] * 4}
COLUMNS = {"id": "1", "text": "kinase", "gold": "B-X", "Sentence that is a name, with commas.": 1}
ERRORS: dict[str, tuple[dict[str, list[Any]], dict[str, Any], list[str]]] = {
    "documents of one split": (
        {"train.jsonl": rows(1000), "test.jsonl": rows(10, same=5)},
        {},
        [r"split 'test': expected at most 5% of the documents .* got 5 of 10"],
    ),
    "mentions": (
        {"train.jsonl": [{"id": "1", "text": "kinase", "entities": [ENTITY, ENTITY | {"end": 6}]}]},
        {"ends": "exclusive"},
        [
            r"mentions left out \(source\.max_loss\), got 1 of 2",
            r"offsets do not match the text; --set source\.ends=inclusive",
        ],
    ),
    "mentions of set-aside documents": (
        {
            "train.tsv": [
                "-DOCSTART-\n" + "kinase\tB-X\n\n" * 300 + "broken\n",
                *["-DOCSTART-\nkinase\tB-X\n"] * 30,
            ]
        },
        {"use": "conll"},
        [
            r"5% of the mentions left out \(source\.max_loss\), got 300 of 330",
            "  300: in documents set aside: expected a token and a tag, got 1 field",
        ],
    ),
    "reasons that differ in numbers": (
        {
            "train.jsonl": [
                TAGS,
                *[TAGS | {"ner_tags": ["O"] * count} for count in (3, 2, 3, 1)],
                {"tokens": 4},
            ]
        },
        {},
        [
            r"\n  4: expected a tag for each token, got 4 token\(s\) and 3 tag\(s\), or other "
            r"numbers, first at train\.jsonl:2\n  1: expected ((?!other numbers).)*\n.*$",
        ],
    ),
    "texts without annotations": (
        {
            "train/a.ann": ["T1\tX 0 6\tkinase"],
            **{f"train/{name}.txt": ["kinase"] for name in "abcde"},
        },
        {"use": "brat"},
        [
            r"^.* got 4 of 5.*\n  4: expected a file of annotations \(\.ann\) beside the text, found "
            r"none, first at b\.txt:1; --set source\.without_annotations=empty if such texts have no "
            r"mentions\n.*$",
        ],
    ),
    "labels": (
        {"train.tsv": ["kinase\tB-Gene\np53\tB-Protein"]},
        {"use": "conll", "annotate": {"labels": ["Disease"]}},
        ["mentions has a label of 'Disease'.*they have 'Gene', 'Protein'"],
    ),
    "all mentions": (
        {"train.tsv": ["kinase\tO"]},
        {"use": "conll", "max_loss": 1},
        ["expected mentions, found none in the source in 1 "],
    ),
    "columns": (
        {"train.jsonl": [COLUMNS, {**COLUMNS, "id": "2", "text": "p53"}]}, {}, ["the columns there are id, text, gold, or --set"]
    ),
    "columns of a table": (
        {"train.jsonl": [COLUMNS, {**COLUMNS, "id": "2", "text": "p53"}]},
        {"use": "hub"},
        ["the columns there are id, text, gold, or --set"],
    ),
}  # fmt: skip
"""Name -> files, options, and what the error says."""


@pytest.mark.parametrize("case", ERRORS)
def test_build__explains_a_loss(case: str, tmp_path: Path) -> None:
    files, options, said = ERRORS[case]
    for name, lines in files.items():
        path = tmp_path / "in" / name
        jsonl(path.parent, path.name, *lines)

    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "out", tmp_path / "in", pipeline(**options))

    for pattern in said:
        assert re.search(pattern, str(caught.value)), caught.value
    assert "kinase" not in str(caught.value)


def tagged(folder: Path, **tags_of_files: tuple[str, str]) -> Path:
    """Write files of 30 sentences with a mention of two words, tagged as given."""
    folder.mkdir()
    for name, (first, second) in tags_of_files.items():
        rows = [f"{name}{n}\tO\nNew\t{first}\nYork\t{second}\n\n" for n in range(30)]
        (folder / f"{name}.tsv").write_text("".join(rows))
    return folder


def test_build__asks_about_a_split_without_mentions(tmp_path: Path) -> None:
    inputs = tagged(tmp_path / "in", train=("B-LOC", "I-LOC"), test=("O", "O"))

    with pytest.raises(BuildError) as asked:
        made.built(tmp_path / "out", inputs, pipeline(use="conll"))
    kept = made.built(tmp_path / "kept", inputs, pipeline(use="conll", max_loss=1))
    splits = {"train": ["*train.tsv"]}
    left_out = made.built(tmp_path / "left", inputs, pipeline(use="conll", splits=splits))

    assert "split 'test': found no mention in 30 documents, beside 30 in split 'train'" in str(
        asked.value
    )
    assert "such as splits = { train = ['*train.tsv'] }, else" in str(asked.value)
    assert [*kept.splits] == ["train", "test"]
    assert [*left_out.splits] == ["train"]


def test_build__asks_about_many_mentions_that_begin_with_i(tmp_path: Path) -> None:
    inputs = tagged(tmp_path / "in", train=("B-LOC", "I-ORG"))

    with pytest.raises(BuildError, match="30 of 60 mentions begin with I or another tag that"):
        made.built(tmp_path / "out", inputs, pipeline(use="conll"))
    built = made.built(tmp_path / "kept", inputs, pipeline(use="conll", max_loss=1))

    assert built.splits["train"].mentions == 60


@pytest.mark.parametrize(
    "given", [("B-LOC", "I-LOC"), ("LOC_B", "LOC_I"), ("loc;B-org", "loc;B-org")]
)
def test_build__asks_about_labels_that_look_like_tags(
    tmp_path: Path, given: tuple[str, str]
) -> None:
    rows = [
        {"id": f"{n}{label}", "text": f"kinase {n}", "entities": [[0, 6, label]]}
        for n in range(30)
        for label in given[: len({*given})]
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)
    accepted = {"use": "gold", "labels": sorted({*given})}

    with pytest.raises(BuildError, match=r"look like tags, .*--set 'annotate.labels=") as asked:
        made.built(tmp_path / "out", inputs, pipeline(duplicates="keep"))
    built = made.built(tmp_path / "kept", inputs, pipeline(duplicates="keep", annotate=accepted))

    assert json.dumps(accepted["labels"]) in str(asked.value)
    assert sorted(built.labels) == accepted["labels"]


@pytest.mark.parametrize(
    ("aside", "lost", "given"),
    [
        ([SetAside("1", "f:1", Reason("a"), 7), SetAside("2", "f:2", Reason("a"), 0)], 7, 27),
        ([SetAside("1", "f:1", Reason("a")), SetAside("2", "f:2", Reason("b"), 7)], 11, 31),
        ([SetAside("1", "f:1", Reason("a")), SetAside("2", "f:2", WITHDRAWN)], 3, 23),
        ([SetAside("1", "f:1", WITHDRAWN, 50)], 0, 70),
    ],
)
def test_check_losses__estimates_uncounted_mentions(
    aside: list[SetAside], lost: int, given: int, tmp_path: Path
) -> None:
    """There are 20 mentions in 7 documents, and in others as given."""
    inputs = find_inputs(pipeline(max_loss=0), [jsonl(tmp_path, "train.jsonl", *rows(1))])
    counts = Counts(read=7 + len(aside), written=7, given_mentions=20)
    for document in aside:
        counts.put_aside(document)
    gold = Outcome(counts=counts, set_aside=[], labels=[], unwanted=[], doc_labels=[])

    if not lost:
        check_losses(inputs, {"train": [gold]})
        return

    with pytest.raises(BuildError, match=rf"mentions left out .* got {lost} of {given}\n"):
        check_losses(inputs, {"train": [gold]})


def test_build__estimate_counts_documents_that_a_rule_sets_aside(
    tmp_path: Path,
) -> None:
    shared = {"text": "a b c d", "entities": [[at, at + 1, "X"] for at in (0, 2, 4, 6)]}
    documents = [{"id": str(number), **shared} for number in range(95)]
    documents += [{**row, "id": f"other {row['id']}"} for row in rows(4)]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *documents, "{broken")
    held_out = folder_of(tmp_path / "held_out", [shared["text"]], split="test")

    manifest = made.built(tmp_path / "out", inputs, pipeline(decontaminate=[str(held_out)]))

    train = manifest.splits["train"]
    assert (train.read, train.written, train.given_mentions, train.mentions) == (100, 4, 384, 4)


SAY_WHERE = {"ids": "{set} source.ids=line", "ends": "{set} source.ends=inclusive"}


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("pubtator", "; --set source.ids=line\n"),
        ("brat", "; --set source.ends=inclusive\n"),
        ("conll", "a loss, first at f:1\n"),
    ],
)
def test_check_set_aside__suggests_an_option_of_the_source(use: str, said: str) -> None:
    reason = Reason("a loss", advice=SAY_WHERE)

    with pytest.raises(BuildError) as caught:
        check_set_aside(pipeline(use=use), "train", [set_aside(100, *[reason] * 6)])

    assert "split 'train': expected at most 5% of the documents set aside" in str(caught.value)
    assert "  6: a loss, first at f:1" in str(caught.value)
    assert said in str(caught.value)


def set_aside(read: int, *reasons: Reason) -> Outcome:
    """Return the outcome of documents without mentions, of which the first are set aside."""
    aside = [SetAside("", f"f:{number}", reason, 0) for number, reason in enumerate(reasons, 1)]
    counts = Counts(read=read, written=read - len(aside))
    for document in aside:
        counts.put_aside(document)
    return Outcome(counts=counts, set_aside=aside, labels=[], unwanted=[], doc_labels=[])


@pytest.mark.parametrize(
    ("options", "equal", "is_repeated"),
    [({"max_loss": 1}, {"max_loss": 0.5}, False), ({"id_column": ""}, {"id_column": ""}, True)],
)
def test_build__takes_other_options_in_the_same_folder_after_the_error(
    options: dict[str, Any], equal: dict[str, Any], is_repeated: bool, tmp_path: Path
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows(10, same=2))
    with pytest.raises(BuildError):
        made.built(tmp_path / "out", inputs, pipeline())

    with tasks_run() as tasks:
        made.built(tmp_path / "out", inputs, pipeline(**options))
    made.built(tmp_path / "other", inputs, pipeline(**equal))

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "other")
    assert any(isinstance(task, BuildUnit) for task in tasks) == is_repeated


def test_build__restarted_build_has_no_shards_of_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, out = jsonl(tmp_path / "in", "train.jsonl", *rows(10, same=2)), tmp_path / "out"
    with monkeypatch.context() as while_joined:
        while_joined.setattr("mslm_data.builds.steps.finish", lambda *_, **__: interrupt())
        with pytest.raises(Interruption):
            made.built(out, inputs, pipeline(max_loss=1))
    with pytest.raises(BuildError, match=r"source\.max_loss"):
        made.built(out, inputs, pipeline())
    shard = next((out / "train").glob("data-*.arrow"))
    shutil.copy(shard, shard.with_name("data-00000-of-00007.arrow"))  # as of another plan

    mended = [{**row, "id": f"new{number}"} for number, row in enumerate(rows(10))]
    jsonl(inputs, "train.jsonl", *mended)
    manifest = made.built(out, inputs, pipeline(annotate={"labels": ["X"]}))

    assert (manifest.splits["train"].written, manifest.splits["train"].aside) == (10, 0)
    assert {row["doc_id"] for row in load(out)["train"]} == {row["id"] for row in mended}
    assert [path.name for path in (out / "train").glob("*.arrow")] == ["data-00000-of-00001.arrow"]
