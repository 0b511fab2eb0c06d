"""Tests of the plug-in: run `pytest` in this folder, with the package installed."""

from pathlib import Path

import pytest
from mslm_data_gate import OTHER_TYPE, Gate

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.testing import check_damaged, check_source

PAGE = """<?xml version='1.0' encoding='utf-8'?>
<GateDocument version="3">
<TextWithNodes><Node id="0"/>Ada<Node id="3"/> of <Node id="7"/>Ghent<Node
id="12"/>.</TextWithNodes>
<AnnotationSet>
<Annotation Id="1" Type="Person" StartNode="0" EndNode="3"/>
<Annotation Id="2" Type="Location" StartNode="7" EndNode="12"/>
<Annotation Id="3" Type="Token" StartNode="0" EndNode="3"/>
</AnnotationSet>
<AnnotationSet Name="Others"><Annotation Type="Person" StartNode="7" EndNode="12"/></AnnotationSet>
</GateDocument>
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name in ("train/a.xml", "train/b.xml", "test/c.xml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(PAGE, encoding="utf-8")
    return tmp_path


def test_gate__keeps_its_promises(corpus: Path) -> None:
    check_source(Gate(), [corpus])
    check_damaged(Gate(), [corpus])


def test_read__gives_the_mentions(corpus: Path) -> None:
    (document,) = Gate().read(Part(str(corpus / "train" / "a.xml")))

    assert not isinstance(document, SetAside)
    assert (document.id, document.text) == ("a", "Ada of Ghent.")
    assert [tuple(span)[:3] for span in document.spans] == [(0, 3, "Person"), (7, 12, "Location")]


def test_read__counts_what_types_leaves_out(corpus: Path) -> None:
    (document,) = Gate(types=("Token",)).read(Part(str(corpus / "train" / "a.xml")))

    assert isinstance(document, Document)
    assert len(document.spans) == 1
    assert document.unplaced == {OTHER_TYPE: 2}


def test_read__sets_aside_what_has_no_numbers(corpus: Path) -> None:
    path = corpus / "train" / "a.xml"
    path.write_text(PAGE.replace('EndNode="3"', 'EndNode="Ada"'), encoding="utf-8")

    (aside,) = Gate().read(Part(str(path)))

    assert isinstance(aside, SetAside)
    assert "Ada" not in aside.reason.text
    assert aside.mentions == 2
