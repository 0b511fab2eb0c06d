"""`mslm-data subset`: selected documents as a new built folder."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import stat
from collections import Counter
from pathlib import Path

import datasets
import pytest

import mslm_data as md
from mslm_data.errors import BuildError, CallError
from tests import made
from tests.cli.running import run
from tests.shard import damage

PIPELINE = made.pipeline_of(unit_bytes=300, encode={"max_tokens": 8, "keep_text": True})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many documents in several shards, with all optional text columns."""
    out = tmp_path_factory.mktemp("built") / "many"
    made.built(out, pipeline=PIPELINE)
    return out


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_subset__has_the_rows_of_the_view_and_complete_other_splits(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "few"

    done = run("subset", folder, "--documents", 4, "--seed", 3, "--out", out, "--json")

    whole, few = md.load(folder), md.load(out)
    view = whole["train"].subset(documents=4, seed=3)
    assert [few["train"][row] for row in range(len(few["train"]))] == [
        view[row] for row in range(len(view))
    ]
    for split in whole.splits:
        if split != "train":
            assert list(few[split]) == list(whole[split])
    (counts,) = done.json["subsets"]
    assert counts["documents"] == 4
    assert counts["rows"] == len(view)
    assert counts["mentions"] == few["train"].record.mentions
    assert few.labels == whole.labels


def test_subset__is_a_built_folder(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "few"
    run("subset", folder, "--share", "0.3", "--out", out)

    assert run("verify", out).code == 0
    assert datasets.load_from_disk(str(out))["train"].num_rows == len(md.load(out)["train"])
    assert "A subset: " in (out / "README.md").read_text()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()}
    assert modes == {0o600}


def test_build__does_not_take_a_subset_for_the_whole_corpus(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "few"
    run("subset", folder, "--documents", 4, "--out", out)

    with pytest.raises(BuildError, match=r"few: holds .*; different: subset; choose another --out"):
        made.built(out, pipeline=PIPELINE)


def test_subset__of_a_subset_records_both_draws(folder: Path, tmp_path: Path) -> None:
    run("subset", folder, "--documents", 5, "--out", tmp_path / "train")
    done = run(
        "subset", tmp_path / "train", "--split", "test", "--documents", 2, "--out", tmp_path / "both"
    )  # fmt: skip

    assert done.code == 0, done.err
    draws = [
        (draw["split"], draw["documents"]) for draw in md.load(tmp_path / "both").manifest.draws
    ]
    assert draws == [("train", 5), ("test", 2)]
    card = (tmp_path / "both" / "README.md").read_text()
    assert "5 documents of train by seed 0, then 2 documents of test by seed 0" in card
    assert run("verify", tmp_path / "both").code == 0


def test_subset__rejects_a_damaged_shard_of_another_split(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copy")
    shards = sorted((copied / "test").glob("*.arrow"))
    damage.flip(shards[-1], 100)

    done = run("subset", copied, "--documents", 4, "--out", tmp_path / "few")
    assert done.code == 1
    assert f"{shards[-1].name}: " in done.err
    shards[-1].unlink()
    assert run("subset", copied, "--documents", 4, "--out", tmp_path / "few").code == 1
    assert not (tmp_path / "few").exists()


def test_subset__warns_of_labels_with_fewer_mentions(folder: Path, tmp_path: Path) -> None:
    train = md.load(folder)["train"]
    (label,) = train.labels

    few = run("subset", folder, "--shots", 2, "--out", tmp_path / "few")
    many = run("subset", folder, "--shots", 10_000, "--out", tmp_path / "many")

    assert "warning" not in few.err
    assert (
        f"warning: --shots 10,000: split 'train' has only {train.record.mentions} of {label}"
        in many.err
    )


def test_subset__says_that_a_protected_folder_holds_patients_text(
    folder: Path, tmp_path: Path
) -> None:
    options = {"about.protected": True}
    md.build("blurb/bc2gm", sample=True, out=tmp_path / "notes", workers=1, options=options)

    plain = run("subset", folder, "--documents", 4, "--out", tmp_path / "few")
    notes = run("subset", tmp_path / "notes", "--documents", 4, "--out", tmp_path / "few-notes")

    assert "patients' text" not in plain.out
    assert f"{tmp_path / 'few-notes'}: patients' text" in notes.out


def test_subset__rejects_a_url_as_output(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = run("subset", folder, "--documents", 2, "--out", "s3://bucket/few")

    assert done.code == 2
    assert "expected a path of this machine, got a URL" in done.err
    with pytest.raises(CallError, match="out: expected a folder of this machine, got a URL"):
        md.load(folder).export(to="jsonl", out="s3://bucket/few")
    assert not list(tmp_path.iterdir())


def test_mix__rejects_a_folder_beside_its_subset(folder: Path, tmp_path: Path) -> None:
    for documents in (2, 5):
        run("subset", folder, "--documents", documents, "--out", tmp_path / str(documents))

    for folders in ((folder, tmp_path / "5"), (tmp_path / "2", tmp_path / "5")):
        with pytest.raises(ValueError, match=r"is of the same split as .*; pass one of them"):
            md.mix(folders)


def test_mix__rejects_a_subset_of_another_build_of_the_same_files(
    folder: Path, tmp_path: Path
) -> None:
    """Its rows have the same keys, so they would be masked alike."""
    made.built(tmp_path / "other", pipeline=made.pipeline_of(encode={"max_tokens": 9}))
    run("subset", tmp_path / "other", "--documents", 2, "--out", tmp_path / "few")

    with pytest.raises(ValueError, match="have rows in common"):
        md.mix([folder, tmp_path / "few"])


def test_subset__has_another_digest_for_other_documents(folder: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        run("subset", folder, "--documents", 5, "--seed", seed, "--out", tmp_path / str(seed))
    shards = [md.load(place) for place in (folder, tmp_path / "0", tmp_path / "1")]

    assert len({folder["train"].digest for folder in shards}) == 3
    assert len({folder["test"].digest for folder in shards}) == 1


def test_subset__equal_commands_write_equal_bytes(folder: Path, tmp_path: Path) -> None:
    for name, seed in (("first", 1), ("second", 1), ("third", 2)):
        run("subset", folder, "--documents", 5, "--seed", seed, "--out", tmp_path / name)

    assert digests(tmp_path / "first") == digests(tmp_path / "second")
    assert digests(tmp_path / "first") != digests(tmp_path / "third")


def test_subset__several_sizes_are_nested(folder: Path, tmp_path: Path) -> None:
    done = run("subset", folder, "--shots", "1,2,4", "--out", tmp_path / "few", "--json")

    names = [Path(subset["out"]).name for subset in done.json["subsets"]]
    assert names == ["shots-1", "shots-2", "shots-4"]
    documents = [
        {row["doc_id"] for row in md.load(tmp_path / "few" / name)["train"]} for name in names
    ]
    assert all(small <= large for small, large in itertools.pairwise(documents))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("shots", [1, 2, 5])
def test_subset__shots_selects_up_to_k_mentions_per_label(
    folder: Path, shots: int, seed: int
) -> None:
    train = md.load(folder)["train"]
    view = train.subset(shots=shots, seed=seed)

    def labels(rows: md.Split) -> Counter[int]:
        return Counter(label for row in rows for label in row["span_labels"])

    available = labels(train)
    few = labels(view)  # type: ignore[arg-type]
    assert all(few[label] >= min(shots, number) for label, number in available.items())
    smaller = {row["doc_id"] for row in train.subset(shots=max(shots - 1, 1), seed=seed)}
    assert smaller <= {row["doc_id"] for row in view}


def test_subset__masks_equal_those_of_the_full_folder(folder: Path, tmp_path: Path) -> None:
    run("subset", folder, "--documents", 3, "--out", tmp_path / "few")
    whole, few = md.load(folder)["train"], md.load(tmp_path / "few")["train"]
    joint = md.strategy("joint")

    def masks(rows: md.Split) -> dict[int, list[int]]:
        examples = rows.examples()
        kinds = joint.plan(examples, seed=1, epoch=2).kinds.values
        offsets = examples.input_ids.offsets
        return {
            key: kinds[start:stop].tolist()
            for key, (start, stop) in zip(
                examples.keys.tolist(), itertools.pairwise(offsets.tolist()), strict=True
            )
        }

    assert masks(few).items() <= masks(whole).items()


def test_subset__keeps_set_aside_documents_of_other_splits(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "text": "A cold."},
        {"id": "b", "text": "A cold."},
        {"id": "b", "text": ""},
    ]
    for split in ("train", "test"):
        path = tmp_path / "corpus" / f"{split}.jsonl"
        path.parent.mkdir(exist_ok=True)
        rows = [{**line, "id": f"{split}-{line['id']}", "entities": []} for line in lines]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = run(
        "build", "--source", "jsonl", "--input", tmp_path / "corpus", "--out", tmp_path / "all",
        "--tokenizer", made.SAMPLE / "vocab.txt", "--set", "source.max_loss=1", "--set", "annotate.use=none",
    )  # fmt: skip
    assert built.code == 0, built.err

    done = run("subset", tmp_path / "all", "--documents", 1, "--out", tmp_path / "few")

    assert done.code == 0, done.err
    splits = [
        json.loads(line)["split"]
        for line in (tmp_path / "few" / "set_aside.jsonl").read_text().splitlines()
    ]
    assert set(splits) == {"test"}
    assert run("verify", tmp_path / "few").code == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--documents", "1", "--share", "0.5"], 2, "--documents and --share"),
        ([], 2, "expected one of --documents"),
        (["--documents", "0"], 2, "--documents"),
        (["--documents", "3,3"], 2, "different"),
        (["--share", "0"], 2, "--share"),
        (["--documents", "100000"], 2, "--documents: expected an integer from 1 to"),
        (["--documents", "1", "--split", "trian"], 1, "did you mean 'train'"),
    ],
)
def test_subset__rejects_invalid_calls(
    folder: Path, tmp_path: Path, words: list[str], code: int, says: str
) -> None:
    done = run("subset", folder, *words, "--out", tmp_path / "few")

    assert done.code == code
    assert says in done.err
    assert not (tmp_path / "few").exists()


def test_subset__does_not_overwrite_a_folder(folder: Path, tmp_path: Path) -> None:
    before = digests(folder)

    done = run("subset", folder, "--documents", 1, "--out", folder)

    assert done.code == 1
    assert "expected a new folder" in done.err
    assert digests(folder) == before
