"""Commands on S3 behind a faulty proxy: the bytes of a local run, or one clear error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.io import remote
from tests import bucket as s3
from tests import made
from tests.bucket import Answer, Bucket, Fault, Meeting
from tests.cli.running import Done, run

VOCAB = made.SAMPLE / "vocab.txt"
NOTES = made.SAMPLE / "mimic" / "NOTEEVENTS.csv"
CORPUS = made.SAMPLE / "bc2gm"


@pytest.fixture(scope="module")
def served() -> Iterator[Bucket]:
    with s3.serving() as bucket:
        yield bucket


@pytest.fixture
def bucket(served: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket with configured clients and no delay between retries."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": served.url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "MSLM_DATA_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    served.reset()
    return served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built folder with several shards in the train split."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=2000))
    return out


@pytest.fixture(scope="module")
def url(served: Bucket, folder: Path) -> str:
    """The URL of the built folder, which tests do not change."""
    served.put("sets/ncbi/", b"")  # The empty object by which some tools represent a folder.
    return served.put_all(folder, "sets/ncbi")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline of notes with a term table."""
    path = tmp_path_factory.mktemp("pipeline") / "notes.toml"
    path.write_text(
        'name = "notes"\n[source]\nuse = "notes"\nshares = { train = 0.8, test = 0.2 }\n'
        '[segment]\nuse = "clinical"\n'
        f'[annotate]\nuse = "terms"\ntable = "{made.SAMPLE / "concepts.csv"}"\n'
        'labels = ["Treatment", "Disease", "Symptom"]\n'
    )
    return path


def built(source: str | Path, given: str | Path, out: Path) -> Done:
    return run(
        "build", "--source", source, "--input", given, "--out", out, "--tokenizer", VOCAB,
        "--workers", 1, "--json",
    )  # fmt: skip


@pytest.fixture(scope="module")
def notes_here(pipeline: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The folder of a local build of the notes."""
    out = tmp_path_factory.mktemp("notes") / "out"
    assert built(pipeline, NOTES, out).code == 0
    return made.tree(out)


def cached(tmp_path: Path) -> list[str]:
    """Return the files of the cache without locks."""
    found = (tmp_path / "cache").rglob("*")
    return sorted(path.name for path in found if path.is_file() and path.name[:6] != ".lock-")


def ended(done: Done, *, got: str, about: str) -> None:
    """Assert exit code 1 and one line with the place, the failure, the reason and the fix."""
    assert done.code == 1
    assert done.out == ""
    failed = r"(?:expected .*, got|cannot copy (?:the folder|it):|cannot read the manifest:)"
    assert re.fullmatch(rf"error: s3://\S*{about}: {failed} {got}.*; .*\n", done.err), done.err
    assert "very-secret" not in done.err


# Successful runs ----------------------------------------------------------------------------------


def test_build__of_a_corpus_equals_the_local_build(bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.put_all(CORPUS, "raw/bc2gm")
    bucket.put("raw/bc2gm/", b"")
    bucket.put("raw/bc2gm/empty/", b"")

    there = built("blurb/bc2gm", url, tmp_path / "there")
    here = built("blurb/bc2gm", CORPUS, tmp_path / "here")

    assert (there.code, here.code) == (0, 0)
    assert made.tree(tmp_path / "there") == made.tree(tmp_path / "here")


@pytest.mark.long
def test_build__downloads_again_when_the_object_changes(
    bucket: Bucket, pipeline: Path, notes_here: dict[str, bytes], tmp_path: Path
) -> None:
    url = bucket.put("raw/NOTEEVENTS.csv", NOTES.read_bytes().replace(b"ROW_ID", b"ROW_IX"))
    assert built(pipeline, url, tmp_path / "wrong").code == 1
    bucket.put("raw/NOTEEVENTS.csv", NOTES.read_bytes())  # The same size.

    for out in ("first", "second"):
        assert built(pipeline, url, tmp_path / out).code == 0
        assert made.tree(tmp_path / out) == notes_here
    assert bucket.requests["GET", "raw/NOTEEVENTS.csv"] == 2


# Transient faults ---------------------------------------------------------------------------------

FAULTS = [s3.broken, s3.short, s3.halved, s3.unmeasured, s3.reset, s3.busy]


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_build__is_the_same_after_two_faults(
    fault: Fault, bucket: Bucket, pipeline: Path, notes_here: dict[str, bytes], tmp_path: Path
) -> None:
    url = bucket.put("raw/NOTEEVENTS.csv", NOTES.read_bytes())
    bucket.befall(fault, ".csv", times=2)

    assert built(pipeline, url, tmp_path / "out").code == 0
    assert made.tree(tmp_path / "out") == notes_here


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_load__commands_print_the_same_after_two_faults(
    fault: Fault, bucket: Bucket, url: str, folder: Path
) -> None:
    bucket.befall(fault, ".json", times=2)
    bucket.befall(fault, ".arrow", times=2)

    assert run("mask-stats", url, "--json") == run("mask-stats", folder, "--json")
    assert run("verify", url, "--json") == run("verify", folder, "--json")


# Permanent faults ---------------------------------------------------------------------------------

REASONS = {
    s3.broken: "a connection that broke off",
    s3.short: r"\S",
    s3.halved: r"\S",
    s3.unmeasured: r"\S",
    s3.reset: r"no answer",
    s3.busy: "HTTP status 503",
    s3.denied: "HTTP status 403",
}


@pytest.mark.long
@pytest.mark.parametrize("fault", REASONS)
def test_build__permanent_fault_is_one_error_and_leaves_nothing(
    fault: Fault, bucket: Bucket, pipeline: Path, tmp_path: Path
) -> None:
    url = bucket.put("raw/NOTEEVENTS.csv", NOTES.read_bytes())
    bucket.befall(fault, ".csv")

    done = built(pipeline, url, tmp_path / "out")

    ended(done, got=REASONS[fault], about=r"raw/NOTEEVENTS\.csv")
    assert cached(tmp_path) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "ending"),
    [*((fault, ".arrow") for fault in REASONS), (s3.broken, ".json"), (s3.short, ".json")],
)
def test_load__permanent_fault_is_one_error_and_leaves_nothing_in_the_cache(
    fault: Fault, ending: str, bucket: Bucket, url: str, tmp_path: Path
) -> None:
    bucket.befall(fault, ending)

    ended(run("mask-stats", url, "--json"), got=REASONS[fault], about=r"sets/ncbi/\S*")
    ended(
        run("verify", url, "--json"), got=rf"{REASONS[fault]}.* for \S*\{ending}", about="sets/ncbi"
    )
    assert cached(tmp_path) == []


@pytest.mark.long
def test_load__commands_respect_their_time_limit(
    bucket: Bucket, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(answer: Answer) -> None:
        bucket.closing.wait(20)

    bucket.befall(silent, ".arrow")
    monkeypatch.setattr(remote, "STALL_S", 0.3)

    ended(run("mask-stats", url), got=r"no answer in time \(3 tries\)", about=r"\.arrow")
    ended(run("verify", url), got=r"no answer in time \(3 tries\)", about="sets/ncbi")
    assert cached(tmp_path) == []


@pytest.mark.long
def test_load__commands_explain_what_to_check_when_nothing_is_there(bucket: Bucket) -> None:
    ended(run("mask-stats", "s3://corpora/none"), got="no such file", about=r"manifest\.json")
    ended(run("verify", "s3://corpora/none"), got="no such file", about="none")
    ended(run("verify", "s3://elsewhere/none"), got="no such file", about="none")


# Changing objects ---------------------------------------------------------------------------------


def swapping(bucket: Bucket, key: str, data: bytes) -> Fault:
    """Replace an object while it is being sent."""

    def swap(answer: Answer) -> Answer:
        bucket.put(key, data)
        return answer

    return swap


@pytest.mark.long
@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("blocks", ["one", "many"])
def test_build__never_mixes_two_versions(
    blocks: str,
    method: str,
    bucket: Bucket,
    pipeline: Path,
    notes_here: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = NOTES.read_bytes()
    url = bucket.put("raw/NOTEEVENTS.csv", new.swapcase())  # The same size.
    bucket.befall(swapping(bucket, "raw/NOTEEVENTS.csv", new), ".csv", times=1, method=method)
    if blocks == "many":
        monkeypatch.setattr(remote, "_BLOCK", 5000)
        monkeypatch.setattr(remote, "_AT_ONCE", 5000)

    assert built(pipeline, url, tmp_path / "out").code == 0
    assert built(pipeline, url, tmp_path / "again").code == 0

    is_old = (blocks, method) == ("one", "GET")  # the only answer was the whole old object
    assert (made.tree(tmp_path / "out") == notes_here) == (not is_old)
    assert made.tree(tmp_path / "again") == notes_here


# Concurrent downloads -----------------------------------------------------------------------------


def _all_rows(url: str) -> object:
    return md.load(url)["train"].examples()


def _batches(url: str) -> object:
    return list(md.Batches(md.load(url)["train"], "joint", batch_size=4))


@pytest.mark.long
@pytest.mark.parametrize(
    "read",
    [
        _all_rows,
        _batches,
        lambda url: run("mask-stats", url),
        lambda url: run("verify", url),
    ],
    ids=["examples", "batches", "mask-stats", "verify"],
)
def test_fetch__downloads_many_shards_at_the_same_time(
    read: Callable[[str], object], bucket: Bucket, url: str, folder: Path
) -> None:
    count = len(md.load(folder)["train"].record.shards)
    wanted = min(count, remote.TOGETHER)
    bucket.meeting = Meeting(".arrow", wanted)

    read(url)

    assert wanted > 2
    assert bucket.meeting.most == wanted
