from __future__ import annotations

import itertools
import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mslm_data.batches.collate import Batch
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError, VocabularyError
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.loading import BATCHES_AT_ONCE, Batches, load
from mslm_data.mask import strategy
from mslm_data.shard.split import Split
from tests import made
from tests.reference import batch as reference

JOINT = strategy("joint", elm=0.5, blm=0.2)
ORDERS: list[dict[str, Any]] = [
    {"shuffle": shuffle, "bucketed": bucketed}
    for shuffle in (True, False)
    for bucketed in (True, False)
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows in one shard and in many; 8 tokens a row make several windows of batches of one or two."""
    base = tmp_path_factory.mktemp("folders")
    for name, unit_bytes in (("one", 1 << 20), ("many", 1500)):
        made.built(
            base / name, pipeline=made.pipeline_of(unit_bytes=unit_bytes, encode={"max_tokens": 8})
        )
    return {name: base / name for name in ("one", "many")}


@pytest.fixture(scope="module")
def train(folders: dict[str, Path]) -> Split:
    return load(folders["many"])["train"]


@pytest.fixture(scope="module")
def rows(train: Split) -> list[dict[str, Any]]:
    return [train[i] for i in range(len(train))]


def lists(batch: Batch) -> dict[str, Any]:
    return {name: array.tolist() for name, array in batch.items()}


def all_lists(batches: Batches) -> list[dict[str, Any]]:
    return [lists(batch) for batch in batches]


def masks_of(batches: Batches) -> dict[int, tuple[list[int], list[int]]]:
    """Return each row's kinds and hidden ids, without padding, by its key."""
    found = {}
    for batch in batches:
        for i, size in enumerate(batch["attention_mask"].sum(axis=1)):
            found[int(batch["keys"][i])] = (
                batch["mask_kinds"][i, :size].tolist(),
                batch["input_ids"][i, :size].tolist(),
            )
    return found


def keys_of(batches: Batches) -> list[int]:
    return [key for batch in batches for key in batch["keys"].tolist()]


# load ----------------------------------------------------------------------------------------------------------------


def test_load__is_a_function_of_the_package_whatever_was_imported_before() -> None:
    code = "import mslm_data.loading, mslm_data as md, mslm_data.stats; print(callable(md.load), callable(md.strategy))"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "True True\n"


def test_load__is_a_mapping_of_splits(folders: dict[str, Path]) -> None:
    shards = load(str(folders["one"]))

    assert shards.splits == tuple(shards) == ("train", "validation", "test")
    assert (len(shards), shards.labels, shards.tags) == (
        3,
        ("Disease",),
        ("O", "B-Disease", "I-Disease"),
    )
    assert shards.manifest.splits["test"].sequences == len(shards["test"])


def test_load__says_which_split_was_meant(folders: dict[str, Path]) -> None:
    with pytest.raises(ShardError, match=r"no split 'trian'; did you mean 'train'\?"):
        load(folders["one"])["trian"]


def test_load__finds_out_whether_a_split_is_there(folders: dict[str, Path]) -> None:
    shards = load(folders["one"])

    assert "train" in shards


# Batches -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("batch_size", [1, 2, 32, 1000])
def test_batches__equal_their_twin(
    train: Split, rows: list[dict[str, Any]], options: dict[str, Any], batch_size: int
) -> None:
    assert len(rows) > 2 * BATCHES_AT_ONCE
    options = options | {"batch_size": batch_size, "seed": 5, "epoch": 2, "multiple_of": 4}

    batches = all_lists(Batches(train, JOINT, **options))

    assert batches == list(reference.batches(rows, train.token_ids, JOINT, **options))


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_batches__mask_a_row_the_same_in_any_batch(
    folders: dict[str, Path], train: Split, options: dict[str, Any], batch_size: int
) -> None:
    expected = masks_of(Batches(train, JOINT, batch_size=len(train), shuffle=False, seed=1))

    for name in folders:
        split = load(folders[name])["train"]
        assert masks_of(Batches(split, JOINT, batch_size=batch_size, seed=1, **options)) == expected


@pytest.mark.parametrize("options", ORDERS)
def test_batches__have_each_row_once(
    train: Split, rows: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    keys = keys_of(Batches(train, JOINT, batch_size=2, **options))

    assert sorted(keys) == sorted(row["key"] for row in rows)


def test_batches__differ_between_epochs_and_seeds(train: Split) -> None:
    orders = [keys_of(Batches(train, JOINT, seed=s, epoch=e)) for s, e in ((0, 0), (0, 1), (1, 0))]
    masks = [masks_of(Batches(train, JOINT, seed=s, epoch=e)) for s, e in ((0, 0), (0, 1), (1, 0))]

    assert all(a != b for a, b in itertools.combinations(orders, 2))
    assert all(a != b for a, b in itertools.combinations(masks, 2))


def test_batches__go_on_to_the_epoch_they_are_set_to(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=7)
    first = all_lists(batches)

    batches.epoch = 1

    assert all_lists(batches) == all_lists(Batches(train, JOINT, batch_size=7, epoch=1)) != first


def test_batches__begin_again_after_the_end(train: Split) -> None:
    batches = Batches(train, JOINT)

    assert all_lists(batches) == all_lists(batches) != []


def test_batches__bring_rows_of_like_length_together(train: Split) -> None:
    def padding(bucketed: bool) -> int:
        batches = Batches(train, JOINT, batch_size=4, bucketed=bucketed)
        return sum(int((batch["attention_mask"] == 0).sum()) for batch in batches)

    assert padding(True) < padding(False) / 2


def test_batches__begin_at_the_first_after_a_loop_was_left(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=8)
    for _ in batches:
        break
    batches.epoch = 1

    assert all_lists(batches) == all_lists(Batches(train, JOINT, batch_size=8, epoch=1))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7, 32, 1000])
def test_batches__drop_the_last_that_is_not_full(
    train: Split, shuffle: bool, batch_size: int
) -> None:
    every = all_lists(Batches(train, JOINT, batch_size=batch_size, shuffle=shuffle))

    full = Batches(train, JOINT, batch_size=batch_size, shuffle=shuffle, drop_last=True)

    assert all_lists(full) == every[: len(train) // batch_size]
    assert len(full) == len(train) // batch_size


@pytest.mark.parametrize("batch_size", [5, 7, 9])
def test_batches__have_only_full_batches_of_like_length_when_the_last_is_dropped(
    train: Split, batch_size: int
) -> None:
    assert len(train) % batch_size
    sizes = {
        len(batch["keys"])
        for epoch in range(12)
        for batch in Batches(
            train, JOINT, batch_size=batch_size, bucketed=True, drop_last=True, epoch=epoch
        )
    }

    assert sizes == {batch_size}


@pytest.mark.parametrize("batch_size", [1, 3, 32, 63, 1000])
@pytest.mark.parametrize("drop_last", [True, False])
def test_len__is_the_number_of_batches(train: Split, batch_size: int, drop_last: bool) -> None:
    batches = Batches(train, JOINT, batch_size=batch_size, drop_last=drop_last)

    assert len(batches) == len(list(batches))


def test_batches__of_no_rows_are_none(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("kinase\tO\n")
    (tmp_path / "test.tsv").write_text("\u200b\tO\n")
    made.built(tmp_path / "out", tmp_path)
    empty = load(tmp_path / "out")["test"]

    for options in ORDERS:
        batches = Batches(empty, JOINT, **options)
        assert (len(batches), list(batches), list(batches)) == (0, [], [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"multiple_of": 0}, "multiple_of: expected at least 1, got 0"),
        ({"seed": -1}, r"seed: expected an integer in \[0, 2\*\*63\), got -1"),
        ({"epoch": 2**63}, r"epoch: expected an integer in \[0, 2\*\*63\)"),
    ],
)
def test_batches__refuse_wrong_options(train: Split, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batches(train, JOINT, **options)


# Resuming ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("after", [0, 1, 30, BATCHES_AT_ONCE, BATCHES_AT_ONCE + 1])
def test_state_dict__goes_on_with_exactly_the_rest(
    folders: dict[str, Path], train: Split, options: dict[str, Any], after: int
) -> None:
    options = options | {"batch_size": 2, "seed": 3}
    batches = Batches(train, JOINT, epoch=4, **options)
    before = [lists(batch) for batch in itertools.islice(batches, after)]

    state = json.loads(json.dumps(batches.state_dict()))
    again = Batches(load(folders["one"])["train"], JOINT, **options)
    again.load_state_dict(state)
    rest = all_lists(again)

    assert before + rest == all_lists(Batches(train, JOINT, epoch=4, **options))
    assert again.epoch == 4


def test_state_dict__at_the_end_leaves_nothing_of_the_epoch(train: Split) -> None:
    batches = Batches(train, JOINT)
    every = all_lists(batches)

    again = Batches(train, JOINT)
    again.load_state_dict(batches.state_dict())

    assert all_lists(again) == []
    assert all_lists(again) == every


def test_state_dict__does_not_change_what_comes(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=2)
    seen = []
    for batch in batches:
        batches.state_dict()
        seen.append(lists(batch))

    assert seen == all_lists(Batches(train, JOINT, batch_size=2))


@pytest.mark.parametrize(
    "other",
    [{"batch_size": 3}, {"seed": 9}, {"shuffle": False}, {"bucketed": True}, {"drop_last": True}],
)
def test_load_state_dict__refuses_a_state_of_other_options(
    train: Split, other: dict[str, Any]
) -> None:
    state = Batches(train, JOINT, batch_size=2).state_dict()
    ((name, value),) = other.items()
    batches = Batches(train, JOINT, **({"batch_size": 2} | other))

    with pytest.raises(
        ValueError, match=rf"state: expected {name} = {value}, got .*; make the same batches first"
    ):
        batches.load_state_dict(state)


def test_load_state_dict__refuses_a_state_of_other_rows(
    folders: dict[str, Path], train: Split
) -> None:
    state = Batches(load(folders["one"])["test"], JOINT).state_dict()

    with pytest.raises(ValueError, match=r"state: expected rows = \d+, got \d+"):
        Batches(train, JOINT).load_state_dict(state)


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_load_state_dict__refuses_another_version(train: Split, version: object) -> None:
    batches = Batches(train, JOINT)

    with pytest.raises(ValueError, match="state: expected version 1, got"):
        batches.load_state_dict(batches.state_dict() | {"version": version})


@pytest.mark.parametrize(
    "wrong", [{"next": -1}, {"next": 10**9}, {"epoch": -1}, {"next": "x"}, {"next": None}]
)
def test_load_state_dict__refuses_places_that_are_not_there(
    train: Split, wrong: dict[str, Any]
) -> None:
    batches = Batches(train, JOINT)

    with pytest.raises(ValueError, match=r"state: (next: |epoch: )?expected"):
        batches.load_state_dict(batches.state_dict() | wrong)


def test_batches__travel_to_another_process(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=16)

    again = pickle.loads(pickle.dumps(batches))  # noqa: S301 - our own

    assert all_lists(again) == all_lists(batches)


def test_batches__hide_what_the_plan_of_the_whole_split_hides(train: Split) -> None:
    plan = JOINT.plan(train.examples(), seed=8, epoch=1)

    kinds = [batch["mask_kinds"] for batch in Batches(train, JOINT, seed=8, epoch=1, bucketed=True)]

    counted = sum(np.bincount(of.ravel(), minlength=3) for of in kinds)
    assert (int(counted[2]), int(counted[1])) == plan.counts()


def test_batches__tell_a_rate_the_step(train: Split) -> None:
    rate = {"shape": "linear", "start": 1.0, "stop": 0.0, "over": 100, "per": "step"}
    batches = Batches(train, strategy("blm", blm=rate), batch_size=2, epoch=1, bucketed=True)

    for number, batch in enumerate(batches):
        step = len(batches) + number
        real = (batch["bio"] != -100).sum(axis=1)
        due = [-(-int(size) * max(100 - step, 0) // 100) for size in real]
        assert (batch["mask_kinds"] > 0).sum(axis=1).tolist() == due
    state = Batches(train, strategy("blm", blm=rate), batch_size=2, epoch=1, bucketed=True)
    state.load_state_dict({**batches.state_dict(), "next": 3})
    assert list(map(lists, state)) == all_lists(batches)[3:]


def test_strategy__of_shards_finds_its_lexicon_in_the_folder(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "built"
    shutil.copytree(folders["one"], folder)
    shards = load(folder)
    stages = [{"hide": "words", "rate": 1.0, "how": "highest", "score": {"lexicon": "mine.arrow"}}]
    lexicon = Lexicon(
        tokens=Ragged.of([[9]], np.int32),
        word_starts=Ragged.of([[0]], np.int32),
        scores=np.ones(1),
        about={
            "tokenizer": shards.manifest.tokenizer["sha256"],
            "size": shards.manifest.token_ids.size,
        },
    )
    write_lexicon(folder / "vocab" / "mine.arrow", lexicon)

    made = shards.strategy("stages", of=stages)
    assert made.of[0].score.lexicon == str(folder / "vocab" / "mine.arrow")  # type: ignore[attr-defined]
    write_lexicon(
        folder / "vocab" / "mine.arrow",
        replace(lexicon, about={**lexicon.about, "tokenizer": "another"}),
    )
    with pytest.raises(
        VocabularyError,
        match=r"mine.arrow: expected ids of the tokenizer of .*, got those of another one",
    ):
        shards.strategy("stages", of=stages)


# Sequences -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("options", ORDERS)
def test_batches__of_a_strategy_that_changes_lengths(
    train: Split, name: str, options: dict[str, Any]
) -> None:
    """Rows in the order of any other strategy, each with the inputs and targets that it has alone."""
    layout = strategy(name, **({"sentinels": tuple(range(9, 1, -1))} if name == "t5" else {}))
    examples = train.examples()
    plan = layout.plan(examples, seed=5, epoch=2)
    targets = layout.targets(examples, plan)
    assert targets is not None
    inputs = layout.corrupt(examples, plan, seed=5, epoch=2)
    rows = {
        int(key): (inputs[i].tolist(), targets[i].tolist()) for i, key in enumerate(examples.keys)
    }
    options = options | {"batch_size": 7, "seed": 5, "epoch": 2}

    batches = Batches(train, layout, multiple_of=4, **options)

    assert keys_of(batches) == keys_of(Batches(train, JOINT, **options))
    for batch in batches:
        pairs = [rows[key] for key in batch["keys"].tolist()]
        columns = ([list(pair[side]) for pair in pairs] for side in (0, 1))
        expected = reference.sequences_batch(
            *columns, batch["keys"].tolist(), train.token_ids.pad, 4
        )
        assert lists(batch) == expected
