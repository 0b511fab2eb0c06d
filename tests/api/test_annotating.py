from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from mslm_data.api import annotating
from mslm_data.api.annotating import (
    InputTexts,
    Told,
    annotate,
    appending,
    check_losses,
    check_sets,
    find_texts,
)
from mslm_data.api.building import read_named
from mslm_data.data.documents import Documents
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError, BuildError, PipelineError, SourceError
from tests.io.locking import without_flock

MADE = {"model": "digest"}
FIRST = '{"id": "first", "entities": []}\n'
SECOND = '{"id": "second", "entities": [{"start": 1, "end": 2, "label": "X", "score": 1.0}]}\n'
THIRD = '{"id": "third", "entities": []}\n'

WRITER = f"""
import sys
from pathlib import Path
from mslm_data.api.annotating import appending, find_texts
from mslm_data.api.building import read_named

texts = find_texts(read_named("text"), [sys.argv[2]])
with appending(Path(sys.argv[1]), {MADE!r}, texts) as (write, _):
    write({FIRST!r})
    print("writing", flush=True)
    sys.stdin.readline()
    write({SECOND!r})
"""


def note_beside(out: Path) -> Path:
    return out.parent / "notes" / "note.txt"


def texts_of(out: Path) -> InputTexts:
    return find_texts(read_named("text"), [str(note_beside(out))])


@contextmanager
def other(out: Path) -> Iterator[subprocess.Popen[str]]:
    """Run another process that has written a line, and writes a second after one of its input."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(out), str(note_beside(out))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            yield process
        finally:
            process.kill()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The path of a file of lines, with a note that it can be of."""
    out = tmp_path / "found.jsonl"
    note_beside(out).parent.mkdir()
    note_beside(out).write_text("Pain.")
    return out


@pytest.mark.parametrize("name", ["found.jsonl", "link.jsonl"])
def test_appending__refuses_a_file_that_another_process_writes(
    out: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "link.jsonl").symlink_to(out)
    with other(out) as process:
        record = (tmp_path / "found.jsonl.made.json").read_bytes()
        (tmp_path / "link.jsonl.made.json").write_bytes(record)
        with pytest.raises(
            AnnotateError,
            match=rf"/{name}: expected a file that no other process writes, got one that another "
            "`mslm-data annotate` is writing; wait for it, or name another --out$",
        ):
            appending(tmp_path / name, MADE, texts_of(out)).__enter__()
        process.communicate("\n")

    assert process.returncode == 0
    with appending(tmp_path / name, MADE, texts_of(out)) as (write, done):
        write(THIRD)
    assert done == ["first", "second"]
    assert out.read_text() == FIRST + SECOND + THIRD


def test_appending__leaves_no_lock(out: Path, tmp_path: Path) -> None:
    with appending(out, MADE, texts_of(out)) as (write, _):
        write(FIRST)
        lock = tmp_path / ".found.jsonl.lock"
        mode = lock.stat().st_mode & 0o777

    with pytest.raises(KeyboardInterrupt), appending(out, MADE, texts_of(out)):
        raise KeyboardInterrupt

    assert mode == 0o600
    assert names_in(tmp_path) == ["found.jsonl", "found.jsonl.made.json"]


def test_appending__goes_on_after_a_kill(out: Path, tmp_path: Path) -> None:
    with other(out) as process:
        process.kill()
        process.wait()
        left = names_in(tmp_path)

        with appending(out, MADE, texts_of(out)) as (write, done):
            write(THIRD)

    assert ".found.jsonl.lock" in left
    assert done == ["first"]
    assert out.read_text() == FIRST + THIRD
    assert names_in(tmp_path) == ["found.jsonl", "found.jsonl.made.json"]


def test_appending__says_whose_file_stands_for_a_lock(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(fcntl, "flock", fcntl.flock)
    without_flock("ENOSYS")
    owner = tmp_path / ".found.jsonl.lock.owner"
    owner.write_text("4711\nnode-17\n", encoding="ascii")
    owner.chmod(0o600)

    with pytest.raises(AnnotateError, match="belongs to process 4711 on node-17: if that is gone"):
        appending(out, MADE, texts_of(out)).__enter__()

    owner.unlink()
    with appending(out, MADE, texts_of(out)) as (write, _):
        write(FIRST)
    assert names_in(tmp_path) == ["found.jsonl", "found.jsonl.made.json"]


def test_appending__overwrites_no_line_where_a_lock_is_granted_twice(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotating, "locked", lambda *_, **__: nullcontext())

    with appending(out, MADE, texts_of(out)) as (write, _):
        write(FIRST)
        with appending(out, MADE, texts_of(out)) as (write_too, _):
            write(SECOND)
            write_too(THIRD)

    assert out.read_text() == FIRST + SECOND + THIRD


# Inputs of a file that is gone on with -----------------------------------------------------------


class Found(NamedTuple):
    start: int
    end: int
    label: str
    score: float


class Whole:
    """A tagger to which each text is one mention, so that lines tell texts by their lengths."""

    def mentions(self, documents: Documents, *, batch_size: int) -> list[list[Found]]:
        return [[Found(0, len(document.text), "X", batch_size)] for document in documents]


WHOLE: Any = Whole()


class Beside(Whole):
    """A tagger whose scores depend on the texts beside one, as those of models do."""

    def mentions(self, documents: Documents, *, batch_size: int) -> list[list[Found]]:
        return super().mentions(documents, batch_size=len(documents.line))


def annotated(out: Path, *inputs: object, sets: tuple[str, ...] = (), tagger: Any = WHOLE) -> Told:
    """Annotate inputs as the command does."""
    texts = find_texts(read_named("text", sets=sets), [str(given) for given in inputs])
    with appending(out, MADE, texts) as (write, done):
        return annotate(texts, tagger, write, batch_size=1, done=done)


def lengths_in(out: Path) -> list[tuple[str, int]]:
    """Return the ids of a file's lines in order, each with the length of the text it is of."""
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return [(row["id"], row["entities"][0]["end"]) for row in rows]


def inputs_of(out: Path) -> list[str]:
    record = json.loads(out.with_name(f"{out.name}.made.json").read_text())
    return [file["name"] for file in record["inputs"]]


def write_rows(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_annotate__refuses_a_table_with_a_new_first_row(out: Path, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "s.jsonl", "one", "three")
    annotated(out, table)
    before = out.read_text()
    write_rows(table, "secret", "one", "three")

    with pytest.raises(
        AnnotateError,
        match=r"/found.jsonl: expected input s.jsonl as it was when its lines were written, got a "
        "file of another size or time of change; remove the file of lines and run the same "
        "command again, or name another --out$",
    ):
        annotated(out, table)
    assert out.read_text() == before

    out.unlink()
    annotated(out, table)
    assert lengths_in(out) == [("s:0", 6), ("s:1", 3), ("s:2", 5)]


def test_annotate__refuses_an_edited_text_of_the_same_size(out: Path) -> None:
    note = note_beside(out)
    annotated(out, note)
    stamp = note.stat()
    note.write_text("Cold.")
    os.utime(note, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))

    with pytest.raises(AnnotateError, match=r"expected input note\.txt as it was"):
        annotated(out, note)


def test_annotate__takes_further_files_wherever_they_sort(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    write_rows(folder / "2024" / "s.jsonl", "a", "bb")
    annotated(out, folder)

    # The new rows have the ids of the old ones, and come first among the files.
    write_rows(folder / "2023" / "s.jsonl", "ccc", "dddd")
    told = annotated(out, folder)
    again = annotated(out, folder)

    assert (told.documents, told.earlier) == (4, 2)
    assert (again.documents, again.earlier) == (4, 4)
    assert lengths_in(out) == [("s:0", 1), ("s:1", 2), ("s:0", 3), ("s:1", 4)]
    assert inputs_of(out) == ["2024/s.jsonl", "2023/s.jsonl"]


def test_annotate__resumes_from_other_folders_in_another_order(out: Path, tmp_path: Path) -> None:
    first = write_rows(tmp_path / "first" / "s.jsonl", "a", "bb")
    second = write_rows(tmp_path / "second" / "s.jsonl", "ccc")
    annotated(out, first, second)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text(lines[0])
    (tmp_path / "first").rename(tmp_path / "moved")

    annotated(out, second, tmp_path / "moved" / "s.jsonl")

    assert lengths_in(out) == [("s:0", 1), ("s:1", 2), ("s:0", 3)]


def test_annotate__refuses_another_file_of_the_same_name(out: Path, tmp_path: Path) -> None:
    annotated(out, write_rows(tmp_path / "first" / "s.jsonl", "a"))

    with pytest.raises(AnnotateError, match=r"expected input s\.jsonl as it was"):
        annotated(out, write_rows(tmp_path / "second" / "s.jsonl", "bb"))


def test_annotate__refuses_to_go_on_without_an_input(out: Path, tmp_path: Path) -> None:
    annotated(out, note_beside(out))

    with pytest.raises(
        AnnotateError,
        match=r"expected input note\.txt, whose lines are there, among the inputs, got none of that "
        "name; name the inputs of all runs with --input, or another --out",
    ):
        annotated(out, write_rows(tmp_path / "s.jsonl", "a"))


def test_annotate__takes_a_mended_file_that_had_no_line(out: Path) -> None:
    folder = note_beside(out).parent
    bad = folder / "bad.txt"
    bad.write_bytes(b"caf\xe9")
    annotated(out, folder)
    assert inputs_of(out) == ["note.txt"]

    bad.write_text("mended")
    annotated(out, folder)

    assert lengths_in(out) == [("note", 5), ("bad", 6)]


def test_annotate__names_no_file_that_an_ended_run_had_not_begun(out: Path, tmp_path: Path) -> None:
    class Ended(Whole):
        def mentions(self, documents: Documents, *, batch_size: int) -> list[list[Found]]:
            if "b" in documents.line:
                raise KeyboardInterrupt
            return super().mentions(documents, batch_size=batch_size)

    tagger: Any = Ended()
    long = write_rows(tmp_path / "a.jsonl", "a" * (1 << 18))
    texts = find_texts(read_named("text"), [str(long), str(write_rows(tmp_path / "b.jsonl", "b"))])
    with pytest.raises(KeyboardInterrupt), appending(out, MADE, texts) as (write, done):
        annotate(texts, tagger, write, batch_size=1, done=done)

    assert inputs_of(out) == ["a.jsonl"]


def test_annotate__ends_with_the_same_bytes_wherever_it_was_killed(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed run leaves the record of its beginning, and lines up to any byte."""
    monkeypatch.setattr(annotating, "_DOCUMENTS", 3)
    inputs = [
        write_rows(tmp_path / "a.jsonl", *("a" * number for number in range(1, 6))),
        note_beside(out),
        write_rows(tmp_path / "b.jsonl", "b", "bb"),
    ]
    beside = out.with_name(f"{out.name}.made.json")
    with appending(out, MADE, find_texts(read_named("text"), [str(path) for path in inputs])):
        at_the_beginning = beside.read_bytes()
    out.unlink()
    annotated(out, *inputs, tagger=Beside())
    whole, record = out.read_bytes(), beside.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]

    for end in [0, *ends, *(end - 1 for end in ends), *(end - 9 for end in ends)]:
        out.write_bytes(whole[:end])
        beside.write_bytes(at_the_beginning)

        told = annotated(out, *inputs, tagger=Beside())

        assert out.read_bytes() == whole
        assert beside.read_bytes() == record
        assert told.documents == len(ends) == 8
        assert told.earlier == sum(line_end <= end for line_end in ends)


@pytest.mark.parametrize("changes", ["a.jsonl", "b.jsonl"])
def test_annotate__writes_no_line_of_a_file_that_changed_after_the_run_began(
    changes: str, out: Path, tmp_path: Path
) -> None:
    class Late(Whole):
        def mentions(self, documents: Documents, *, batch_size: int) -> list[list[Found]]:
            if "a" in documents.line:
                write_rows(tmp_path / changes, "changed", "meanwhile")
            return super().mentions(documents, batch_size=batch_size)

    tagger: Any = Late()
    inputs = [write_rows(tmp_path / "a.jsonl", "a" * (1 << 18)), write_rows(tmp_path / "b.jsonl")]
    texts = find_texts(read_named("text"), [str(path) for path in inputs])
    with (
        pytest.raises(SourceError, match=rf"{changes}: expected a file that stays as it is"),
        appending(out, MADE, texts) as (write, done),
    ):
        annotate(texts, tagger, write, batch_size=1, done=done)

    whole = {"a.jsonl": [], "b.jsonl": [("a:0", 1 << 18)]}[changes]
    assert lengths_in(out) == whole
    assert inputs_of(out) == [name for name in ("a.jsonl",) if whole]

    annotated(out, *inputs)

    assert [length for _, length in lengths_in(out)] == [length for _, length in whole] + [7, 9]


def test_annotate__refuses_lines_of_other_documents(out: Path) -> None:
    note = note_beside(out)
    annotated(out, note)
    of_note = out.read_text()

    out.write_text(FIRST)
    with pytest.raises(
        AnnotateError,
        match="expected document 'first', which has line 1 of --out, got 'note'; remove the file",
    ):
        annotated(out, note)
    out.write_text(of_note + FIRST)
    with pytest.raises(
        AnnotateError, match=r"expected the 2 documents that have a line of --out, got 1; remove"
    ):
        annotated(out, note)
    assert out.read_text() == of_note + FIRST


def test_annotate__never_goes_on_with_standard_input(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    give(b"one")
    annotated(out, "-")
    assert lengths_in(out) == [("stdin", 3)]

    for given in ("-", note_beside(out)):
        give(b"another")
        with pytest.raises(
            AnnotateError, match="expected a new file, as texts of standard input cannot be"
        ):
            annotated(out, given)
    assert lengths_in(out) == [("stdin", 3)]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8"])
@pytest.mark.parametrize("documents", ["file", "line"])
def test_annotate__reads_standard_input_in_the_encoding_that_is_said(
    encoding: str, documents: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "na\u00efve".encode(encoding)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    told = annotated(
        out, "-", sets=(f"source.encoding={encoding}", f"source.documents={documents}")
    )

    assert told.set_aside.total() == 0
    assert [length for _, length in lengths_in(out)] == [5]


def test_annotate__reads_lines_of_standard_input_as_they_stand(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotating, "_LARGEST", 8)
    data = b"\xef\xbb\xbfone\r\n \t\n" + "\ufefftwo\n".encode() + b"\xff\n" + b"x" * 20 + b"\nsix"
    stream = io.BytesIO(data)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))

    told = annotated(out, "-", sets=("source.documents=line",))

    assert lengths_in(out) == [("stdin:0", 3), ("stdin:1", 4), ("stdin:4", 3)]
    assert sorted(told.places.values()) == ["stdin:4", "stdin:5"]
    assert not stream.closed


def test_annotate__goes_on_below_its_input(out: Path) -> None:
    inside = note_beside(out).with_name("found.jsonl")
    annotated(inside, inside.parent)

    assert annotated(inside, inside.parent).earlier == 1


# Options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "annotate.min_scor",
        "annotate.use",
        "encode.max_tokens",
        "shard.unit_bytes",
        "about.title",
        "source.duplicates",
        "source.duplicate_similarity",
        "source.leave_out",
        "source.sample",
        "source.fetch",
    ],
)
def test_check_sets__refuses_what_only_builds_have(path: str) -> None:
    with pytest.raises(
        PipelineError,
        match=rf"^--set {path}: expected an option of how documents are read, such as "
        r"source\.text_column, source\.documents or source\.max_loss, got one that only builds have; "
        "leave it out$",
    ):
        check_sets(["source.documents=line", f" {path} = 8"])


@pytest.mark.parametrize(
    "text", ["source.max_loss=1", "source.splits.train=['*']", "about.protected=true", "sorce.x=1"]
)
def test_check_sets__leaves_the_others_to_the_pipeline(text: str) -> None:
    check_sets([text])


# Losses ------------------------------------------------------------------------------------------


class Words:
    """A tagger to which each word is a mention."""

    def mentions(self, documents: Documents, *, batch_size: int) -> list[list[Found]]:
        return [
            [Found(*match.span(), "X", batch_size) for match in re.finditer(r"\w+", document.text)]
            for document in documents
        ]


def notes_of(path: Path, *rows: tuple[str, str]) -> InputTexts:
    """Return a table of notes, each with its error flag and its text."""
    lines = [f"{n},{n},Nursing,{flag},{text}\n" for n, (flag, text) in enumerate(rows)]
    path.write_text("ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n" + "".join(lines))
    return find_texts(read_named("mimic"), [str(path)])


@pytest.mark.parametrize("handling", ["keep", "token", "drop"])
def test_annotate__gives_no_entity_in_a_placeholder(tmp_path: Path, handling: str) -> None:
    text = "Seen by [**Last Name**] today"
    notes_of(tmp_path / "notes.csv", ("", text))
    pipeline = read_named("mimic", sets=[f"source.placeholders={handling}"])
    texts = find_texts(pipeline, [str(tmp_path / "notes.csv")])
    tagger: Any = Words()
    lines: list[str] = []

    told = annotate(texts, tagger, lines.append, batch_size=1, show_text=True)

    entities = json.loads("".join(lines))["entities"]
    assert [entity["text"] for entity in entities] == ["Seen", "by", "today"]
    assert all(text[one["start"] : one["end"]] == one["text"] for one in entities)
    assert (told.entities, told.left_out) == (3, {Reason("in a placeholder"): 2})


def test_check_losses__does_not_count_withdrawn_notes(tmp_path: Path) -> None:
    tagger: Any = Words()
    pipeline = read_named("mimic")
    withdrawn = notes_of(tmp_path / "notes.csv", ("1", "Wrong."), ("", "Well."))
    told = annotate(withdrawn, tagger, lambda _: None, batch_size=1)
    check_losses(told, pipeline)
    assert told.set_aside.total() == 1

    rows = [("1", "Wrong."), ("1", "Wrong."), ("maybe", "Odd."), ("", "Well.")]
    told = annotate(notes_of(tmp_path / "more.csv", *rows), tagger, lambda _: None, batch_size=1)
    with pytest.raises(
        BuildError,
        match=r"got 1 of 4\n  1: expected an error flag .*, first at more\.csv:4; name .*\n"
        "mend it and run the same command again, with another --out if one was named; --set "
        "source.max_loss=1",
    ):
        check_losses(told, pipeline)


# Names -------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_annotate__resumes_whatever_characters_names_have(out: Path) -> None:
    folder = note_beside(out).parent
    (folder / "\u202e\u00e9 '\"\n.txt").write_text("a")
    annotated(out, folder)

    assert annotated(out, folder).earlier == 2


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_annotate__takes_names_that_are_not_text(out: Path) -> None:
    folder = note_beside(out).parent
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("a")

    assert annotated(out, folder).documents == 2
    assert inputs_of(out) == ["note.txt", "\\udcff.txt"]
    assert [doc_id for doc_id, _ in lengths_in(out)] == ["note", "\\udcff"]
    assert annotated(out, folder).earlier == 2
