from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate.relabel import relabel
from mslm_data.data.document import Span
from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason
from tests.made import relabelled


def test_relabel__renames_then_selects_labels() -> None:
    spans = [Span(0, 1, "DiseaseClass", "C1", 0.5), Span(2, 3, "Gene"), Span(4, 5, "Modifier")]
    rename = {"DiseaseClass": "Disease", "Modifier": "Disease"}

    every, _ = relabelled(spans, rename=rename, labels=())
    kept, left_out = relabelled(spans, rename=rename, labels=["Disease", "Modifier"])

    assert every == [Span(0, 1, "Disease", "C1", 0.5), Span(2, 3, "Gene"), Span(4, 5, "Disease")]
    assert kept == [every[0], every[2]]
    assert left_out == {Reason("label not wanted"): 1}


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
