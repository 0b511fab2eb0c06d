from __future__ import annotations

import json
import pickle
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from tests import made

JOINT = md.strategy("joint")


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> md.Split:
    """Many documents in many shards, with few rows each."""
    out = tmp_path_factory.mktemp("subset") / "many"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=300, encode={"max_tokens": 8}))
    train = md.load(out)["train"]
    assert len(train.shard_rows) > 12
    return train


@pytest.fixture(scope="module")
def doc_ids(train: md.Split) -> list[str]:
    return [train[row]["doc_id"] for row in range(len(train))]


def documents_of(subset: md.Split) -> set[str]:
    return {subset[row]["doc_id"] for row in range(len(subset))}


def keys_of(batches: Any) -> list[int]:
    return [key for batch in batches for key in batch["keys"].tolist()]


def labels_by_key(batches: Any) -> dict[int, list[int]]:
    return {
        key: labels[: sum(present)]
        for batch in batches
        for key, labels, present in zip(
            *(batch[name].tolist() for name in ("keys", "labels", "attention_mask")), strict=True
        )
    }


@pytest.mark.parametrize("documents", [1, 3, 7])
def test_subset__has_all_rows_of_its_documents(
    train: md.Split, doc_ids: list[str], documents: int
) -> None:
    subset = train.subset(documents=documents, seed=2)

    chosen = documents_of(subset)
    assert len(chosen) == subset.documents == documents
    expected = [row for row, doc_id in enumerate(doc_ids) if doc_id in chosen]
    assert subset.numbers.tolist() == expected
    assert subset.examples().keys.tolist() == train.take(expected).keys.tolist()
    assert subset.tokens == int(train.lengths(np.array(expected)).sum())
    assert sum(subset.shard_rows) == len(subset)


def test_subset__is_nested_in_larger_subsets(train: md.Split, doc_ids: list[str]) -> None:
    sizes = range(1, len(set(doc_ids)) + 1)

    nested = [documents_of(train.subset(documents=size, seed=1)) for size in sizes]

    assert all(small < large for small, large in pairwise(nested))
    assert len({frozenset(documents_of(train.subset(documents=5, seed=s))) for s in range(9)}) > 4


def test_subset__does_not_depend_on_the_shards(train: md.Split, tmp_path: Path) -> None:
    made.built(tmp_path / "one", pipeline=made.pipeline_of(encode={"max_tokens": 8}))
    one = md.load(tmp_path / "one")["train"]
    assert len(one.shard_rows) == 1

    subsets = [split.subset(documents=5, seed=3) for split in (train, one)]

    assert subsets[0].examples().keys.tolist() == subsets[1].examples().keys.tolist()


@pytest.fixture(scope="module")
def jnlpba(tmp_path_factory: pytest.TempPathFactory) -> md.Split:
    """A split with five labels."""
    out = tmp_path_factory.mktemp("subset") / "jnlpba"
    train = md.build("blurb/jnlpba", sample=True, out=out)["train"]
    assert len(train.labels) == 5
    return train


def test_subset__has_every_label_if_possible(jnlpba: md.Split) -> None:
    labels = range(len(jnlpba.labels))

    for seed in range(9):
        subset = jnlpba.subset(documents=len(labels), seed=seed)
        assert set(subset.examples().span_labels.values.tolist()) == set(labels)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("shots", [1, 2, 5])
def test_subset__has_some_mentions_of_each_label(jnlpba: md.Split, shots: int, seed: int) -> None:
    def count(rows: md.Split) -> Any:
        return np.bincount(rows.examples().span_labels.values, minlength=len(jnlpba.labels))

    subset = jnlpba.subset(shots=shots, seed=seed)
    smaller = jnlpba.subset(shots=max(shots - 1, 1), seed=seed)

    assert np.all(count(subset) >= np.minimum(count(jnlpba), shots))
    assert count(subset).sum() < count(jnlpba).sum()
    assert documents_of(smaller) <= documents_of(subset)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4},
        {"batch_size": 4, "shuffle": False},
        {"batch_size": 4, "shuffle": "shards", "open_shards": 3},
        {"batch_tokens": 40, "bucketed": True},
    ],
)
def test_subset__works_in_place_of_a_split(train: md.Split, options: dict[str, Any]) -> None:
    subset = train.subset(documents=6)
    of_all = labels_by_key(md.Batches(train, JOINT, seed=4, epoch=1, batch_size=4))

    batches = md.Batches(subset, JOINT, seed=4, epoch=1, **options)
    of_some = labels_by_key(batches)

    assert sorted(of_some) == sorted(subset.examples().keys.tolist())
    assert of_some == {key: of_all[key] for key in of_some}

    # A mid-epoch state resumes on the same rows, and is rejected on other rows.
    whole = keys_of(md.Batches(subset, JOINT, **options))
    before = md.Batches(subset, JOINT, **options)
    begun = keys_of(islice(before, 2))
    state = json.loads(json.dumps(before.state_dict()))
    again = md.Batches(pickle.loads(pickle.dumps(subset)), JOINT, **options)  # noqa: S301 - our own
    again.load_state_dict(state)
    assert begun + keys_of(again) == whole
    with pytest.raises(ValueError, match="state: expected"):
        md.Batches(train.subset(documents=6, seed=1), JOINT, **options).load_state_dict(state)


def test_subset__gives_rows_like_a_split(train: md.Split) -> None:
    subset = train.subset(documents=4)
    keys = subset.examples().keys.tolist()

    assert [key for chunk in subset.chunks(3) for key in chunk.keys.tolist()] == keys
    assert subset.take([2, 0]).keys.tolist() == [keys[2], keys[0]]
    assert subset[-1]["key"] == keys[-1]
    assert md.show(subset, "joint", rows=[0], show_text=True).rows == (0,)
    for wrong in ([-1], [len(subset)]):
        with pytest.raises(IndexError, match=f"rows: expected numbers from 0 to {len(subset) - 1}"):
            subset.take(wrong)
    with pytest.raises(IndexError, match="rows: expected 0 <= start <= stop"):
        subset.examples(0, len(subset) + 1)


@pytest.mark.parametrize(
    ("share", "documents"),
    [(0.07, 7), (0.29, 29), (0.071, 8), (2 / 3, 67), (66 / 100, 66), (1e-9, 1), (1, 100)],
)
def test_subset__rounds_the_exact_share_up(share: float, documents: int, tmp_path: Path) -> None:
    rows = [{"id": str(number), "text": "kinase"} for number in range(100)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pipeline = made.pipeline_of(
        source={"use": "jsonl", "duplicates": "keep"}, annotate={"use": "none"}, segment="clinical"
    )
    made.built(tmp_path / "out", tmp_path / "train.jsonl", pipeline)
    train = md.load(tmp_path / "out")["train"]

    assert train.subset(share=share).documents == documents
    with pytest.raises(ValueError, match="shots: expected mentions in split 'train', got none"):
        train.subset(shots=1)


SHARE = r"share: expected a number in \(0, 1\], got "
DOCUMENTS = (
    r"documents: expected an integer from 1 to \d+, the number of documents in split 'train'"
)
ONE_SIZE = "expected one of documents, share and shots, got "


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(
            ({"share": wrong}, ValueError, SHARE)
            for wrong in (0, -0.1, 1.1, float("nan"), True, "0.5", [0.5])
        ),
        *(({"documents": wrong}, ValueError, DOCUMENTS) for wrong in (0, -1, 10_000, 2.0, True)),
        *(
            ({"shots": wrong}, ValueError, "shots: expected an integer of at least 1")
            for wrong in (0, 1.0, True)
        ),
        ({"documents": 1, "seed": -1}, ValueError, "seed: expected an integer in"),
        ({}, TypeError, f"{ONE_SIZE}none$"),
        ({"documents": 2, "shots": 1}, TypeError, f"{ONE_SIZE}documents and shots$"),
    ],
)
def test_subset__rejects_wrong_options(
    train: md.Split, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        train.subset(**options)


def test_subset__rejects_a_split_without_documents(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"id": "1", "text": "kinase"}))
    (tmp_path / "test.jsonl").write_text("not JSON")
    pipeline = made.pipeline_of(
        source={"use": "jsonl"}, annotate={"use": "none"}, segment="clinical"
    )
    made.built(tmp_path / "out", tmp_path, pipeline)
    test = md.load(tmp_path / "out")["test"]

    with pytest.raises(ValueError, match="expected documents in split 'test', got none"):
        test.subset(share=0.5)


# Term shares --------------------------------------------------------------------------------------


def count_by_hand(split: md.Split, label: str | None = None) -> dict[str, float]:
    """Return the term share of each document, counted by its tags."""
    in_mentions: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for row in split:
        tags = [split.tags[tag] for tag in row["bio"]]
        counted = [tag != "O" and label in (None, tag[2:]) for tag in tags]
        in_mentions[row["doc_id"]] += sum(counted)
        tokens[row["doc_id"]] += sum(word >= 0 for word in row["word_ids"])
    return {doc_id: in_mentions[doc_id] / tokens[doc_id] for doc_id in tokens}


def test_term_shares__are_counted_over_all_rows_of_a_document(
    train: md.Split, doc_ids: list[str]
) -> None:
    by_hand = count_by_hand(train)
    assert len(by_hand) < len(train)

    assert train.term_shares().tolist() == [by_hand[doc_id] for doc_id in doc_ids]
    half = train.select(range(0, len(train), 2))  # a view counts its own rows
    by_hand = count_by_hand(half)
    assert half.term_shares().tolist() == [by_hand[doc_id] for doc_id in doc_ids[::2]]


@pytest.mark.long
@pytest.mark.parametrize("name", ["BC5CDR-disease-IOB", "NCBI-disease-IOB", "JNLPBA", "BC2GM-IOB"])
def test_term_shares__of_real_corpora_equal_a_count_by_hand(
    name: str, real: Path, tmp_path: Path
) -> None:
    options = {"min_term_share": 0.1}
    made.built(tmp_path / "whole", real / "blurb" / name)
    made.built(tmp_path / "dense", real / "blurb" / name, made.pipeline_of(annotate=options))
    whole, dense = md.load(tmp_path / "whole"), md.load(tmp_path / "dense")

    for split_name, split in whole.items():
        by_hand = count_by_hand(split)
        ids = [row["doc_id"] for row in split]
        assert split.term_shares().tolist() == [by_hand[doc_id] for doc_id in ids]
        kept = {doc_id for doc_id, share in by_hand.items() if share >= 0.1}
        if split_name in ("validation", "test"):
            kept = {*ids}
        assert {row["doc_id"] for row in dense[split_name]} == kept
        for label in split.labels:
            by_hand = count_by_hand(split, label)
            assert split.term_shares(label).tolist() == [by_hand[doc_id] for doc_id in ids]


def test_term_shares__of_an_unknown_label(train: md.Split) -> None:
    with pytest.raises(ValueError, match="label: no 'disease'; did you mean 'Disease'"):
        train.term_shares("disease")
