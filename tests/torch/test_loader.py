from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.testing import assert_resumes  # noqa: E402
from mslm_data.torch import MaskedDataset  # noqa: E402
from mslm_data.torch.data import loader as loader_module  # noqa: E402
from tests import made  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes  # noqa: E402
from tests.torch.shards import JOINT, all_lists, consume, of_numpy, train_rank  # noqa: E402

SHAPES: list[dict[str, Any]] = [
    {"batch_size": 1},
    {"batch_size": 7, "multiple_of": 4},
    {"batch_size": 7, "bucketed": False},
    {"batch_size": 7, "shuffle": False},
    {"batch_size": 1, "shuffle": "shards", "open_shards": 2},  # in several blocks
    {"batch_size": 7, "drop_last": True},
    {"batch_size": 1000, "multiple_of": 4},
]
BY_TOKENS: list[dict[str, Any]] = [
    {"batch_tokens": 60, "bucketed": False},
    {"batch_tokens": 60, "multiple_of": 4},
    {"batch_tokens": 60, "flat": True},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 8}))
    return out


@pytest.fixture(scope="module")
def train(folder: Path) -> Any:
    return md.load(folder)["train"]


# Batches -------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["split", "subset", "mix"])
def rows(request: pytest.FixtureRequest, folder: Path, train: Any) -> Any:
    """Return rows of each kind. The mix repeats some rows of its first folder in each epoch."""
    if request.param == "subset":
        return train.subset(documents=20, seed=1)
    if request.param == "mix":
        splits = [train, md.load(folder)["test"]]
        return md.mix(splits, by="rows", epoch_size=2 * len(train))
    return train


@pytest.mark.parametrize("options", [*SHAPES, *BY_TOKENS], ids=str)
def test_loader__gives_the_batches_of_md_batches(rows: Any, options: dict[str, Any]) -> None:
    loader = MaskedDataset(rows, JOINT, seed=5).loader(**options)
    batches = md.Batches(rows, JOINT, seed=5, **options)

    for _ in range(2):
        expected = of_numpy(batches)
        assert all_lists(loader) == expected
        assert len(loader) == len(expected) > 0
    loader.set_epoch(4)
    assert all_lists(loader) == of_numpy(md.Batches(rows, JOINT, seed=5, epoch=4, **options))


def rate(train: Any, per: str) -> Any:
    """Return a strategy whose rate falls in each step of the second epoch."""
    over = {"step": 100, "tokens": 2 * train.record.tokens}[per]
    return md.strategy(
        "blm", blm={"shape": "linear", "start": 1.0, "stop": 0.0, "over": over, "per": per}
    )


@pytest.mark.parametrize("per", ["step", "tokens"])
@pytest.mark.parametrize("options", [{"batch_size": 8}, *BY_TOKENS])
def test_loader__passes_step_and_tokens_to_the_rate(
    train: Any, options: dict[str, Any], per: str
) -> None:
    strategy = rate(train, per)
    dataset = MaskedDataset(train, strategy)
    first, resumed = dataset.loader(**options), dataset.loader(**options)
    first.set_epoch(1)

    expected = of_numpy(md.Batches(train, strategy, epoch=1, **options))

    assert all_lists(itertools.islice(first, 5)) == expected[:5]
    resumed.load_state_dict(first.state_dict())
    assert all_lists(resumed) == expected[5:]


def test_loader__rates_do_not_depend_on_the_number_of_ranks(train: Any) -> None:
    """Six rows per step, on one, two or three ranks."""

    def masks(loaders: list[Any]) -> dict[int, list[int]]:
        return {
            key: kinds[: sum(real)]
            for loader in loaders
            for batch in loader
            for key, kinds, real in zip(
                *(batch[name].tolist() for name in ("keys", "mask_kinds", "attention_mask")),
                strict=True,
            )
        }

    def loaders(world: int) -> list[Any]:
        dataset = MaskedDataset(train, rate(train, "tokens"))
        options: dict[str, Any] = {"batch_size": 6 // world, "bucketed": False, "world": world}
        every = [dataset.loader(rank=rank, **options) for rank in range(world)]
        for loader in every:
            loader.set_epoch(1)
        return every

    alone = masks(loaders(1))
    assert len(alone) == len(train)
    assert masks(loaders(2)) == masks(loaders(3)) == alone


@pytest.mark.parametrize("options", [{"batch_size": 4}, *BY_TOKENS])
@pytest.mark.parametrize("world", [2, 3])
def test_loader__gives_each_rank_equally_many_batches(
    train: Any, options: dict[str, Any], world: int
) -> None:
    dataset = MaskedDataset(train, JOINT)
    loaders = [dataset.loader(rank=rank, world=world, **options) for rank in range(world)]

    keys = [[batch["keys"].tolist() for batch in loader] for loader in loaders]

    assert {len(of_rank) for of_rank in keys} == {len(loaders[0])}
    every = [key for of_rank in keys for batch in of_rank for key in batch]
    assert sorted(every) == sorted(train.examples().keys.view("int64").tolist())


def test_loader__returns_requested_columns(train: Any) -> None:
    names = ["input_ids", "cu_seq_lens_q", "max_length_q"]
    loader = MaskedDataset(train, JOINT).loader(batch_tokens=90, flat=True, columns=names)

    for batch in loader:
        assert [*batch] == names
        assert batch["cu_seq_lens_q"].dtype == torch.int32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs an accelerator")
def test_loader__pins_memory(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader(pin_memory=True)

    assert all(tensor.is_pinned() for tensor in next(iter(loader)).values())


def test_loader__keeps_masks_of_a_static_dataset(train: Any) -> None:
    def masks(batches: Any) -> dict[int, list[int]]:
        return {
            key: labels
            for batch in all_lists(batches)
            for key, labels in zip(batch["keys"], batch["labels"], strict=True)
        }

    loader = MaskedDataset(train, JOINT, static=True).loader(len(train))

    first, second = masks(loader), masks(loader)

    assert first == second == masks(MaskedDataset(train, JOINT).loader(len(train)))


def test_loader__accepts_the_name_of_a_strategy(train: Any) -> None:
    named = MaskedDataset(train, "joint").loader(64)

    assert all_lists(named) == all_lists(MaskedDataset(train, md.strategy("joint")).loader(64))


def test_repr__of_dataset_and_loader_shows_rows_and_position(train: Any) -> None:
    dataset = MaskedDataset(train, JOINT, seed=4)
    static = MaskedDataset(train, JOINT, static=True)
    loader = dataset.loader(batch_size=16)

    next(iter(loader))

    assert repr(dataset) == f"MaskedDataset({train!r}, seed 4)"
    assert repr(static) == f"MaskedDataset({train!r}, seed 0, static)"
    assert repr(loader) == f"MaskedLoader(16 rows from {dataset!r}; epoch 0, 1 given)"


def test_loader__can_be_pickled(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader(16)
    loader.set_epoch(2)

    again = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own

    assert again.state_dict() == loader.state_dict()
    assert all_lists(again) == all_lists(loader)


def test_package__imports_neither_transformers_nor_datasets_for_a_loader(folder: Path) -> None:
    code = """
import sys
import mslm_data as md
from mslm_data.torch import MaskedDataset
next(iter(MaskedDataset(md.load(sys.argv[1])["train"], "joint").loader()))
print(*(name for name in ("transformers", "datasets", "spacy") if name in sys.modules))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )

    assert not ended.stdout.split()


# Refusals ------------------------------------------------------------------------------------------------------------


class Wrapped(IterableDataset[Any]):
    """The batches of a loader, read in the workers of a DataLoader."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)


READERS: dict[str, Callable[[Any], Any]] = {
    "rows of the dataset": lambda loader: loader.dataset[0],
    "DataLoader over the dataset": lambda loader: DataLoader(loader.dataset, batch_size=4),
    "DataLoader": DataLoader,
    "DataLoader of finished batches": lambda loader: DataLoader(loader, batch_size=None),
    "own dataset in a worker": lambda loader: DataLoader(Wrapped(loader), None, num_workers=1),
}


@pytest.mark.parametrize("reader", READERS)
def test_loader__is_refused_in_a_data_loader(train: Any, reader: str) -> None:
    """It would repeat the batches in each worker, or put them into batches once more."""
    loader = MaskedDataset(train, JOINT).loader(batch_size=4)

    with pytest.raises(TypeError, match=r"write `for batch in data.loader\(...\)`, without"):
        next(iter(READERS[reader](loader)))


def test_trainer_batches__are_refused_in_a_worker(
    train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: Any = MaskedDataset(train, JOINT).loader(batch_size=4).for_trainer(0).dataset
    assert next(iter(batches))

    monkeypatch.setattr(loader_module, "get_worker_info", lambda: "a worker")

    with pytest.raises(TypeError, match="without a DataLoader"):
        iter(batches)


def test_loader__is_refused_in_a_data_loader_that_accelerate_prepares(train: Any) -> None:
    """Accelerate would send the batches of rank 0 to all ranks."""
    accelerate = pytest.importorskip("accelerate")
    loader = MaskedDataset(train, JOINT).loader(batch_size=4)
    accelerator = accelerate.Accelerator(cpu=True)

    with pytest.raises(TypeError, match="without a DataLoader"):
        next(iter(accelerator.prepare(DataLoader(loader, batch_size=None))))
    assert accelerator.prepare(loader) is loader


WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a folder": (
        lambda shards: MaskedDataset(shards, JOINT),
        TypeError,
        r"split: expected a split, such as md.load\(folder\)\['train'\], or .*, got Shards",
    ),
    "taken rows": (
        lambda shards: MaskedDataset(shards["train"].take(range(4)), JOINT),  # type: ignore[arg-type]
        TypeError,
        r"expected a split, got rows, .*split.subset",
    ),
    "a rate that follows training, if static": (
        lambda shards: MaskedDataset(shards["train"], rate(shards["train"], "step"), static=True),
        ValueError,
        r"static: the rate of the strategy follows training, .* 0\.15",
    ),
    "a seed below 0": (
        lambda shards: MaskedDataset(shards["train"], JOINT, seed=-1),
        ValueError,
        "seed: expected an integer",
    ),
    "a rank that does not exist": (
        lambda shards: MaskedDataset(shards["train"], JOINT).loader(rank=2, world=2),
        ValueError,
        "rank: expected a number from 0 to 1, got 2",
    ),
    "a rank below 0": (
        lambda shards: MaskedDataset(shards["train"], JOINT).loader(rank=-1, world=1),
        ValueError,
        "rank: expected a number from 0 to 0, got -1",
    ),
    "a number of ranks alone": (
        lambda shards: MaskedDataset(shards["train"], JOINT).loader(world=1),
        ValueError,
        "rank, world: expected both or neither, got rank=None and world=1",
    ),
    "an unknown column": (
        lambda shards: MaskedDataset(shards["train"], JOINT).loader(columns=["label"]),
        ValueError,
        "columns: unknown column 'label'.*labels",
    ),
    "an epoch below 0": (
        lambda shards: MaskedDataset(shards["train"], JOINT).loader().set_epoch(-1),
        ValueError,
        "epoch: expected an integer",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_loader__refuses(folder: Path, what: str) -> None:
    call, error, message = WRONG[what]

    with pytest.raises(error, match=message):
        call(md.load(folder))


# Epochs --------------------------------------------------------------------------------------------------------------


def test_pass__is_followed_by_the_next_epoch(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader(batch_size=16)
    loader.set_epoch(1)

    passes = [all_lists(loader) for _ in range(3)]

    assert passes == [
        of_numpy(md.Batches(train, JOINT, batch_size=16, epoch=epoch)) for epoch in (1, 2, 3)
    ]


def test_iter__keeps_the_loaded_position_for_the_used_iterator(train: Any) -> None:
    """Trainers create iterators that they do not use."""
    dataset = MaskedDataset(train, JOINT)
    whole = all_lists(dataset.loader(16))
    half, again = dataset.loader(16), dataset.loader(16)
    list(itertools.islice(half, 3))
    again.load_state_dict(half.state_dict())

    iter(again)

    assert all_lists(again) == whole[3:]


# Resuming ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 5])
def test_state_dict__counts_returned_batches(train: Any, after: int) -> None:
    dataset = MaskedDataset(train, JOINT, seed=1)
    loader, again = dataset.loader(batch_size=16), dataset.loader(batch_size=16)
    loader.set_epoch(2)
    whole = of_numpy(md.Batches(train, JOINT, seed=1, epoch=2, batch_size=16))
    before = all_lists(itertools.islice(loader, after))

    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    again.set_epoch(2)
    rest = all_lists(again)

    assert before + rest == whole
    again.set_epoch(3)
    assert len(list(again)) == len(whole)


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_tokens": 60, "flat": True}])
def test_state_dict__resumes_at_every_batch(train: Any, options: dict[str, Any]) -> None:
    few = MaskedDataset(train.subset(documents=4, seed=0), JOINT, seed=1)

    assert_resumes(lambda: few.loader(**options))


@pytest.mark.parametrize("options", [{"batch_size": 4}, *BY_TOKENS])
def test_loader__resumes_on_another_number_of_ranks(train: Any, options: dict[str, Any]) -> None:
    dataset = MaskedDataset(train, JOINT, seed=5)
    two = [dataset.loader(rank=rank, world=2, **options) for rank in range(2)]
    seen = [batch["keys"] for loader in two for batch in itertools.islice(loader, 3)]
    assert two[0].state_dict() == two[1].state_dict()
    three = [dataset.loader(rank=rank, world=3, **options) for rank in range(3)]

    for loader in three:
        loader.load_state_dict(two[0].state_dict())
    rest = [batch["keys"] for loader in three for batch in loader]

    keys = set(torch.cat([*seen, *rest]).tolist())
    assert len(rest) > 3
    assert keys == set(train.examples().keys.view("int64").tolist())
    assert not set(torch.cat(seen).tolist()) & set(torch.cat(rest).tolist())


def test_load_state_dict__refuses_a_state_of_other_shards(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader()

    state = loader.state_dict()
    other = state | {"options": state["options"] | {"digest": "0"}}

    with pytest.raises(ValueError, match=f"state: expected digest = {train.digest}, got '0'"):
        loader.load_state_dict(other)


@pytest.mark.long
@pytest.mark.parametrize("world", [1, 2])
def test_loader__resumes_with_equal_batches_after_a_kill(
    folder: Path, train: Any, tmp_path: Path, world: int
) -> None:
    """SIGKILL after five batches on each rank, against an uninterrupted run in this process."""
    for die_after in (5, None):
        started = [
            processes.start(
                consume,
                str(folder),
                str(tmp_path / "run"),
                die_after,
                {"rank": r, "world": world},
            )
            for r in range(world)
        ]
        for process in started:
            process.join(PATIENCE_S)
            assert process.exitcode == (-9 if die_after else 0)

    for rank in range(world):
        whole = MaskedDataset(train, JOINT, seed=3).loader(batch_size=4, rank=rank, world=world)
        whole.set_epoch(1)
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
