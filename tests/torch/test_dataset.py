from __future__ import annotations

import copy
import itertools
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import ConcatDataset, DataLoader, Subset  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.testing import assert_resumes  # noqa: E402
from mslm_data.torch import MaskedDataset, MaskingCollator  # noqa: E402
from tests import made  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes  # noqa: E402
from tests.torch.samplers import sampler_of  # noqa: E402
from tests.torch.shards import JOINT, all_lists, consume, lists, of_numpy, train_rank  # noqa: E402

ORDERS: list[dict[str, Any]] = [
    {},
    {"shuffle": False},
    {"shuffle": "shards", "open_shards": 2},
    {"bucketed": True},
    {"bucketed": True, "drop_last": True},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 8}))
    return out


@pytest.fixture(scope="module")
def train(folder: Path) -> Any:
    return md.load(folder)["train"]


# The dataset ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_loader__gives_the_batches_of_md_batches(
    train: Any, options: dict[str, Any], batch_size: int
) -> None:
    options = options | {"batch_size": batch_size, "multiple_of": 4}

    loader = MaskedDataset(train, JOINT, seed=5, epoch=2).loader(**options)

    expected = of_numpy(md.Batches(train, JOINT, seed=5, epoch=2, **options))
    assert all_lists(loader) == expected
    assert len(loader) == len(expected)


@pytest.mark.parametrize("workers", [1, 4])
def test_loader__gives_the_same_batches_with_workers(train: Any, workers: int) -> None:
    dataset = MaskedDataset(train, JOINT)

    batches = all_lists(dataset.loader(batch_size=16, workers=workers, bucketed=True))

    assert batches == all_lists(dataset.loader(batch_size=16, bucketed=True))


def test_loader__passes_the_step_to_the_rate(train: Any) -> None:
    rate = {"shape": "linear", "start": 1.0, "stop": 0.0, "over": 100, "per": "step"}
    strategy = md.strategy("blm", blm=rate)
    dataset = MaskedDataset(train, strategy, epoch=1)

    expected = of_numpy(md.Batches(train, strategy, batch_size=8, epoch=1))

    assert all_lists(dataset.loader(batch_size=8)) == expected
    assert all_lists(dataset.loader(batch_size=8, workers=2)) == expected
    with pytest.raises(
        ValueError,
        match=r"step, tokens: a rate follows training, .* take the batches from dataset.loader",
    ):
        dataset.__getitems__([0, 1])


def falling(split: Any) -> Any:
    """Return a strategy whose rate falls in each step of the second epoch."""
    over = 2 * split.record.tokens
    rate = {"shape": "linear", "start": 1.0, "stop": 0.0, "over": over, "per": "tokens"}
    return md.strategy("blm", blm=rate)


@pytest.mark.parametrize(
    "options",
    [{"batch_size": 8}, {"batch_tokens": 60, "bucketed": True}, {"batch_tokens": 60, "flat": True}],
)
def test_loader__passes_the_tokens_to_the_rate(train: Any, options: dict[str, Any]) -> None:
    strategy = falling(train)
    dataset = MaskedDataset(train, strategy, epoch=1)
    sampler = sampler_of(dataset, **options)
    collator = MaskingCollator(flat=options.get("flat", False))
    plain = DataLoader(dataset, batch_sampler=sampler, collate_fn=collator, num_workers=1)
    resumed = MaskedDataset(train, strategy).loader(**options)

    expected = of_numpy(md.Batches(train, strategy, epoch=1, **options))

    assert all_lists(dataset.loader(**options)) == expected
    assert all_lists(dataset.loader(**options, workers=2)) == expected
    assert all_lists(plain) == expected
    first = dataset.loader(**options)
    list(itertools.islice(first, 5))
    resumed.load_state_dict(first.state_dict())
    assert all_lists(resumed) == expected[5:]


def test_loader__rates_do_not_depend_on_the_number_of_ranks(train: Any) -> None:
    """Six rows per step: on one, two or three ranks, and on one rank resumed from three."""
    strategy = falling(train)

    def masks(loaders: list[Any], steps: int | None = None) -> dict[int, list[int]]:
        return {
            key: kinds[: sum(real)]
            for loader in loaders
            for batch in itertools.islice(loader, steps)
            for key, kinds, real in zip(
                *(batch[name].tolist() for name in ("keys", "mask_kinds", "attention_mask")),
                strict=True,
            )
        }

    def loaders(world: int) -> list[Any]:
        dataset = MaskedDataset(train, strategy, epoch=1)
        return [
            dataset.loader(batch_size=6 // world, rank=rank, world=world) for rank in range(world)
        ]

    alone = masks(loaders(1))
    assert len(alone) == len(train)
    assert masks(loaders(2)) == alone
    three = loaders(3)
    some = masks(three, steps=4)
    (last,) = loaders(1)
    last.load_state_dict(three[1].state_dict())

    assert len(some) == 24
    assert some | masks([last]) == alone


def test_dataset__refuses_a_training_rate_if_static(train: Any) -> None:
    with pytest.raises(
        ValueError, match=r"static: the rate of the strategy follows training, .* 0\.15"
    ):
        MaskedDataset(train, falling(train), static=True)


def test_dataset__rows_fit_any_data_loader(train: Any) -> None:
    dataset = MaskedDataset(train, JOINT, seed=1, epoch=3)
    rows = [5, 0, len(train) - 1, 17]
    (expected,) = all_lists(
        DataLoader(Subset(dataset, rows), batch_size=4, collate_fn=MaskingCollator())
    )

    one_by_one = lists(MaskingCollator()([dataset[row] for row in rows]))
    chunks = lists(MaskingCollator()([*dataset.__getitems__(rows[:3]), dataset[-len(train) + 17]]))

    plan = JOINT.plan(train.take(np.array(rows)), seed=1, epoch=3)
    assert one_by_one == chunks == expected
    assert sum(map(sum, expected["mask_kinds"])) == plan.kinds.values.sum()


def test_dataset__row_is_a_mapping_of_its_part_of_a_batch(train: Any) -> None:
    dataset = MaskedDataset(train, JOINT, epoch=0)

    row = dataset[3]

    assert not isinstance(row, dict)
    assert set(row) == set(lists(MaskingCollator()([row])))
    assert len(row["input_ids"]) == len(train[3]["input_ids"])
    assert int(row["keys"]) == train[3]["key"]
    assert repr(row) == f"MaskedRow({len(row['labels'])} tokens)"


def test_dataset__row_is_immutable_and_can_be_copied(train: Any) -> None:
    row = MaskedDataset(train, JOINT, epoch=0)[3]

    assert lists(MaskingCollator()([copy.copy(row)])) == lists(MaskingCollator()([row]))
    with pytest.raises(TypeError, match="rows are read-only, and batches would not show"):
        row["labels"] = row["labels"] * 0
    with pytest.raises(TypeError, match="rows are read-only"):
        del row["labels"]


@pytest.mark.parametrize("row", [10**6, -(10**6)])
def test_dataset__refuses_rows_out_of_range(train: Any, row: int) -> None:
    with pytest.raises(
        IndexError,
        match=f"row: expected a number below {len(train)}, the number of rows, got {row}",
    ):
        MaskedDataset(train, JOINT)[row]


def test_dataset__refuses_a_folder(folder: Path) -> None:
    message = r"split: expected a split, such as md.load\(folder\)\['train'\], or .*, got Shards"

    with pytest.raises(TypeError, match=message):
        MaskedDataset(md.load(folder), JOINT)  # type: ignore[arg-type]


def test_dataset__refuses_taken_rows_and_names_subset(train: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a split, got rows, .*split.subset"):
        MaskedDataset(train.take(range(4)), JOINT)  # type: ignore[arg-type]

    dataset = MaskedDataset(train, JOINT, epoch=0)
    some = DataLoader(Subset(dataset, range(4)), batch_size=4, collate_fn=MaskingCollator())
    (batch,) = some

    assert batch["keys"].numpy().view("uint64").tolist() == train.take(range(4)).keys.tolist()


@pytest.mark.parametrize("shuffle", [True, "shards"])
def test_loader__gives_the_batches_of_a_subset(train: Any, shuffle: Any) -> None:
    few = train.subset(documents=5, seed=1)
    options: dict[str, Any] = {"batch_size": 4, "shuffle": shuffle, "open_shards": 1}
    dataset = MaskedDataset(few, JOINT, seed=2)

    expected = of_numpy(md.Batches(few, JOINT, seed=2, **options))

    assert all_lists(dataset.loader(**options)) == expected
    assert all_lists(MaskedDataset(few, JOINT, seed=2).loader(**options, workers=1)) == expected


def test_dataset__refuses_a_slice(train: Any) -> None:
    with pytest.raises(TypeError, match="row: expected an integer, got slice; for several"):
        MaskedDataset(train, JOINT)[0:2]  # type: ignore[index]


def test_dataset__accepts_the_name_of_a_strategy(train: Any) -> None:
    named = MaskedDataset(train, "joint")

    assert all_lists(named.loader(64)) == all_lists(
        MaskedDataset(train, md.strategy("joint")).loader(64)
    )


def test_repr__of_dataset_and_loader_shows_rows_and_position(train: Any) -> None:
    dataset = MaskedDataset(train, JOINT, seed=4, epoch=2)
    static = MaskedDataset(train, JOINT, static=True)
    loader = dataset.loader(batch_size=16)

    next(iter(loader))

    assert repr(dataset) == f"MaskedDataset({train!r}, seed 4, epoch 2)"
    assert repr(static) == f"MaskedDataset({train!r}, seed 0, epoch 0, static)"
    assert repr(MaskedDataset(train, JOINT)).endswith("epoch not set)")
    assert repr(loader) == (
        f"MaskedLoader({len(loader)} batches of 16 rows from {dataset!r}; epoch 2, 1 given)"
    )


def test_dataset__can_be_pickled(train: Any) -> None:
    dataset = MaskedDataset(train, JOINT, epoch=2)

    again = pickle.loads(pickle.dumps(dataset))  # noqa: S301 - our own

    assert all_lists(again.loader(32)) == all_lists(dataset.loader(32))


@pytest.fixture(scope="module")
def fresh(folder: Path) -> dict[str, list[str]]:
    """Create a dataset in a new process; return its loaded heavy packages and its uncompiled kernels."""
    code = """
import json, sys
import mslm_data as md
from mslm_data.kernels import gather, mask_units, pad
from mslm_data.torch import MaskedDataset, MaskingCollator
MaskedDataset(md.load(sys.argv[1])["train"], md.strategy("joint"))
kernels = gather.gather, mask_units.mask_units, mask_units.mask_tokens, pad.pad_masked
heavy = [name for name in ("transformers", "datasets", "spacy") if name in sys.modules]
cold = [kernel.__name__ for kernel in kernels if not kernel.signatures]
print(json.dumps({"heavy": heavy, "cold": cold}))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    return dict(json.loads(ended.stdout))


@pytest.mark.long
def test_dataset__loads_kernels_before_workers_are_forked(
    fresh: dict[str, list[str]],
) -> None:
    assert fresh["cold"] == []


def test_package__imports_neither_transformers_nor_datasets_for_the_dataset(
    fresh: dict[str, list[str]],
) -> None:
    assert fresh["heavy"] == []


# Epochs --------------------------------------------------------------------------------------------------------------


def masks(batches: Any) -> dict[int, list[int]]:
    return {
        key: kinds
        for batch in all_lists(batches)
        for key, kinds in zip(batch["keys"], batch["labels"], strict=True)
    }  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_epoch__reaches_running_workers(train: Any, workers: int) -> None:
    dataset = MaskedDataset(train, JOINT)
    loader = DataLoader(
        dataset,
        batch_size=len(train),
        num_workers=workers,
        persistent_workers=workers > 0,
        collate_fn=MaskingCollator(),
    )
    seen = []
    for epoch in range(3):
        dataset.epoch = epoch
        seen += all_lists(loader)

    expected = [
        of_numpy(md.Batches(train, JOINT, epoch=e, batch_size=len(train), shuffle=False))
        for e in range(3)
    ]
    assert [[batch] for batch in seen] == expected


def test_set_epoch__does_not_change_a_static_dataset(train: Any) -> None:
    dataset = MaskedDataset(train, JOINT, epoch=4, static=True)
    loader = dataset.loader(batch_size=16)
    first = masks(loader)

    loader.set_epoch(9)

    assert masks(loader) == masks(DataLoader(dataset, 16, collate_fn=MaskingCollator())) == first
    assert dataset.epoch == 4


@pytest.mark.parametrize("workers", [0, 1])
def test_dataset__warns_once_if_the_epoch_never_changes(
    train: Any, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say(message: str, **_: Any) -> None:
        with (tmp_path / "said").open("a") as file:
            file.write(message + "\n")

    monkeypatch.setattr("mslm_data.torch.data.epoch.warnings.warn", say)
    loader = DataLoader(
        MaskedDataset(train, JOINT, epoch=0),
        batch_size=16,
        shuffle=True,
        num_workers=workers,
        collate_fn=MaskingCollator(),
    )

    for _ in range(4):
        list(loader)

    (said,) = (tmp_path / "said").read_text().splitlines()
    assert "epoch: a second pass over the data in epoch 0" in said
    assert "MaskEpochCallback" in said


@pytest.mark.parametrize("static", [True, False])
def test_dataset__does_not_warn_about_correct_epochs(
    train: Any, static: bool, recwarn: Any
) -> None:
    dataset = MaskedDataset(train, JOINT, static=static)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, collate_fn=MaskingCollator())
    for epoch in range(3):
        dataset.epoch = epoch
        list(loader)
        list(itertools.islice(loader, 2 if static else 0))

    assert not [w for w in recwarn if "epoch" in str(w.message)]


@pytest.mark.parametrize("kind", ["md.Batches", "loader", "loader with workers", "sampler"])
def test_pass__is_followed_by_the_next_epoch(train: Any, kind: str) -> None:
    dataset = MaskedDataset(train, JOINT, epoch=1)
    batches: Any = {
        "md.Batches": md.Batches(train, JOINT, batch_size=16, epoch=1),
        "loader": dataset.loader(batch_size=16),
        "loader with workers": dataset.loader(batch_size=16, workers=1),
        "sampler": DataLoader(
            dataset,
            batch_sampler=sampler_of(dataset, batch_size=16),
            collate_fn=MaskingCollator(),
        ),
    }[kind]
    told = of_numpy if kind == "md.Batches" else all_lists

    passes = [told(batches) for _ in range(3)]

    assert passes == [
        of_numpy(md.Batches(train, JOINT, batch_size=16, epoch=epoch)) for epoch in (1, 2, 3)
    ]


def test_loader__does_not_set_the_epoch_of_other_samplers_rows(train: Any) -> None:
    """Reading rows with a loader does not mean that a trainer's sampler sets their epoch."""
    dataset = MaskedDataset(train, JOINT)
    loader = dataset.loader(batch_size=16, workers=1)
    loader.set_epoch(2)
    list(loader)

    with pytest.raises(ValueError, match=r"epoch: not set, .*dataset.loader.*MaskEpochCallback"):
        list(DataLoader(dataset, batch_size=16, collate_fn=MaskingCollator()))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "wrap",
    [lambda rows: rows, lambda rows: Subset(rows, range(8)), lambda rows: ConcatDataset([rows])],
)
def test_dataset__refuses_rows_before_the_epoch_is_known(
    train: Any, wrap: Any, workers: int
) -> None:
    dataset = MaskedDataset(train, JOINT)
    loader = DataLoader(
        wrap(dataset), batch_size=4, shuffle=True, num_workers=workers, collate_fn=MaskingCollator()
    )

    with pytest.raises(
        ValueError, match="epoch: not set, so every epoch would have the same masks"
    ):
        next(iter(loader))
    dataset.epoch = 0
    assert len(next(iter(loader))["keys"]) == 4


def test_dataset__has_no_set_epoch(train: Any) -> None:
    assert not hasattr(MaskedDataset(train, JOINT), "set_epoch")
    assert not hasattr(MaskingCollator(), "set_epoch")


def test_dataset__reads_the_epoch_from_sampled_rows(
    train: Any,
) -> None:
    dataset = MaskedDataset(train, JOINT)
    rows, more, *_ = sampler_of(dataset, batch_size=6, epoch=3)
    mixed = [*rows[2:], *more[:1]]

    (expected,) = all_lists(
        [MaskingCollator()(MaskedDataset(train, JOINT, epoch=3).__getitems__(mixed))]
    )

    assert lists(MaskingCollator()(dataset.__getitems__(mixed))) == expected
    assert lists(MaskingCollator()([dataset[row] for row in mixed])) == expected


# Options of the loader -----------------------------------------------------------------------------------------------


def test_loader__returns_requested_columns_and_types(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader(
        columns=["input_ids", "attention_mask", "labels"],
        dtypes={"attention_mask": torch.bool, "input_ids": torch.int32},
    )

    batch = next(iter(loader))

    assert {name: tensor.dtype for name, tensor in batch.items()} == {
        "input_ids": torch.int32,
        "attention_mask": torch.bool,
        "labels": torch.int64,
    }


def test_loader__refuses_unordered_batches(train: Any) -> None:
    dataset = MaskedDataset(train, "joint")

    with pytest.raises(ValueError, match="in_order: expected True, got False"):
        dataset.loader(workers=2, in_order=False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs an accelerator")
@pytest.mark.parametrize("workers", [0, 1])
def test_loader__pins_memory(train: Any, workers: int) -> None:
    loader = MaskedDataset(train, JOINT).loader(pin_memory=True, workers=workers)

    assert all(tensor.is_pinned() for tensor in next(iter(loader)).values())


# Resuming ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "then"), [(0, 2), (2, 0)])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_state_dict__counts_returned_batches(
    train: Any, workers: int, then: int, after: int
) -> None:
    dataset = MaskedDataset(train, JOINT, seed=1, epoch=2)
    whole = all_lists(dataset.loader(batch_size=16))
    loader = dataset.loader(batch_size=16, workers=workers)
    before = all_lists(itertools.islice(loader, after))

    again = MaskedDataset(train, JOINT, seed=1).loader(batch_size=16, workers=then)
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    again.set_epoch(2)
    rest = all_lists(again)

    assert before + rest == whole
    again.set_epoch(3)
    assert len(list(again)) == len(whole)


def test_state_dict__resumes_at_every_batch(train: Any) -> None:
    few = MaskedDataset(train.subset(documents=4, seed=0), JOINT, seed=1)

    assert_resumes(lambda: few.loader(batch_size=4, bucketed=True))


def test_load_state_dict__refuses_a_state_of_other_shards(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader()

    with pytest.raises(
        ValueError, match=r"state: expected tokens = \d+, got 1; load the same split"
    ):
        loader.load_state_dict(loader.state_dict() | {"tokens": 1})
    with pytest.raises(ValueError, match=f"state: expected digest = {train.digest}, got '0'"):
        loader.load_state_dict(loader.state_dict() | {"digest": "0"})


@pytest.mark.long
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize(("workers", "then"), [(0, 1), (1, 4), (4, 0)])
def test_loader__resumes_with_equal_batches_after_a_kill(
    folder: Path, train: Any, tmp_path: Path, world: int, workers: int, then: int
) -> None:
    """SIGKILL after five batches on each rank, against an uninterrupted run in this process."""
    for die_after, number in ((5, workers), (None, then)):
        started = [
            processes.start(
                consume,
                str(folder),
                str(tmp_path / "run"),
                die_after,
                {"rank": r, "world": world, "workers": number},
            )
            for r in range(world)
        ]
        for process in started:
            process.join(PATIENCE_S)
            assert process.exitcode == (-9 if die_after else 0)

    for rank in range(world):
        whole = MaskedDataset(train, JOINT, seed=3, epoch=1).loader(
            batch_size=4, rank=rank, world=world
        )
        log = (tmp_path / f"run-{rank}.log").read_text().splitlines()
        assert [json.loads(line) for line in log] == all_lists(whole)
        assert len(log) > 5


@pytest.mark.long
def test_loader__reads_its_rank_after_the_process_group_starts(
    folder: Path, train: Any, tmp_path: Path
) -> None:
    """Trainers start the process group late: a loader that reads its rank once would give all rows to each rank."""
    out = str(tmp_path / "rank")
    started = [processes.start(train_rank, str(folder), out, rank, 2) for rank in range(2)]
    for process in started:
        process.join(PATIENCE_S)
        assert process.exitcode == 0

    told = [json.loads(Path(f"{out}-{rank}.json").read_text()) for rank in range(2)]
    keys = [key for rank in told for batch in rank["keys"] for key in batch]
    assert sorted(keys) == sorted(train.examples().keys.view("int64").tolist())
    assert [rank["length"] for rank in told] == [len(rank["keys"]) for rank in told]
    assert told[0]["length"] == -(-told[0]["alone"] // 2)
    assert told[0]["state"] == told[1]["state"]


def test_loader__keeps_the_protocol_of_stateful_data_loader(train: Any) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    dataset = MaskedDataset(train, JOINT, seed=1)

    def loader(workers: int) -> Any:
        sampler = sampler_of(dataset, batch_size=16)
        return stateful.StatefulDataLoader(
            dataset, batch_sampler=sampler, collate_fn=MaskingCollator(), num_workers=workers
        )

    for workers in (0, 2):
        whole = all_lists(loader(workers))
        half = loader(workers)
        before = all_lists(itertools.islice(half, 3))
        again = loader(workers)
        again.load_state_dict(half.state_dict())
        assert before + all_lists(again) == whole
