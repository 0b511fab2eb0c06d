"""Notes: NOTEEVENTS against an independent reader, other tables, and the choice of patients."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace

from benchmarks import mimic_iv
from benchmarks import notes as generator
from mslm_data import pipeline
from mslm_data.builds import stages
from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.io import resources
from mslm_data.source import SOURCES
from mslm_data.source.formats.notes import Notes
from mslm_data.source.reading import cohort
from mslm_data.source.reading.records import NOT_UTF8

GOLDEN = ["train", "validation", "train", "test", "train", "train"]
SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
Records = list[Document | SetAside | NotChosen]


def read(source: Notes, paths: Sequence[Path], *, target_bytes: int = 1 << 30) -> Records:
    return [
        r
        for path in paths
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for r in source.read(part)
    ]


def texts(records: Records) -> dict[str, str]:
    return {record.id: record.text for record in records if isinstance(record, Document)}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notes") / "NOTEEVENTS.csv"
    generator.write(path, notes=600, patients=120, seed=3)
    return path


@pytest.fixture(scope="module")
def frame(table: Path) -> pd.DataFrame:
    return pd.read_csv(table, dtype=str, keep_default_na=False)


def noteevents(real: Path) -> Path:
    return real / "clinical" / "notes" / "NOTEEVENTS.csv.gz"


@pytest.mark.parametrize("unpacked", [False, True])
def test_read__real_table_has_its_published_numbers(
    real: Path, tmp_path: Path, unpacked: bool
) -> None:
    path = noteevents(real)
    if unpacked:
        path = tmp_path / "NOTEEVENTS.csv"
        path.write_bytes(gzip.decompress(noteevents(real).read_bytes()))

    records = read(Notes(), [path], target_bytes=10_000)

    asides = [record for record in records if isinstance(record, SetAside)]
    assert len(records) == 1345
    assert len(asides) == 21
    assert {record.reason.text for record in asides} == {
        "expected a valid note, got one marked as an error"
    }
    frame = pd.read_csv(noteevents(real), dtype=str, keep_default_na=False)
    standing = frame[frame.ISERROR != "1"]
    assert texts(records) == dict(zip(standing.ROW_ID, standing.TEXT, strict=True))
    assert len(standing) == 1324


def test_read__real_placeholders_are_all_found(real: Path) -> None:
    documents = [
        r for r in read(Notes(placeholders="token"), [noteevents(real)]) if isinstance(r, Document)
    ]

    words = Counter(p.word for document in documents for p in document.placeholders)
    broken = [d for d in documents if any("\n" in d.text[p.start : p.end] for p in d.placeholders)]
    assert words.keys() == {"name", "hospital", "phone", "age", "date", "unknown", "number"}
    assert broken
    for document in documents:
        left = document.text
        for p in reversed(document.placeholders):
            left = left[: p.start] + left[p.end :]
        assert "[**" not in left
        assert "**]" not in left


def test_read__generated_table_equals_pandas(table: Path, frame: pd.DataFrame) -> None:
    standing = frame[frame.ISERROR != "1"]

    for target_bytes in (1, 5000, 1 << 30):
        records = read(Notes(), [table], target_bytes=target_bytes)
        assert texts(records) == dict(zip(standing.ROW_ID, standing.TEXT, strict=True))
        assert len(records) == len(frame)


def test_read__parquet_equals_csv(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "NOTEEVENTS.parquet"
    pd.read_csv(table)[["TEXT", "ISERROR", "SUBJECT_ID", "CATEGORY", "ROW_ID"]].to_parquet(
        path, row_group_size=50
    )

    for target_bytes in (1000, 1 << 30):
        records = read(Notes(placeholders="drop"), [path], target_bytes=target_bytes)
        assert texts(records) == texts(read(Notes(), [table]))
        assert len(records) == 600
    assert len(list(Notes().cut(Part(str(path)), target_bytes=1000))) > 1
    with pytest.raises(SourceError, match="found none or several of note_id; name the columns"):
        read(Notes(id_column="note_id"), [path])


def test_read__parquet_prefers_the_column_of_just_the_name(tmp_path: Path) -> None:
    rows = {"row_id": [1], "SUBJECT_ID": [7], "text": ["cleaned"], "TEXT": ["as it was"]}
    notes = Notes(category_column="", error_column="")
    for names in (rows, dict(reversed(rows.items()))):
        pd.DataFrame(names).to_parquet(tmp_path / "n.parquet")
        assert texts(read(notes, [tmp_path / "n.parquet"])) == {"1": "as it was"}

    with pytest.raises(SourceError, match="found none or several of Text; name the columns"):
        read(replace(notes, text_column="Text"), [tmp_path / "n.parquet"])


def test_read__parquet_agrees_with_csv_on_shares_and_sample(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "NOTEEVENTS.parquet"
    pd.read_csv(table).astype({"SUBJECT_ID": "float64"}).to_parquet(path)

    for options in ({"shares": SHARES, "_split": "train"}, {"patients": 20}):
        source = settled(Notes(**options), table)
        assert texts(read(source, [path])) == texts(read(source, [table]))
        assert source.settle([path]) == source.settle([table])


def test_read__folder_of_text_files(tmp_path: Path) -> None:
    for name in ("101-01.txt", "101-02.txt", "102-01.txt"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfNote of\r\n" + name.encode())
    (tmp_path / "103-01.txt").write_bytes(b"\xff")
    (tmp_path / "readme.md").touch()
    source = Notes(patient_pattern=r"^(\d+)-", subjects=(101, "103"))

    (paths,) = source.find([tmp_path]).values()
    records = read(source, paths)

    assert texts(records) == {"101-01": "Note of\r\n101-01.txt", "101-02": "Note of\r\n101-02.txt"}
    assert records[2:] == [
        cohort.OTHER_SUBJECT,
        SetAside(
            "103-01",
            "103-01.txt:1",
            NOT_UTF8,
        ),
    ]


def test_find__takes_the_notes_of_a_folder_of_tables(tmp_path: Path) -> None:
    for name in ("ADMISSIONS.csv", "NOTEEVENTS.csv.gz", "mine.csv"):
        (tmp_path / name).touch()

    assert Notes(pattern="NOTEEVENTS*").find([tmp_path]) == {
        "train": [tmp_path / "NOTEEVENTS.csv.gz"]
    }
    assert Notes(pattern="NOTEEVENTS*").find([tmp_path / "mine.csv"]) == {
        "train": [tmp_path / "mine.csv"]
    }
    with pytest.raises(SourceError, match=r"that fit \[source\] pattern 'X\*', found none"):
        Notes(pattern="X*").find([tmp_path])


def settled(source: Notes, *paths: Path) -> Notes:
    return replace(source, **source.settle(paths))


def test_categories__are_compared_without_white_space_and_case(
    table: Path, frame: pd.DataFrame
) -> None:
    records = read(Notes(categories=("physician", "Nursing/Other ")), [table])

    wanted = frame[frame.CATEGORY.isin(["Physician ", "Nursing/other"])]
    assert texts(records).keys() == set(wanted[wanted.ISERROR != "1"].ROW_ID)
    assert Counter(r for r in records if isinstance(r, NotChosen)) == {
        cohort.OTHER_CATEGORY: 600 - len(wanted)
    }


def test_sample__is_of_patients_in_any_order(
    table: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    source = settled(Notes(patients=30), table)
    chosen = texts(read(source, [table]))

    shuffled = tmp_path / "x.csv"
    frame.sample(frac=1, random_state=1).to_csv(shuffled, index=False)
    halves = [tmp_path / "a.csv", tmp_path / "b.csv"]
    frame[:300].to_csv(halves[0], index=False)
    frame[300:].to_csv(halves[1], index=False)

    by_id = dict(zip(frame.ROW_ID, frame.SUBJECT_ID, strict=True))
    patients = {by_id[doc_id] for doc_id in chosen}
    assert len(patients) == 30
    standing = frame[(frame.ISERROR != "1") & frame.SUBJECT_ID.isin(patients)]
    assert chosen.keys() == set(standing.ROW_ID)
    assert texts(read(settled(Notes(patients=30), shuffled), [shuffled])).keys() == chosen.keys()
    assert texts(read(settled(Notes(patients=30), *halves), halves)).keys() == chosen.keys()
    assert texts(read(source, [table], target_bytes=1)) == chosen
    assert texts(read(settled(Notes(patients=30, seed=1), table), [table])).keys() != chosen.keys()


def test_sample__counts_only_patients_with_a_note_of_the_categories(
    table: Path, frame: pd.DataFrame
) -> None:
    source = settled(Notes(patients=10, categories=("ECG",)), table)

    of = frame[frame.ROW_ID.isin(texts(read(source, [table])).keys())]
    assert of.SUBJECT_ID.nunique() == 10
    assert set(of.CATEGORY) == {"ECG"}


def test_sample__takes_all_if_patients_are_few(table: Path) -> None:
    assert texts(read(settled(Notes(patients=120), table), [table])) == texts(
        read(Notes(), [table])
    )
    assert Notes(patients=5000).settle([table]) == {"patients_last": cohort.ALL}


def test_sample__counts_only_patients_with_a_usable_note(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    rows = [f"{number},{number},x,,words" for number in range(2, 8)]
    path.write_text("\n".join(["ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT", *rows]) + "\n")
    chosen = [len(texts(read(settled(Notes(patients=3, seed=s), path), [path]))) for s in range(8)]

    # The id of the first note may be text, so the note is set aside.
    broken = path.read_text().replace("\n2,2,", '\n"two\nlines",2,')
    path.write_text(broken)
    without = [len(texts(read(settled(Notes(patients=3, seed=s), path), [path]))) for s in range(8)]

    assert chosen == without == [3] * 8


def test_sample__raises_before_settle(table: Path) -> None:
    with pytest.raises(ValueError, match="expected a source with the options that settle returns"):
        read(Notes(patients=3), [table])


def test_shares__divide_patients_and_lose_none(table: Path, frame: pd.DataFrame) -> None:
    source = Notes(shares=SHARES)
    found = source.find([table])
    by_id = dict(zip(frame.ROW_ID, frame.SUBJECT_ID, strict=True))

    records = {split: read(source.for_split(split), paths) for split, paths in found.items()}

    assert list(found) == list(SHARES)
    patients = [
        {by_id[record.id] for record in of if not isinstance(record, NotChosen)}
        for of in records.values()
    ]
    assert sum(map(len, patients)) == len(set.union(*patients)) == 120
    assert 80 < len(patients[0]) < 110
    assert sum(map(len, records.values())) == 600
    both = [
        record.id for of in records.values() for record in of if not isinstance(record, NotChosen)
    ]
    assert sorted(both) == sorted(frame.ROW_ID)


def test_shares__do_not_depend_on_the_sample_and_are_stable() -> None:
    source = Notes(shares=SHARES)

    assert [source.assign_split(str(10_000 + 7 * i)) for i in range(6)] == GOLDEN
    in_sample = [str(i) for i in range(20_000) if cohort.digest(0, "sample", str(i)) < "2"]
    assert 0.77 < sum(source.assign_split(p) == "train" for p in in_sample) / len(in_sample) < 0.83


def test_shares__a_damaged_record_is_set_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text('ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n1,5,x,,"a"b"\n2,6,x,,c\n')
    source = Notes(shares=SHARES)

    asides = {
        split: [r for r in read(source.for_split(split), paths) if isinstance(r, SetAside)]
        for split, paths in source.find([path]).items()
    }

    assert [len(of) for of in asides.values()] == [1, 0, 0]


def test_cut__makes_parts_of_a_small_share_larger(table: Path) -> None:
    source = Notes(shares=SHARES)

    few, many = (
        len(list(source.for_split(s).cut(Part(str(table)), target_bytes=20_000)))
        for s in ("test", "train")
    )
    assert few < many / 4


def test_of_split__does_not_change_a_source_of_whole_files() -> None:
    source = Notes()
    conll = SOURCES.make("conll", {})

    assert source.for_split("test") is source
    assert conll.for_split("test") is conll
    assert conll.settle([]) == {}


def test_generator__is_deterministic_and_has_the_quirks(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv.gz")]
    for path in paths:
        generator.write(path, notes=200, seed=5)
    data = paths[0].read_bytes()

    assert data == paths[1].read_bytes() == gzip.decompress(paths[2].read_bytes())
    frame = pd.read_csv(paths[0], dtype=str, keep_default_na=False)
    assert list(frame.columns) == list(generator.HEADER)
    assert frame.ISERROR.isin(["1"]).any()
    assert frame.CATEGORY.isin(["Physician "]).any()
    assert frame.TEXT.duplicated().any()
    assert b"\r\n" in data
    assert b'""dull""' in data
    assert b"\\labs\\" in data
    assert frame.TEXT.str.contains(r"\[\*\*[^*]*\n[^*]*\*\*\]").any()
    assert 1200 < frame.TEXT.str.len().mean() < 2200


def test_sample__shipped_notes_have_the_quirks_and_all_splits() -> None:
    source = Notes(shares=SHARES, placeholders="token")
    found = source.find([resources.path("vocab", "sample/mimic")])

    records = {split: read(source.for_split(split), paths) for split, paths in found.items()}

    assert all(texts(of) for of in records.values())
    assert sum(map(len, records.values())) == 40
    assert sum(isinstance(record, SetAside) for of in records.values() for record in of) == 1
    documents = [record for of in records.values() for record in of if isinstance(record, Document)]
    assert any("\r\n" in document.text for document in documents)
    assert any("\n" in d.text[p.start : p.end] for d in documents for p in d.placeholders)
    assert len({document.text for document in documents}) < len(documents)


def test_read__names_a_truncated_file(tmp_path: Path, table: Path) -> None:
    path = tmp_path / "n.csv.gz"
    path.write_bytes(gzip.compress(table.read_bytes())[:-2000])

    with pytest.raises(
        SourceError, match=r"n.csv.gz: cannot be read \(EOFError\); is the file whole"
    ):
        list(Notes().read(Part(str(path))))


@pytest.fixture
def note_module(table: Path, tmp_path: Path) -> Path:
    mimic_iv.write(table, tmp_path / "note")
    for path in (tmp_path / "note").iterdir():
        (tmp_path / "note" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return tmp_path / "note"


def test_read__the_tables_of_mimic_iv_as_pandas_does(note_module: Path) -> None:
    source = stages.make_source(pipeline.read("mimic-iv"))
    found = source.find([note_module])

    assert {path.name for path in found["train"]} == {"discharge.csv.gz", "radiology.csv.gz"}
    records = [r for split in found for r in read(source.for_split(split), found[split])]
    frame = pd.concat([pd.read_csv(path, dtype=str) for path in found["train"]])
    assert set(frame.note_type) == {"DS", "RR"}
    assert texts(records) == dict(zip(frame.note_id, frame.text, strict=True))
    blanks = [r.text[p.start : p.end] for r in records for p in r.placeholders]
    assert set(blanks) == {"___"}
    assert len(blanks) == frame.text.str.count("___").sum()
    assert {p.word for r in records for p in r.placeholders} == {"_"}


def test_read__discharge_summaries_of_mimic_iv_only(note_module: Path) -> None:
    options = ["source.categories=['DS']"]
    source = stages.make_source(pipeline.read("mimic-iv", sets=options))
    found = source.find([note_module])

    records = [r for split in found for r in read(source.for_split(split), found[split])]

    chosen = set(texts(records))
    assert all("-DS-" in doc_id for doc_id in chosen)
    assert len(chosen) + sum(isinstance(r, NotChosen) for r in records) == 591
    assert found == source.find([note_module])


def test_find__names_the_pipeline_of_another_release(
    note_module: Path, table: Path, tmp_path: Path
) -> None:
    of_iii, of_iv = (stages.make_source(pipeline.read(name)) for name in ("mimic", "mimic-iv"))

    for given in (note_module, note_module / "discharge.csv.gz"):
        with pytest.raises(SourceError, match=r"discharge.csv.gz: expected a table with the column"
                           r" ROW_ID, got one that --source mimic-iv reads: its header has note_id.* and text"):  # fmt: skip
            of_iii.find([given])
    with pytest.raises(SourceError, match=r"column note_id, got one that --source mimic reads: "):
        of_iv.find([table])
    assert Notes(id_column="NOTE_ID", category_column="", error_column="").find([note_module])
    assert Notes(id_column="").find([table])
