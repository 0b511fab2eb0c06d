from __future__ import annotations

import json
from pathlib import Path

import pytest

from mslm_data.data.document import Document, NotChosen, Part
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.row_sources import Doccano
from tests.source.formats.fixtures.doccano import ROWS


def test_read__takes_approved_rows_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [{"text": "A", "annotation_approver": name} for name in ("admin", None)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    found = list(Doccano(approved=True).read(Part(str(path))))

    assert isinstance(found[0], Document)
    assert found[1] == NotChosen("not approved")
    assert all(isinstance(one, Document) for one in Doccano().read(Part(str(path))))


def test_read__asks_for_names_of_numbered_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    entity = {"label": 1, "start_offset": 0, "end_offset": 4, "user": 1}
    path.write_text(json.dumps({"text": "Gout.", "annotations": [entity]}), encoding="utf-8")

    with pytest.raises(SourceError, match=r"column 'annotations', got integers .* tag_names = \["):
        list(Doccano().read(Part(str(path))))

    (found,) = Doccano(tag_names=("Drug", "Disease")).read(Part(str(path)))
    assert isinstance(found, Document)
    assert [span.label for span in found.spans] == ["Disease"]


def test_recognises__comments_beside_labels() -> None:
    path = Path("x.jsonl")

    assert all(Doccano().sniff(Sample(path, json.dumps(row).encode())).why for row in ROWS)
    assert not Doccano().sniff(Sample(path, b'{"text": "a", "label": []}')).why
