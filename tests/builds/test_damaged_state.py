"""Damaged state of an unfinished build: the next run recreates it."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import pytest

from mslm_data.errors import BuildError
from tests import made
from tests.builds.test_accounts import jsonl
from tests.made import build

PIPELINE = made.pipeline_of(
    source={"use": "jsonl", "duplicates": "drop", "duplicate_similarity": 1, "max_loss": 1},
    annotate={"use": "none"},
    unit_bytes=400,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make `in`, `expected`, and builds interrupted before and after copies were matched."""
    folder = tmp_path_factory.mktemp("damaged")
    first, *others = made.sample_lines()[:12]
    rows = [{"id": str(number), "text": text} for number, text in enumerate([first, *others])]
    rows[6:6] = [{"id": "copy", "text": first}, {"id": "0", "text": "another of this id"}]
    packed = jsonl(folder / "in", "train.jsonl", *rows) / "train.jsonl"
    (folder / "in" / "train.jsonl.gz").write_bytes(gzip.compress(packed.read_bytes(), mtime=0))
    packed.unlink()
    made.built(folder / "expected", folder / "in", PIPELINE)

    ends = {
        "signed": "duplicates.match",
        "matched": "worker.build_unit",
        "built": "story.plan_comparisons",
        "done": "story.check_losses",
        "joined": "story.finish",
    }
    for name, where in ends.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"mslm_data.builds.{where}", stop)
            with pytest.raises(KeyboardInterrupt):
                made.built(folder / name, folder / "in", PIPELINE)
    return folder


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def damage(path: Path, *, is_text: bool) -> None:
    """Flip a bit of a file; in text files, the last bit of the last letter or digit."""
    data = bytearray(path.read_bytes())
    places = [match.start() for match in re.finditer(rb"[0-9a-z]", data)] if is_text else []
    data[places[-1] if places else -1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("state", "files"),
    [
        ("signed", "signatures/*"),
        ("matched", "copies/train*"),
        ("matched", "staging/**/*.jsonl"),
        ("done", "pieces/*.arrow"),
        ("done", "receipts/*.json"),
        ("built", "copies/train*"),
        ("done", "duplicate_ids.json"),
        ("joined", "duplicate_ids.json"),
        ("joined", "receipts/*.json"),
        ("joined", "shards/*.json"),
    ],
)
def test_build__recreates_damaged_files(
    state: str, files: str, folders: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(folders / state, tmp_path / "out"))
    paths = [path for path in (out / ".build").glob(files) if path.is_file()]
    assert paths
    for path in paths:
        damage(path, is_text=path.suffix in (".json", ".jsonl"))

    made.built(out, folders / "in", PIPELINE)

    assert made.tree(out) == made.tree(folders / "expected")


@pytest.mark.parametrize("data", [b"", b"{}", None], ids=["empty", "another", "cut off"])
def test_build__names_a_damaged_plan(data: bytes | None, folders: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(folders / "done", tmp_path / "out"))
    plan = out / ".build" / "plan.json"
    plan.write_bytes(plan.read_bytes()[:-20] if data is None else data)

    with pytest.raises(BuildError, match=r"plan\.json: the plan of .* is damaged; remove"):
        build(PIPELINE, [folders / "in"], made.word_piece(), out, workers=1)
