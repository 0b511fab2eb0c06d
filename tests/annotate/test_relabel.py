from __future__ import annotations

from mslm_data.data.document import Span
from tests.made import relabelled

SPANS = [Span(0, 1, "DiseaseClass", "C1", 0.5), Span(2, 3, "Gene"), Span(4, 5, "Modifier")]
RENAME = {"DiseaseClass": "Disease", "Modifier": "Disease"}


def test_relabel__renames_and_keeps_all_else() -> None:
    kept, left_out = relabelled(SPANS, rename=RENAME, labels=())

    assert kept == [Span(0, 1, "Disease", "C1", 0.5), Span(2, 3, "Gene"), Span(4, 5, "Disease")]
    assert left_out == {}


def test_relabel__leaves_out_and_counts_labels_not_wanted() -> None:
    kept, left_out = relabelled(SPANS, rename=RENAME, labels=["Disease"])

    assert [span.start for span in kept] == [0, 4]
    assert left_out == {"label not wanted": 1}


def test_relabel__looks_at_labels_after_renaming() -> None:
    kept, left_out = relabelled(SPANS, rename=RENAME, labels=["Modifier", "Gene"])

    assert [span.label for span in kept] == ["Gene"]
    assert left_out == {"label not wanted": 2}


def test_relabel__counts_nothing_where_all_are_wanted() -> None:
    assert relabelled(SPANS[1:2], rename={}, labels=["Gene"]) == (SPANS[1:2], {})


def test_relabel__renames_once() -> None:
    kept, _ = relabelled([Span(0, 1, "a")], rename={"a": "b", "b": "c"}, labels=())

    assert kept == [Span(0, 1, "b")]
