"""Data loss that stops a build, and the messages about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.builds.data_loss import Outcome, check_losses, check_set_aside
from mslm_data.builds.stages import find_inputs
from mslm_data.data.accounts import Counts
from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.source.reading.records import WITHDRAWN
from tests import made
from tests.builds.test_accounts import conll, jsonl
from tests.stats.test_overlap import folder_of


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


@pytest.mark.parametrize(("lost", "stops"), [(5, False), (6, True)])
def test_build__stops_above_the_maximum_share_of_documents(
    tmp_path: Path, lost: int, stops: bool
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows(100, same=lost))

    if not stops:
        assert made.built(tmp_path / "out", inputs, pipeline()).splits["train"].aside == lost
        return

    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "out", inputs, pipeline())
    assert "split 'train': expected at most 5% of the documents set aside" in str(caught.value)
    assert "got 6 of 100" in str(caught.value)
    assert "first at train.jsonl:95; name the column of the id" in str(caught.value)
    assert "source.max_loss=1" in str(caught.value)


def test_build__counts_the_mentions_of_set_aside_documents(tmp_path: Path) -> None:
    large = "-DOCSTART-\n" + "kinase\tB-X\n\n" * 300 + "broken\n\n"
    small = "-DOCSTART-\nkinase\tB-X\n\n"
    (tmp_path / "train.tsv").write_text(large + small * 30)

    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline(use="conll"))

    assert "5% of the mentions left out (source.max_loss), got 300 of 330" in str(caught.value)
    assert "  300: in documents set aside: expected a token and a tag, got 1 field" in str(
        caught.value
    )


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


def test_build__groups_reasons_that_differ_in_numbers_only(tmp_path: Path) -> None:
    whole = {"tokens": ["a", "b", "c", "d"], "ner_tags": ["O"] * 4}
    cut = [{**whole, "ner_tags": ["O"] * count} for count in (3, 2, 3, 1)]
    inputs = jsonl(tmp_path / "in", "train.jsonl", whole, *cut, {"tokens": 4})

    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "out", inputs, pipeline())

    _, tags, other, _ = str(caught.value).splitlines()
    assert tags == (
        "  4: expected a tag for each token, got 4 token(s) and 3 tag(s), or other numbers, "
        "first at train.jsonl:2"
    )
    assert other.startswith("  1: expected ")
    assert "other numbers" not in other


def test_build__names_the_option_for_texts_without_annotations(tmp_path: Path) -> None:
    train = tmp_path / "in" / "train"
    train.mkdir(parents=True)
    for name in ("a", "b", "c", "d", "e"):
        (train / f"{name}.txt").write_text("kinase")
    (train / "a.ann").write_text("T1\tX 0 6\tkinase\n")

    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "out", tmp_path / "in", pipeline(use="brat"))

    said = str(caught.value).splitlines()
    assert "got 4 of 5" in said[0]
    assert said[1] == (
        "  4: expected a file of annotations (.ann) beside the text, found none, first at "
        "b.txt:1; --set source.without_annotations=empty if such texts have no mentions"
    )
    assert len(said) == 3  # Four texts, one reason.


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


def test_check_set_aside__ignores_rules_of_the_pipeline() -> None:
    reasons = [*[Reason("asked for", is_rule=True)] * 95, *[Reason("a loss")] * 5]

    check_set_aside(pipeline(), "train", [set_aside(100, *reasons)])


def test_build__checks_each_split(tmp_path: Path) -> None:
    jsonl(tmp_path / "in", "train.jsonl", *rows(1000))
    inputs = jsonl(tmp_path / "in", "test.jsonl", *rows(10, same=5))

    with pytest.raises(BuildError, match=r"split 'test': expected .* got 5 of 10"):
        made.built(tmp_path / "out", inputs, pipeline())


def test_build__stops_above_the_maximum_share_of_mentions(tmp_path: Path) -> None:
    entity = {"start": 0, "end": 5, "label": "X", "text": "kinase"}
    row = {"id": "1", "text": "kinase", "entities": [entity, {**entity, "end": 6}]}
    inputs = jsonl(tmp_path / "in", "train.jsonl", row)

    with pytest.raises(BuildError) as caught:
        made.built(tmp_path / "out", inputs, pipeline(ends="exclusive"))

    assert "mentions left out (source.max_loss), got 1 of 2" in str(caught.value)
    assert "offsets do not match the text; --set source.ends=inclusive" in str(caught.value)
    assert "kinase" not in str(caught.value)


def test_build__accepts_losses_requested_by_the_pipeline(tmp_path: Path) -> None:
    entities = [[0, 6, "X"], [0, 6, "Y"], [0, 3, "X"], [7, 10, "Z"]]
    inputs = jsonl(
        tmp_path / "in", "train.jsonl", {"id": "1", "text": "kinase p53", "entities": entities}
    )

    manifest = made.built(
        tmp_path / "out", inputs, pipeline(annotate={"labels": ["X", "Y"]}, max_loss=0)
    )

    assert manifest.splits["train"].left_out == {
        "inside another": 1,
        "label not wanted": 1,
        "same place": 1,
    }


def test_build__resumes_when_the_loss_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows(10, same=2))
    with pytest.raises(BuildError):
        made.built(tmp_path / "out", inputs, pipeline())

    def again(*_: object, **__: object) -> None:
        raise AssertionError("a unit that was done is done again")

    monkeypatch.setattr("mslm_data.builds.row_sink.build_unit", again)
    manifest = made.built(tmp_path / "out", inputs, pipeline(max_loss=1))

    assert manifest.splits["train"].written == 8
    monkeypatch.undo()
    made.built(tmp_path / "other", inputs, pipeline(max_loss=0.5))
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "other")


def test_build__starts_over_in_the_same_folder_when_the_cause_is_fixed(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows(10, same=2))
    with pytest.raises(BuildError):
        made.built(tmp_path / "out", inputs, pipeline())

    manifest = made.built(tmp_path / "out", inputs, pipeline(id_column=""))

    assert manifest.splits["train"].aside == 0
    made.built(tmp_path / "other", inputs, pipeline(id_column=""))
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "other")


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a rejected and then accepted loss, interrupted before the end."""
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows(10, same=2))
    with pytest.raises(BuildError):
        made.built(tmp_path / "out", inputs, pipeline())

    with monkeypatch.context() as while_joined:
        while_joined.setattr("mslm_data.builds.steps.finish", cut_off)
        with pytest.raises(KeyboardInterrupt):
            made.built(tmp_path / "out", inputs, pipeline(max_loss=1))
    assert list((tmp_path / "out" / "train").glob("data-*.arrow"))
    return tmp_path / "out"


def cut_off(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_build__accepted_folder_rejects_another_pipeline(joined: Path, tmp_path: Path) -> None:
    other = made.pipeline_of(source={"use": "jsonl"}, encode={"max_tokens": 8})

    with pytest.raises(BuildError, match=r"unfinished build of something else.*encode\.max_tokens"):
        made.built(joined, tmp_path / "in", other)


def test_build__restarted_build_has_no_shards_of_the_previous_one(
    joined: Path, tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match=r"source\.max_loss"):
        made.built(joined, tmp_path / "in", pipeline())
    shard = next((joined / "train").glob("data-*.arrow"))
    shard.rename(shard.with_name("data-00000-of-00007.arrow"))  # as of another plan

    mended = [{**row, "id": f"new{number}"} for number, row in enumerate(rows(10))]
    jsonl(tmp_path / "in", "train.jsonl", *mended)
    manifest = made.built(joined, tmp_path / "in", pipeline(annotate={"labels": ["X"]}))

    assert (manifest.splits["train"].written, manifest.splits["train"].aside) == (10, 0)
    assert {row["doc_id"] for row in load(joined)["train"]} == {row["id"] for row in mended}
    assert [path.name for path in (joined / "train").glob("*.arrow")] == [
        "data-00000-of-00001.arrow"
    ]


def test_build__lists_the_existing_labels_when_none_matches(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-Gene p53/B-Protein")

    with pytest.raises(BuildError) as caught:
        made.built(
            tmp_path / "out", inputs, pipeline(use="conll", annotate={"labels": ["Disease"]})
        )

    assert "mentions has a label of 'Disease'" in str(caught.value)
    assert "they have 'Gene', 'Protein'" in str(caught.value)


@pytest.mark.parametrize("max_loss", [0.05, 1])
def test_build__rejects_a_corpus_without_mentions_unless_configured(
    tmp_path: Path, max_loss: float
) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/O")

    with pytest.raises(BuildError, match="expected mentions, found none in the source in 1 "):
        made.built(tmp_path / "out", inputs, pipeline(use="conll", max_loss=max_loss))

    none = pipeline(use="conll", annotate={"use": "none"})
    manifest = made.built(tmp_path / "out", inputs, none)
    assert manifest.labels == ()
    assert [*load(tmp_path / "out")["train"][0]["bio"]] == [0, 0, 0]


def test_build__ignores_mentions_of_the_source_with_none(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-Gene")

    manifest = made.built(
        tmp_path / "out", inputs, pipeline(use="conll", annotate={"use": "none"}, max_loss=0)
    )

    assert (manifest.splits["train"].given_mentions, manifest.splits["train"].left_out) == (0, {})


def test_manifest__omits_the_maximum_loss(tmp_path: Path) -> None:
    made.built(tmp_path / "out", None, made.pipeline_of(source={"max_loss": 0.5}))

    assert "max_loss" not in json.dumps(json.loads((tmp_path / "out/manifest.json").read_text()))


@pytest.mark.parametrize("use", ["jsonl", "hub"])
def test_build__lists_the_existing_columns_when_no_mention_is_found(
    tmp_path: Path, use: str
) -> None:
    row = {"id": "1", "text": "kinase", "gold": "B-X", "Sentence that is a name, with commas.": 1}
    inputs = jsonl(tmp_path / "in", "train.jsonl", row)

    with pytest.raises(BuildError, match="the columns there are id, text, gold, or --set"):
        made.built(tmp_path / "out", inputs, pipeline(use=use))


@pytest.mark.parametrize(
    ("max_loss", "most", "total", "said"), [(0.29, 29, 100, "29%"), (0.001, 1, 1000, "0.1%")]
)
def test_check_set_aside__accepts_exactly_the_maximum(
    max_loss: float, most: int, total: int, said: str
) -> None:
    of_share = pipeline(max_loss=max_loss)
    check_set_aside(of_share, "train", [set_aside(total, *[Reason("a loss")] * most)])

    with pytest.raises(BuildError, match=f"expected at most {said} of the documents"):
        check_set_aside(of_share, "train", [set_aside(total, *[Reason("a loss")] * (most + 1))])
