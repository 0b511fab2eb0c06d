from __future__ import annotations

import itertools
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.batches.batches import Batches
from mslm_data.batches.collate import Batch
from mslm_data.batches.epoch_plan import WINDOW
from mslm_data.mask.table import strategy
from mslm_data.shard.split import Split
from mslm_data.testing import assert_resumes
from tests import made
from tests.reference import batch as reference

JOINT = strategy("joint", elm=0.5, blm=0.2)
ORDERS: list[dict[str, Any]] = [
    {"shuffle": shuffle, "bucketed": bucketed}
    for shuffle in (True, False, "shards")
    for bucketed in (True, False)
]
BY_TOKENS: list[dict[str, Any]] = [
    {"batch_tokens": 16},
    {"batch_tokens": 16, "multiple_of": 8, "shuffle": False},
    {"batch_tokens": 16, "bucketed": False},
    {"batch_tokens": 16, "flat": True},
    {"batch_tokens": 16, "flat": True, "multiple_of": 8},
    {"batch_size": 2, "flat": True},
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows in one shard and in many; 8 tokens a row make several windows of batches of one or two."""
    base = tmp_path_factory.mktemp("folders")
    for name, unit_bytes in (("one", 1 << 20), ("many", 1500)):
        pipeline = made.pipeline_of(unit_bytes=unit_bytes, encode={"max_tokens": 8})
        made.built(base / name, pipeline=pipeline)

    return {name: base / name for name in ("one", "many")}


@pytest.fixture(scope="module")
def train(folders: dict[str, Path]) -> Split:
    split = load(folders["many"])["train"]
    assert len(split.record.shards) > 3

    return split


@pytest.fixture(scope="module")
def rows(train: Split) -> list[dict[str, Any]]:
    return [train[i] for i in range(len(train))]


def lists(batch: Batch) -> dict[str, Any]:
    return {name: array.tolist() for name, array in batch.items()}


def all_lists(batches: Batches) -> list[dict[str, Any]]:
    return [lists(batch) for batch in batches]


def masks_of(batches: Batches) -> dict[int, tuple[list[int], list[int]]]:
    """Return each row's kinds and corrupted ids, without padding, by its key."""
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


# Batches -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("batch_size", [1, 2, 32, 1000])
def test_batches__equal_their_twin(
    train: Split, rows: list[dict[str, Any]], options: dict[str, Any], batch_size: int
) -> None:
    assert len(rows) > 2 * WINDOW
    options = options | {"batch_size": batch_size, "seed": 5, "epoch": 2, "multiple_of": 4}

    batches = all_lists(Batches(train, JOINT, **options))

    options["shard_rows"] = train.shard_rows
    assert batches == list(reference.batches(rows, train.token_ids, JOINT, **options))


@pytest.mark.parametrize("options", ORDERS)
def test_batches__mask_a_row_the_same_in_any_batch(
    folders: dict[str, Path], train: Split, options: dict[str, Any]
) -> None:
    expected = masks_of(Batches(train, JOINT, batch_size=len(train), shuffle=False, seed=1))

    for name in folders:
        split = load(folders[name])["train"]
        assert masks_of(Batches(split, JOINT, batch_size=3, seed=1, **options)) == expected


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


def test_batches__begin_the_next_epoch_after_the_end(train: Split) -> None:
    batches = Batches(train, JOINT)

    passes = [all_lists(batches) for _ in range(3)]

    assert passes == [all_lists(Batches(train, JOINT, epoch=epoch)) for epoch in range(3)]
    assert batches.epoch == 2


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
    options: dict[str, Any] = {"shuffle": shuffle, "bucketed": False, "batch_size": batch_size}
    every = all_lists(Batches(train, JOINT, **options))

    full = Batches(train, JOINT, drop_last=True, **options)

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
    made.built(tmp_path / "out", tmp_path, made.pipeline_of(annotate={"use": "none"}))
    empty = load(tmp_path / "out")["test"]

    for options in ORDERS:
        batches = Batches(empty, JOINT, **options)
        assert (len(batches), list(batches), list(batches)) == (0, [], [])


def test_batches__refuse_an_epoch_that_names_no_stream(train: Split) -> None:
    with pytest.raises(ValueError, match=r"epoch: expected an integer in \[0, 2\*\*63\)"):
        Batches(train, JOINT, epoch=2**63)


# Resuming ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [*ORDERS, *BY_TOKENS], ids=str)
def test_state_dict__goes_on_with_exactly_the_rest(
    folders: dict[str, Path], train: Split, options: dict[str, Any]
) -> None:
    """Through JSON, and with the same rows in other shards, unless their order depends on these."""
    size = {} if "batch_tokens" in options else {"batch_size": 2}
    options = {"seed": 3, **size, **options}
    batches = Batches(train, JOINT, epoch=4, **options)
    before = [lists(batch) for batch in itertools.islice(batches, WINDOW + 1)]

    state = json.loads(json.dumps(batches.state_dict()))
    other = "many" if options.get("shuffle") == "shards" else "one"
    again = Batches(load(folders[other])["train"], JOINT, **options)
    again.load_state_dict(state)
    rest = all_lists(again)

    whole = Batches(train, JOINT, epoch=4, **options)
    assert before + rest == all_lists(whole)
    assert len(whole) == len(before) + len(rest) > len(before)
    assert again.epoch == 4


@pytest.mark.parametrize("options", [*ORDERS, {"drop_last": True}], ids=str)
def test_state_dict__resumes_at_every_batch(train: Split, options: dict[str, Any]) -> None:
    few = train.subset(documents=8, seed=0)

    assert_resumes(lambda: Batches(few, JOINT, batch_size=3, seed=1, **options))


def test_state_dict__at_the_end_begins_the_next_epoch(train: Split) -> None:
    batches = Batches(train, JOINT)
    every = all_lists(batches)

    again = Batches(train, JOINT)
    again.load_state_dict(batches.state_dict())

    assert all_lists(again) == all_lists(Batches(train, JOINT, epoch=1)) != every


def test_state_dict__does_not_change_what_comes(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=2)
    seen = []
    for batch in batches:
        batches.state_dict()
        seen.append(lists(batch))

    assert seen == all_lists(Batches(train, JOINT, batch_size=2))


def test_load_state_dict__refuses_another_batch_size(train: Split) -> None:
    state = Batches(train, JOINT, batch_size=7).state_dict()

    with pytest.raises(ValueError, match="state: expected batch_size = 3, got 7"):
        Batches(train, JOINT, batch_size=3).load_state_dict(state)


def test_load_state_dict__refuses_a_state_of_other_rows(
    folders: dict[str, Path], train: Split
) -> None:
    state = Batches(load(folders["one"])["test"], JOINT).state_dict()

    with pytest.raises(ValueError, match=r"state: expected rows = \d+, got \d+"):
        Batches(train, JOINT).load_state_dict(state)
    state = Batches(train, JOINT).state_dict()
    state["options"]["tokens"] = 1
    with pytest.raises(ValueError, match=rf"state: expected tokens = {train.record.tokens}, got 1"):
        Batches(train, JOINT).load_state_dict(state)


def test_load_state_dict__refuses_a_state_of_other_inputs_of_the_same_size(
    folders: dict[str, Path], train: Split, tmp_path: Path
) -> None:
    state = Batches(train, JOINT).state_dict()
    twin = Path(shutil.copytree(made.SAMPLE / "ncbi-disease", tmp_path / "in"))
    (twin / "train.tsv").write_text((twin / "train.tsv").read_text().replace("B-", "I-", 1))
    pipeline = made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 8})
    made.built(tmp_path / "out", inputs=twin, pipeline=pipeline)
    other = load(tmp_path / "out")["train"]
    assert (len(other), other.tokens) == (len(train), train.tokens)

    with pytest.raises(ValueError, match=f"state: expected digest = {other.digest}, got '"):
        Batches(other, JOINT).load_state_dict(state)


def test_load_state_dict__refuses_a_state_of_other_shards(
    folders: dict[str, Path], train: Split
) -> None:
    one = load(folders["one"])["train"]
    state = Batches(one, JOINT, shuffle="shards").state_dict()

    with pytest.raises(ValueError, match=r"state: expected shards = .*, got '1, "):
        Batches(train, JOINT, shuffle="shards").load_state_dict(state)
    with pytest.raises(ValueError, match="state: expected open_shards = 3, got 16"):
        Batches(one, JOINT, shuffle="shards", open_shards=3).load_state_dict(state)
    with pytest.raises(ValueError, match="state: expected shuffle = True, got 'shards'"):
        Batches(one, JOINT).load_state_dict(state)


def test_epoch__set_to_the_present_one_keeps_a_resumed_place(train: Split) -> None:
    every = all_lists(Batches(train, JOINT, batch_size=16, epoch=2))
    batches = Batches(train, JOINT, batch_size=16, epoch=2)
    list(itertools.islice(batches, 3))
    again = Batches(train, JOINT, batch_size=16)

    again.load_state_dict(batches.state_dict())
    again.epoch = 2

    assert all_lists(again) == every[3:]


def test_epoch__set_to_the_present_one_after_a_resume_at_its_end_leaves_nothing(
    train: Split,
) -> None:
    batches = Batches(train, JOINT, batch_size=16, epoch=2)
    list(batches)
    again = Batches(train, JOINT, batch_size=16)

    again.load_state_dict(batches.state_dict())
    again.epoch = 2

    assert all_lists(again) == []


def test_batches__travel_to_another_process(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=16)

    again = pickle.loads(pickle.dumps(batches))  # noqa: S301 - our own

    assert all_lists(again) == all_lists(batches)


def test_batches__tell_a_rate_the_step(train: Split) -> None:
    rate = {"shape": "linear", "start": 1.0, "stop": 0.0, "over": 100, "per": "step"}
    batches = Batches(train, strategy("blm", blm=rate), batch_size=2, epoch=1, bucketed=True)

    every = list(batches)
    for number, batch in enumerate(every):
        step = len(batches) + number
        real = (batch["bio"] != -100).sum(axis=1)
        due = [-(-int(size) * max(100 - step, 0) // 100) for size in real]
        assert (batch["mask_kinds"] > 0).sum(axis=1).tolist() == due
    before = Batches(train, strategy("blm", blm=rate), batch_size=2, epoch=1)
    list(itertools.islice(before, 3))
    again = Batches(train, strategy("blm", blm=rate), batch_size=2)
    again.load_state_dict(before.state_dict())
    assert all_lists(again) == all_lists(every)[3:]


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_tokens": 60}], ids=str)
def test_batches__of_all_ranks_are_those_of_one(train: Split, options: dict[str, Any]) -> None:
    whole = Batches(train, JOINT, seed=2, **options)
    ranks = [Batches(train, JOINT, seed=2, rank=rank, world=3, **options) for rank in range(3)]

    assert len({len(batches) for batches in ranks}) == 1
    every = all_lists(whole)
    steps = [*zip(*map(all_lists, ranks), strict=True)]
    assert len(steps) == len(ranks[0])
    assert [*itertools.chain(*steps)][: len(every) // 3 * 3] == every[: len(every) // 3 * 3]


@pytest.mark.parametrize(("rank", "world"), [(1, 1), (-1, 2), (0, 0), ("0", 2), (True, 2)])
def test_batches__refuse_a_rank_out_of_range(train: Split, rank: Any, world: int) -> None:
    with pytest.raises(ValueError, match=r"^(rank|world): expected an integer"):
        Batches(train, JOINT, rank=rank, world=world)


# Arguments and representation -------------------------------------------------------------------------------------


def test_batches__take_the_name_of_a_strategy(train: Split) -> None:
    named = Batches(train, "joint", batch_size=64)

    assert all_lists(named) == all_lists(Batches(train, strategy("joint"), batch_size=64))


def test_batches__say_which_strategy_was_meant(train: Split) -> None:
    with pytest.raises(ValueError, match="did you mean 'joint'"):
        Batches(train, "joimt")


@pytest.mark.parametrize("wrong", [3, None, strategy])
def test_batches__refuse_what_is_not_a_strategy(train: Split, wrong: Any) -> None:
    message = rf"strategy: expected md.strategy\(...\), or the name .*, got {type(wrong).__name__}"

    with pytest.raises(TypeError, match=message):
        Batches(train, wrong)


def test_batches__refuse_what_is_not_a_split(folders: dict[str, Path]) -> None:
    for wrong in (load(folders["one"]), folders["one"], "train"):
        with pytest.raises(TypeError, match=r"split: expected a split, such as md\.load"):
            Batches(wrong, JOINT)  # type: ignore[arg-type]


def test_repr__says_how_large_and_how_far(train: Split) -> None:
    batches = Batches(train, JOINT, batch_size=16, epoch=3)

    list(itertools.islice(batches, 2))

    assert repr(batches) == f"Batches(16 rows each from {train!r}; epoch 3, 2 given)"
