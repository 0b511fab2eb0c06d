from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate.spacy import SpacyNer
from mslm_data.data.document import Document, Placeholder
from mslm_data.segment.spacy import SpacySentences
from mslm_data.spacy_pipelines import pieces
from tests import made
from tests.spacy_made import ruler


@given(st.text("ab \n", max_size=60), st.integers(1, 20), st.sets(st.integers(0, 60), max_size=6))
def test_pieces__cover_the_text_and_split_no_placeholder(
    text: str, limit: int, cuts: set[int]
) -> None:
    bounds = sorted(cut for cut in cuts if cut <= len(text))
    placeholders = [Placeholder(a, b) for a, b in list(pairwise(bounds))[::2]]
    found = list(pieces(text, placeholders, limit=limit))

    assert "".join(text[start:end] for start, end in found) == text
    assert all(start < end for start, end in found)
    for start, end in found:
        assert not any(a < end < b for a, b, _ in placeholders)
        assert end - start <= limit or any(a <= start and end == b for a, b, _ in placeholders)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaa aa\n\nbb\nb ccc", "aaa aa\n\n"),
        ("aaa aa bb\nb ccc", "aaa aa bb\n"),
        ("aaa aa bb b ccc", "aaa aa bb "),
        ("aaaaaabbbbbcccc", "aaaaaabbbb"),
        (
            "a\n\naaaaaabbbbbcccc",
            "a\n\naaaaaab",
        ),  # A blank line too far back would make small pieces.
    ],
)
def test_pieces__end_at_the_end_of_text(text: str, first: str) -> None:
    start, end = next(pieces(text, (), limit=10))

    assert text[start:end] == first


def test_load_pipeline__prefers_a_folder_to_an_installed_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("spacy")
    ruler(tmp_path / "json", [{"label": "X", "pattern": "asthma"}])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spacy.util.is_package", lambda _: True)

    assert SpacyNer(model="json").labels() == ("X",)


@pytest.mark.long
def test_load_pipeline__annotator_uses_the_digested_pipeline(tmp_path: Path) -> None:
    model = tmp_path / "model"
    document = Document(id="d", text="asthma and diabetes")
    found = {}
    for terms in (["asthma"], ["asthma", "diabetes"]):
        shutil.rmtree(model, ignore_errors=True)
        ruler(model, [{"label": "X", "pattern": term} for term in terms])
        annotator = SpacyNer(model=str(model))
        digest = annotator.digest()
        [annotated] = made.annotated(annotator.start(), [document])
        found[digest] = [document.text[span.start : span.end] for span in annotated.spans]

    assert list(found.values()) == [["asthma"], ["asthma", "diabetes"]]


@pytest.mark.long
def test_load_pipeline__segmenter_uses_the_digested_pipeline(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    model = tmp_path / "model"
    document = Document(id="d", text="One. Two; three.")
    found = {}
    for stops in ([";"], [".", ";"]):
        shutil.rmtree(model, ignore_errors=True)
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer", config={"punct_chars": stops})
        nlp.to_disk(model)
        segmenter = SpacySentences(model=str(model))
        found[segmenter.digest()] = len(made.sentences_of(segmenter, document))

    assert list(found.values()) == [2, 3]
