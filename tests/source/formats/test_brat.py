from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from mslm_data.data.document import Document, Part, SetAside, Span
from mslm_data.source.formats.brat import Brat
from mslm_data.source.recognise import recognise


def read(folder: Path, source: Brat | None = None) -> list[Document | SetAside]:
    source = source or Brat()
    return [
        document
        for paths in source.find([folder]).values()
        for path in paths
        for part in source.cut(Part(str(path)), target_bytes=1)
        for document in source.read(part)
    ]


def test_read__finds_annotations_in_a_folder_beside_the_texts(tmp_path: Path) -> None:
    for folder, name in (("texts", "n.txt"), ("texts", "o.txt"), ("ann", "n.ann"), ("x", "o.md")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("gout" if name[2:] != "ann" else "T1\tD 0 4\tgout\n")

    found, aside = read(tmp_path)

    assert recognise([tmp_path]).what == "brat"
    assert isinstance(found, Document)
    assert found.spans == (Span(0, 4, "D"),)
    assert isinstance(aside, SetAside)


@pytest.mark.long
def test_read__gives_the_true_numbers_of_jnlpba(real: Path, tmp_path: Path) -> None:
    with tarfile.open(real / "brat/jnlpba/standoff_all.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")

    splits = Brat().find([tmp_path])
    found = read(tmp_path)

    documents = [document for document in found if isinstance(document, Document)]
    assert {split: len(paths) for split, paths in splits.items()} == {"train": 2000, "test": 404}
    assert (len(found), len(documents)) == (2404, 2404)
    assert sum(len(document.spans) for document in documents) == 59_963
    assert not any(document.unplaced for document in documents)
