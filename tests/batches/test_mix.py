"""Mixes: the rows of an epoch, their labels and keys, and resuming."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.batches.mix import Mix
from mslm_data.builds.subset import write_subset
from mslm_data.shard.split import Split
from mslm_data.testing import assert_resumes
from tests import made
from tests.batches.test_flat import alone, unpacked
from tests.reference import mix as reference

JOINT = md.strategy("joint", elm=0.5, blm=0.2)
SHAPES: list[dict[str, Any]] = [
    {"batch_size": 5},
    {"batch_size": 5, "bucketed": False},
    {"batch_size": 5, "shuffle": False},
    {"batch_size": 5, "shuffle": "shards", "open_shards": 2},
    {"batch_tokens": 90},
    {"batch_tokens": 90, "flat": True},
]
CORPORA = ("ncbi-disease", "bc5cdr-chem", "bc5cdr-disease")

SIZE = 300


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three corpora of rows of up to 24 tokens, two of them with the label Disease, in several shards each."""
    base = tmp_path_factory.mktemp("folders")
    for name in CORPORA:
        pipeline = made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 24}, name=name)
        made.built(base / name, made.SAMPLE / name, pipeline)

    return {name: base / name for name in CORPORA}


@pytest.fixture(scope="module")
def mixed(folders: dict[str, Path]) -> Mix:
    """Two epochs take the first corpus three times; one epoch takes a part of the third."""
    weights = dict(zip(folders.values(), (0.5, 0.3, 0.2), strict=True))
    made_of = md.mix(weights, by="rows", epoch_size=SIZE)
    first, _, third = made_of.splits

    assert [part.rows for part in made_of.splits] == [150, 90, 60]
    assert len(first.source) < 100
    assert len(third.source) > 60
    return made_of


def keys_of(batches: Any) -> list[int]:
    return [key for batch in batches for key in batch["keys"].tolist()]


def row_keys(mix: Mix) -> list[tuple[int, int]]:
    """Return the split of each key of the folders' rows."""
    return [
        (number, int(key))
        for number, part in enumerate(mix.splits)
        for key in part.source.examples().keys
    ]


# Rows ----------------------------------------------------------------------------------------------------------------


def test_examples__rows_are_those_of_the_folders(mixed: Mix) -> None:
    """Rows keep ids, mentions and names of labels; only rows of later rounds have other keys."""
    rows = mixed.examples(seed=1, epoch=1)

    expected = reference.epoch_rows(
        [len(part.source) for part in mixed.splits], [part.rows for part in mixed.splits], 1, 1
    )
    assert {number for _, number, _ in expected} == {0, 1, 2}
    for place, (split, number, row) in enumerate(expected):
        part = mixed.splits[split].source
        own = part[row]
        assert rows.keys[place] == reference.key(own["key"], number)
        for name in ("input_ids", "word_ids", "span_starts", "span_ends"):
            assert getattr(rows, name)[place].tolist() == own[name]
        for name, names, own_names in (
            ("span_labels", mixed.labels, part.manifest.labels),
            ("bio", mixed.tags, part.manifest.tags),
        ):
            found = [names[label] for label in getattr(rows, name)[place]]
            assert found == [own_names[label] for label in own[name]]


def test_take__numbers_are_those_of_the_splits_one_after_the_other(mixed: Mix) -> None:
    keys = [key for _, key in row_keys(mixed)]
    numbers = [len(keys) - 1, 0, 5]

    assert mixed.stored == len(keys)
    assert mixed.take(numbers).keys.tolist() == [keys[number] for number in numbers]


def test_mix__unites_labels_in_the_order_of_the_folders(folders: dict[str, Path]) -> None:
    forth = md.mix(list(folders.values()))
    back = md.mix(list(folders.values())[::-1])

    assert forth.labels == ("Disease", "Chemical")
    assert forth.tags == ("O", "B-Disease", "I-Disease", "B-Chemical", "I-Chemical")
    assert back.labels == ("Disease", "Chemical")
    assert md.mix([folders["bc5cdr-chem"], folders["ncbi-disease"]]).labels == (
        "Chemical",
        "Disease",
    )


def test_take__rejects_numbers_out_of_range(mixed: Mix) -> None:
    for numbers in ([-1], [0, mixed.stored]):
        with pytest.raises(IndexError, match=rf"from 0 to {mixed.stored - 1}, got "):
            mixed.take(np.array(numbers))
    assert len(mixed.take(np.array([], np.int64))) == 0


def test_take__reads_numbers_as_a_split_does(mixed: Mix) -> None:
    numbers = [3, 0]

    assert mixed.take(numbers).keys.tolist() == mixed.take(np.array(numbers)).keys.tolist()
    with pytest.raises(TypeError, match="whole numbers, got bool"):
        mixed.take(np.ones(3, np.bool_))


@pytest.mark.parametrize(
    ("start", "stop"), [(0, SIZE + 1), (SIZE, SIZE + 2), (-1, 3), (5, 4), (SIZE + 1, None)]
)
def test_examples__rejects_ranges_outside_the_epoch(
    mixed: Mix, start: int, stop: int | None
) -> None:
    with pytest.raises(IndexError, match=f"start <= stop <= {SIZE}"):
        mixed.examples(start, stop)


def test_lengths__are_those_of_the_rows(mixed: Mix) -> None:
    numbers = np.arange(mixed.stored)[::-3]

    assert mixed.lengths(numbers).tolist() == mixed.take(numbers).input_ids.lengths.tolist()


@pytest.mark.parametrize("epoch", [0, 1, 2**50])
def test_examples__are_the_rows_of_a_shuffled_epoch(mixed: Mix, epoch: int) -> None:
    expected = sorted(keys_of(md.Batches(mixed, JOINT, seed=7, epoch=epoch)))

    rows = mixed.examples(seed=7, epoch=epoch)
    chunks = [part.keys.tolist() for part in mixed.chunks(64, seed=7, epoch=epoch)]

    assert sorted(rows.keys.tolist()) == expected
    assert [*itertools.chain(*chunks)] == rows.keys.tolist()
    assert [len(chunk) for chunk in chunks] == [64, 64, 64, 64, 44]
    assert mixed.examples(5, 9, seed=7, epoch=epoch).keys.tolist() == rows.keys[5:9].tolist()


def test_examples__count_what_training_masks(mixed: Mix) -> None:
    """The weights' counts are those of an epoch of the mix."""
    masked = [0, 0]
    for batch in md.Batches(mixed, JOINT, seed=3, epoch=1):
        masked[0] += int((batch["mask_kinds"] == 2).sum())
        masked[1] += int((batch["mask_kinds"] == 1).sum())

    plan = JOINT.plan(mixed.examples(seed=3, epoch=1), seed=3, epoch=1)

    assert plan.counts() == tuple(masked)


def documents(folder: Path, rows: list[tuple[str, str | None]], name: str, **options: Any) -> Path:
    """Build a folder with document labels."""
    folder.mkdir()
    lines = [
        json.dumps({"id": str(number), "text": text} | ({} if label is None else {"label": label}))
        for number, (text, label) in enumerate(rows)
    ]
    (folder / "train.jsonl").write_text("\n".join(lines))
    source: dict[str, object] = {"use": "jsonl"}
    if rows[0][1] is not None:
        source["doc_label"] = "label"
    pipeline = made.pipeline_of(source=source, annotate={"use": "none"}, name=name, **options)
    made.built(folder / "out", folder, pipeline)
    return folder / "out"


def test_take__unites_labels_of_documents(tmp_path: Path) -> None:
    yes = documents(tmp_path / "a", [("One rash.", "yes"), ("Two rashes.", "no")], "a")
    none = documents(tmp_path / "b", [("Some fever.", None)], "b")
    maybe = documents(tmp_path / "c", [("No cough.", "maybe"), ("A cough.", "no")], "c")

    mix = md.mix([yes, none, maybe])
    given = mix.examples().doc_labels
    (batch,) = md.Batches(mix, "bert", shuffle=False)

    assert mix.doc_labels == ("no", "yes", "maybe")
    assert given is not None
    assert Counter(given.tolist()) == {0: 2, 1: 1, 2: 1, -1: 1}
    assert sorted(batch["doc_labels"].tolist()) == [-1, 0, 0, 1, 2]
    assert md.mix([none]).examples().doc_labels is None


def test_take__rows_have_sentences_where_a_folder_joins_some(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """Rows of a folder without joined rows have one sentence, which begins after `[CLS]`."""
    notes: list[tuple[str, str | None]] = [
        ("No rash today. Some cough. No fever at all.", None)
    ] * 2
    options = {"segment": "clinical", "encode": {"join": "document"}}
    joined = md.load(documents(tmp_path / "joined", notes, "joined", **options))["train"]
    single = md.load(folders["ncbi-disease"])["train"]

    rows = md.mix([single, joined]).examples()

    assert rows.sentence_starts is not None
    starts = dict(zip(rows.keys.tolist(), rows.sentence_starts.tolist(), strict=True))
    assert all(starts[key] == [1] for key in single.examples().keys.tolist())
    for row in (joined[0], joined[1]):
        assert starts[row["key"]] == row["sentence_starts"]
        assert len(row["sentence_starts"]) == 3


def test_take__rows_have_characters_where_all_folders_have_them(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("bc2gm", "bc5cdr-chem"):
        pipeline = made.pipeline_of(encode={"keep_text": True}, name=name)
        made.built(tmp_path / name, made.SAMPLE / name, pipeline)
    first, second = (md.load(tmp_path / name)["train"] for name in ("bc2gm", "bc5cdr-chem"))

    with_text = md.mix([first, second]).examples(0, len(first))
    without = md.mix([first, folders["ncbi-disease"]]).examples(0, len(first))

    starts = dict(zip(with_text.keys.tolist(), with_text.token_starts.tolist(), strict=True))  # type: ignore[union-attr]
    assert starts == {first[row]["key"]: first[row]["token_starts"] for row in range(len(first))}
    assert without.token_starts is None


# Batches -------------------------------------------------------------------------------------------------------------


def test_batches__mask_a_row_as_it_is_alone(mixed: Mix) -> None:
    """Rows of the first round have the masks of the folder, repeated rows have others."""
    keys = row_keys(mixed)
    by_key: dict[int, Any] = {}
    for part in mixed.splits:
        by_key |= alone(part.source, seed=5, epoch=1)
    ids: dict[tuple[int, ...], list[Any]] = {}

    rows = [
        row
        for batch in md.Batches(mixed, JOINT, batch_tokens=90, flat=True, seed=5, epoch=1)
        for row in unpacked(batch)
    ]

    known = {key for _, key in keys}
    assert len(rows) == SIZE
    for key, row in rows:
        content = tuple(zip(row["labels"], row["mask_kinds"], strict=True))
        true = tuple(
            seen if label == -100 else label
            for seen, label in zip(row["input_ids"], row["labels"], strict=True)
        )
        ids.setdefault(true, []).append(content)
        if key in known:
            for name in ("input_ids", "labels", "mask_kinds"):
                assert row[name] == by_key[key][name]
    again = [contents for contents in ids.values() if len(contents) > 1]
    assert sum(key not in known for key, _ in rows) > 50
    assert len(again) > 20
    assert sum(len(set(contents)) > 1 for contents in again) > len(again) / 2


@pytest.mark.parametrize("options", SHAPES)
def test_batches__hold_the_rows_of_the_epoch(mixed: Mix, options: dict[str, Any]) -> None:
    splits = {
        reference.key(key, number): split for split, key in row_keys(mixed) for number in range(4)
    }
    batches = md.Batches(mixed, JOINT, seed=2, epoch=4, **options)

    keys = keys_of(batches)

    found = Counter(splits[key] for key in keys)
    assert [found[number] for number in range(3)] == [part.rows for part in mixed.splits]
    assert len(list(batches)) == len(batches)
    assert len(set(keys)) == len(keys) == SIZE


@pytest.mark.parametrize("options", SHAPES)
def test_batches__resume_on_any_ranks(mixed: Mix, options: dict[str, Any]) -> None:
    """After three steps of two ranks, three ranks or one rank yield the remaining rows."""
    whole_epoch = [batch["keys"].tolist() for batch in md.Batches(mixed, JOINT, epoch=2, **options)]
    batches = md.Batches(mixed, JOINT, epoch=2, **options)
    first = [batch["keys"].tolist() for batch in itertools.islice(batches, 6)]
    state = json.loads(json.dumps(batches.state_dict()))

    resumed = md.Batches(mixed, JOINT, **options)
    resumed.load_state_dict(state)
    rest = [batch["keys"].tolist() for batch in resumed]
    shared: list[int] = []
    for rank in range(3):
        of_rank = md.Batches(mixed, JOINT, rank=rank, world=3, **options)
        of_rank.load_state_dict(state)
        shared += keys_of(of_rank)

    assert first + rest == whole_epoch
    assert sorted(shared) == sorted(itertools.chain(*rest))


def test_state__of_another_mix_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    first, second, third = folders.values()
    state = md.Batches(md.mix({first: 0.5, second: 0.5}), JOINT).state_dict()

    for other in (
        md.mix({first: 0.6, second: 0.4}),
        md.mix({first: 0.5, third: 0.5}),
        md.mix({first: 0.5, second: 0.3, third: 0.2}),
        md.load(first)["train"],
    ):
        with pytest.raises(ValueError, match=r"state: expected "):
            md.Batches(other, JOINT).load_state_dict(state)


def test_state__resumes_where_a_folder_has_moved(folders: dict[str, Path], tmp_path: Path) -> None:
    first, second, _ = folders.values()
    (tmp_path / "moved").symlink_to(second)
    batches = md.Batches(md.mix([first, second]), JOINT, batch_size=4)
    expected = keys_of(batches)
    batches.epoch = 0
    given = keys_of(itertools.islice(batches, 3))

    moved = md.Batches(md.mix([first, tmp_path / "moved"]), JOINT, batch_size=4)
    moved.load_state_dict(batches.state_dict())

    assert given + keys_of(moved) == expected


def test_mix__travels_to_other_processes(mixed: Mix) -> None:
    assert keys_of(md.Batches(pickle.loads(pickle.dumps(mixed)), JOINT)) == keys_of(  # noqa: S301
        md.Batches(mixed, JOINT)
    )


def test_mix__shows_what_an_epoch_takes(mixed: Mix) -> None:
    name = mixed.splits[0].name

    assert repr(mixed).startswith(f"Mix({name} 50.0%, ")
    assert repr(mixed).endswith(f"; 300 rows, about {mixed.tokens:,} tokens an epoch)")
    table = mixed._repr_html_()
    assert (
        f'<tr><th scope="row">{name}</th><td class="n">50.0%</td>'
        f'<td class="n">{len(mixed.splits[0].source)}</td><td class="n">150</td>' in table
    )
    assert '<td class="n">1.5' in table


def test_mix__escapes_what_it_shows(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "<b>").symlink_to(folders["ncbi-disease"])

    assert "<b>" not in md.mix([tmp_path / "<b>"])._repr_html_()


# Subsets -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few(folders: dict[str, Path]) -> Split:
    return md.load(folders["ncbi-disease"])["train"].subset(documents=5, seed=1)


@pytest.mark.parametrize("options", [*SHAPES[:3], *SHAPES[4:]], ids=str)
def test_mix__of_a_subset_equals_the_mix_of_its_folder(
    folders: dict[str, Path], few: Split, tmp_path: Path, options: dict[str, Any]
) -> None:
    write_subset(
        md.load(folders["ncbi-disease"]), few, {"seed": 1, "documents": 5}, tmp_path / "few"
    )
    other = folders["bc5cdr-chem"]

    viewed = md.mix({few: 0.3, other: 0.7}, epoch_size=2_000)
    written = md.mix({tmp_path / "few": 0.3, other: 0.7}, epoch_size=2_000)

    assert viewed.tokens == written.tokens
    assert viewed.splits[0].times == written.splits[0].times > 1
    for epoch in (0, 1):
        a, b = (
            [
                {name: column.tolist() for name, column in batch.items()}
                for batch in md.Batches(mix, JOINT, seed=3, epoch=epoch, **options)
            ]
            for mix in (viewed, written)
        )
        assert a == b


def test_mix__of_a_subset_opens_shards_in_turn_and_resumes(
    folders: dict[str, Path], few: Split
) -> None:
    mix = md.mix([few, folders["bc5cdr-chem"]], epoch_size=500)

    assert_resumes(
        lambda: md.Batches(mix, JOINT, batch_size=5, shuffle="shards", open_shards=2), epochs=1
    )


def test_mix__of_another_subset_has_other_states(folders: dict[str, Path], few: Split) -> None:
    other = md.load(folders["ncbi-disease"])["train"].subset(documents=5, seed=2)
    one, two = (
        md.Batches(md.mix({part: 0.5, folders["bc5cdr-chem"]: 0.5}, epoch_size=500), JOINT)
        for part in (few, other)
    )

    state = one.state_dict()
    state["options"]["rows"] = two.state_dict()["options"]["rows"]
    with pytest.raises(ValueError, match="state: "):
        two.load_state_dict(state)


def test_repr__tells_how_many_documents_a_subset_has(folders: dict[str, Path], few: Split) -> None:
    assert "ncbi-disease/train (5 documents)" in repr(md.mix([few, folders["bc5cdr-chem"]]))


def test_mix__refuses_a_split_beside_its_subset(few: Split) -> None:
    with pytest.raises(
        ValueError, match=r"\(5 documents\) is of the same split as .*ncbi-disease/train; pass"
    ):
        md.mix([md.load(few.folder)["train"], few])


def test_mix__takes_disjoint_parts_of_a_split(folders: dict[str, Path]) -> None:
    train = md.load(folders["ncbi-disease"])["train"]
    is_dense = train.term_shares() >= 0.05
    dense, sparse = (train.select(np.flatnonzero(rows)) for rows in (is_dense, ~is_dense))

    mix = md.mix({dense: 3, sparse: 1})

    assert [part.source for part in mix.splits] == [dense, sparse]
    keys = [key for batch in md.Batches(mix, JOINT, batch_size=8) for key in batch["keys"]]
    assert len({*keys}) == len(keys)
    with pytest.raises(ValueError, match=r"is of the same split as .*; pass one of them"):
        md.mix([dense, train.select(np.flatnonzero(is_dense)[:1])])


def test_state__of_a_mix_of_one_split_is_refused_by_another(folders: dict[str, Path]) -> None:
    first, second, _ = folders.values()
    one, two = (
        md.Batches(md.mix([folder], epoch_size=500, by="rows"), JOINT) for folder in (first, second)
    )
    state = one.state_dict()
    state["options"]["tokens"] = two.state_dict()["options"]["tokens"]

    with pytest.raises(ValueError, match="state: expected mix = "):
        two.load_state_dict(state)
