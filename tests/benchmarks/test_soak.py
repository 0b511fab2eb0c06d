"""The soak test: its checks, and one round."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak import corpora, rounds
from benchmarks.soak.commands import Ended, Running, complaints
from benchmarks.soak.page import growth, memory_findings, memory_table
from benchmarks.soak.reader import Reader
from benchmarks.soak.rounds import ROUNDS, Soak, _damage


def ended(code: int, *, out: str = "", err: str = "", **more: Any) -> Ended:
    return Ended(("verify",), code, out, err, more.get("hung", False), more.get("left", ()))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (ended(0), []),
        (ended(1, err="error: a.arrow: expected …, got …"), []),
        (ended(1, out="train/data.arrow: its checksum is another"), []),
        (ended(1), ["exit code 1 without a word"]),
        (
            ended(-signal.SIGBUS, err="a\nb\n"),
            ["verify: exit code -7, expected 0 or 1; b"],
        ),
        (ended(0, err="Exception ignored in: <x>"), ["'Exception ignored' on stderr"]),
        (ended(-signal.SIGABRT, hung=True, err="Fatal Python error"), ["hung for 300 s"]),
        (ended(0, left=("python worker",)), ["left behind: python worker"]),
    ],
)
def test_complaints__name_unexpected_ends(end: Ended, said: list[str]) -> None:
    assert list(complaints(end, 0, 1)) == said


def test_running__is_stopped_if_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.soak.commands.PATIENCE_S", 0.01)

    end = Running(["--version"], tmp_path / "command").end()

    assert (end.hung, end.code, end.left) == (True, -signal.SIGABRT, ())
    assert not (tmp_path / "command").exists()


def answers(kib: list[float], files: int = 9) -> list[dict[str, int]]:
    return [
        {"kib": int(value), "files": files + files * number // 50, "threads": 1}
        for number, value in enumerate(kib)
    ]


def test_growth__excludes_the_warm_up() -> None:
    chance = random.Random(0)
    noise = [chance.uniform(-4096, 4096) for _ in range(400)]
    warm = [min(number, 80) * 2048 + 200_000 for number in range(400)]
    flat = [a + b for a, b in zip(warm, noise, strict=True)]
    leaking = [value + number * 100 for number, value in enumerate(flat)]

    assert growth([int(value) for value in flat[:50]]) is None
    assert (found := growth([int(value) for value in flat]))
    assert found.is_flat
    assert (found := growth([int(value) for value in leaking]))
    assert not found.is_flat
    assert found.grown == pytest.approx(300 * 100 / 1024, rel=0.2)


def test_memory_findings__report_growth_of_any_kind() -> None:
    leaking = [200_000.0 + number * 500 for number in range(100)]

    assert memory_findings(answers([200_000.0] * 100, files=0)) == []
    assert [finding.partition(":")[0] for finding in memory_findings(answers(leaking))] == [
        "memory",
        "files",
    ]


def test_memory_table__says_how_much_it_grew() -> None:
    table = memory_table(answers([1024.0] * 60, files=0))

    assert "grew by 0.0 MiB over 45 answers" in table.about
    assert table.rows[0][:2] == (1, "1")
    assert "2 answers are too few" in memory_table(answers([1024.0] * 2)).about


def test_damage__changes_the_folder(tmp_path: Path) -> None:
    hows = set()
    for seed in range(60):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for name in ("a", "b"):
            (folder / name).write_bytes(name.encode() * 100)
        hows.add(_damage(folder, random.Random(seed)))

    assert hows == {"flipped", "truncated", "swapped", "emptied", "removed"}


@pytest.mark.parametrize("name", corpora.names()[:: corpora.VARIANTS])
def test_make__is_deterministic(name: str, tmp_path: Path) -> None:
    one = corpora.make(name, tmp_path / "one").inputs
    other = corpora.make(name, tmp_path / "other").inputs

    files = [path.relative_to(one) for path in one.rglob("*.*")]
    assert files
    assert all((one / path).read_bytes() == (other / path).read_bytes() for path in files)


def test_round__reports_its_own_error_and_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(soak: Soak, _: random.Random) -> Iterator[str]:
        soak.out.mkdir()
        yield "no manifest"
        raise RuntimeError(f"conll-0: Warning: x\nerror: {soak.scratch}/train.tsv: is gone")

    monkeypatch.setattr(rounds, "draw_round", lambda _: play)

    kind, findings = rounds.play_round(Soak(tmp_path, Reader(tmp_path / "err")), 0, 7)

    assert kind == "play"
    assert findings == [
        "round 7, play: no manifest",
        "round 7, play: RuntimeError: error: …/train.tsv: is gone",
    ]
    assert not (tmp_path / "round").exists()


@pytest.mark.long
def test_rounds__find_a_build_with_other_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One round takes seconds, and shows that the checks can fail.
    monkeypatch.setattr(Soak, "corpus", lambda self, _: corpora.make("conll-0", self.scratch))
    with Reader(tmp_path / "err") as reader:
        soak = Soak(tmp_path, reader)
        soak.out.parent.mkdir()

        assert list(rounds.build_in_the_reader(soak, random.Random(0))) == []
        assert list(rounds.epochs(soak, random.Random(0))) == []
        soak._peace["conll-0"] = "another digest"
        said = list(rounds._finished(soak, corpora.make("conll-0", tmp_path)))

    assert said == ["other bytes than those of a build in peace"]
    assert soak.counts["read: epoch"] == 5
    assert len(soak.memory) == 6
    assert all(do.__doc__ for do in ROUNDS)
