from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.source.reading.versions import (
    OTHER_ANNOTATOR,
    OTHER_VERSION,
    Version,
    VersionOptions,
)

versions = st.lists(
    st.none()
    | st.builds(
        Version,
        document=st.integers(0, 2),
        annotators=st.sets(st.sampled_from("ab"), max_size=2).map(frozenset),
        time=st.sampled_from(["", "2024-01", "2024-02"]),
        is_preferred=st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.parametrize("annotator", ["", "a"])
@pytest.mark.parametrize("of_several", ["first", "last", "all"])
@given(given_versions=versions)
def test_chosen__is_the_best_version_of_each_document(
    annotator: str, of_several: str, given_versions: list[Version | None]
) -> None:
    options = VersionOptions(annotator=annotator, of_several=of_several)  # type: ignore[arg-type]

    reasons = options.chosen(given_versions)

    # A simple implementation: sort an annotator's versions, and take the first or last.
    expected = ["" for _ in given_versions]
    for of in range(3):
        theirs = []
        for number, version in enumerate(given_versions):
            if version is None or version.document != of:
                continue
            if annotator and annotator not in version.annotators:
                expected[number] = OTHER_ANNOTATOR
            else:
                theirs.append((version.is_preferred, version.time, number))
        if of_several == "all" or not theirs:
            continue
        preferred = [one for one in theirs if one[0]] or theirs
        best = sorted(preferred)[0 if of_several == "first" else -1][2]
        for *_, number in theirs:
            if number != best:
                expected[number] = OTHER_VERSION
    assert reasons == expected
