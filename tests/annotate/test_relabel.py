from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate.relabel import relabel
from mslm_data.data.document import Span
from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason
from tests.made import relabelled

SPANS = [Span(0, 1, "DiseaseClass", "C1", 0.5), Span(2, 3, "Gene"), Span(4, 5, "Modifier")]
RENAME = {"DiseaseClass": "Disease", "Modifier": "Disease"}


def test_relabel__renames_labels_only() -> None:
    kept, left_out = relabelled(SPANS, rename=RENAME, labels=())

    assert kept == [Span(0, 1, "Disease", "C1", 0.5), Span(2, 3, "Gene"), Span(4, 5, "Disease")]
    assert left_out == {}


def test_relabel__removes_and_counts_unselected_labels() -> None:
    kept, left_out = relabelled(SPANS, rename=RENAME, labels=["Disease"])

    assert [span.start for span in kept] == [0, 4]
    assert left_out == {Reason("label not wanted"): 1}


def test_relabel__selects_labels_after_renaming() -> None:
    kept, left_out = relabelled(SPANS, rename=RENAME, labels=["Modifier", "Gene"])

    assert [span.label for span in kept] == ["Gene"]
    assert left_out == {Reason("label not wanted"): 2}


def test_relabel__counts_nothing_when_all_labels_are_selected() -> None:
    assert relabelled(SPANS[1:2], rename={}, labels=["Gene"]) == (SPANS[1:2], {})


def test_relabel__renames_once() -> None:
    kept, _ = relabelled([Span(0, 1, "a")], rename={"a": "b", "b": "c"}, labels=())

    assert kept == [Span(0, 1, "b")]


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=4), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("abx")),
    st.sets(st.sampled_from("abcdx")),
)
def test_relabel__does_not_depend_on_other_mentions(
    rows: list[list[str]], rename: dict[str, str], labels: set[str]
) -> None:
    spans = [
        [Span(place, place + 1, label) for place, label in enumerate(labels_of_one)]
        for labels_of_one in rows
    ]
    bases = 10 * np.arange(len(rows))

    kept, left_out = relabel(Mentions.from_rows(spans, bases), rename=rename, labels=sorted(labels))

    ours = [
        [span._replace(label=rename.get(span.label, span.label)) for span in of_one]
        for of_one in spans
    ]
    wanted = [[span for span in of_one if not labels or span.label in labels] for of_one in ours]
    assert kept.spans(bases) == wanted
    assert left_out.total() == sum(map(len, ours)) - sum(map(len, wanted))
    assert len(set(kept.names)) == len(kept.names)
