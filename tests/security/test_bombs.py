"""Small or unstructured files that must not need much memory, in commands and in readers."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from mslm_data.data.document import Part, SetAside
from mslm_data.errors import AnnotateError, SourceError
from mslm_data.io import limits
from mslm_data.source import SOURCES
from mslm_data.source.reading.files import read_bytes
from tests import made
from tests.support.waiting import PATIENCE_S

MEGABYTE = 1 << 20

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="Linux says how much memory a process had"
)


def peak_of(*words: str) -> tuple[int, str, float]:
    """Run the command. Return its exit code, its message and its peak memory in MB."""
    command = [sys.executable, "-m", "mslm_data", *words]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        most = 0.0
        while process.poll() is None:
            most = max(most, peak(f"/proc/{process.pid}/status"))
            time.sleep(0.005)
        assert process.stderr is not None
        return process.returncode, process.stderr.read(), most


def peak(status: str) -> float:
    """Return the peak memory of a process in MB.

    `ru_maxrss` would include the process it was forked from.
    """
    lines = Path(status).read_text(encoding="utf-8").splitlines()
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return kilobytes[0] / 1024 if kilobytes else 0.0  # None for a process that has just ended.


def built(folder: Path, source: str, file: Path) -> tuple[int, str, float]:
    """Build a file with one worker."""
    pipeline = folder / "own.toml"
    pipeline.write_text(f'name = "own"\n[source]\nuse = "{source}"\n', encoding="utf-8")
    words = ["build", "--source", pipeline, "--input", file, "--out", folder / "out"]
    return peak_of(
        *map(str, words), "--tokenizer", str(made.SAMPLE / "vocab.txt"), "--workers", "1"
    )


@pytest.mark.long
@pytest.mark.parametrize("source", ["jsonl", "conll"])
def test_build__rejects_a_file_without_line_ends(tmp_path: Path, source: str) -> None:
    path = tmp_path / ("notes.jsonl" if source == "jsonl" else "notes.tsv")
    path.write_bytes(b'{"text": "x"}\n' if source == "jsonl" else b"x\tB-X\n\n" * 2000)
    os.truncate(path, 320 * MEGABYTE)  # Zeros that take no space on the disk.

    code, message, peak = built(tmp_path, source, path)

    assert code == 1
    assert "are its line ends missing?" in message
    assert peak < 1000  # Including the pages of the mapped file.


def test_read_bytes__rejects_a_file_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LARGEST", 1000)
    for name in ("rows.json", "rows.json.gz"):
        path = tmp_path / name
        data = b"[" + b" " * 999
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert len(read_bytes(path)) == 1000
        data += b"]"
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)

        with pytest.raises(
            SourceError, match=rf"^{name}: expected records, .* cut it into several"
        ):
            read_bytes(path)
        assert len(read_bytes(path, 1)) == 1000


def test_jsonl__sets_aside_a_row_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LARGEST_RECORD", 100)
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "spans": [%s]}\n{"text": "b", "spans": []}\n' % (" " * 100))

    first, second = SOURCES.make("jsonl", {}).read(Part(str(path)))

    assert isinstance(first, SetAside)
    assert "expected a record of at most" in first.reason.text
    assert second.text == "b"


@pytest.mark.parametrize(
    "inside",
    [
        b"<document>" + b"<passage/>" * 400_000 + b"</document>",
        b"<document><text>" + b" ab" * 1_400_000 + b"</text></document>",
        b"<!--" + b"x" * (4 << 20) + b"-->",
        b'<document id="' + b"x" * (4 << 20) + b'"></document>',
    ],
    ids=["elements", "text", "comment", "attribute"],
)
def test_bioc__rejects_an_element_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bytes
) -> None:
    monkeypatch.setattr(limits, "LARGEST_RECORD", MEGABYTE)
    path = tmp_path / "own.xml"
    path.write_bytes(b"<collection>" + inside + b"</collection>")

    with pytest.raises(SourceError, match=r"^own\.xml:1: expected a record of at most 32 MiB"):
        list(SOURCES.make("bioc", {}).read(Part(str(path))))


def test_bioc__reads_a_file_larger_than_the_record_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LARGEST_RECORD", MEGABYTE)
    document = b"<document><id>%d</id><passage><offset>0</offset><text>" + b"ab " * 30_000
    path = tmp_path / "own.xml"
    path.write_bytes(
        b"<collection>"
        + b"".join(document % number + b"</text></passage></document>" for number in range(20))
        + b"</collection>"
    )

    assert len(list(SOURCES.make("bioc", {}).read(Part(str(path))))) == 20


def test_notes__skips_a_line_without_end_and_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    header = "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,DESCRIPTION,ISERROR,TEXT"
    path.write_text(f"{header}\n", encoding="utf-8")
    os.truncate(path, 128 * MEGABYTE)
    source = SOURCES.make("notes", {})
    tracemalloc.start()
    try:
        records = list(source.read(Part(str(path))))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [type(record) for record in records] == [SetAside]
    assert peak < 64 * MEGABYTE


@pytest.mark.long
@pytest.mark.parametrize("source", ["jsonl", "pubtator"])
def test_cut__skips_blank_lines_in_constant_memory(tmp_path: Path, source: str) -> None:
    """The matcher kept a position for each blank line."""
    path = tmp_path / ("rows.jsonl" if source == "jsonl" else "rows.pubtator")
    path.write_bytes(b'{"text": "a"}\n' + b"\n" * (32 * MEGABYTE) + b'{"text": "b"}\n')
    limit = (
        "import sys; "
        "from mslm_data.source import SOURCES; from mslm_data.source.reading import records; "
        "from mslm_data.data.document import Part; "
        "list(records.cut_filled_lines(Part(sys.argv[1]), target_bytes=1000)); "
        "list(records.cut_at_gaps(Part(sys.argv[1]), target_bytes=1000)); "
        "print(*(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"
    )
    done = subprocess.run(
        [sys.executable, "-c", limit, str(path)],
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )

    assert int(done.stdout) / 1024 < 400


def test_term_table__rejects_a_line_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mslm_data.annotate.terms.term_table import read_terms

    monkeypatch.setattr(limits, "LONGEST_LINE", 1000)
    path = tmp_path / "terms.tsv"
    path.write_text("name\tlabel\n" + "x" * 2000, encoding="utf-8")

    with pytest.raises(AnnotateError, match=r"terms\.tsv:2: expected lines of at most"):
        read_terms(path, "umls")
