from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Placeholder
from mslm_data.errors import AnnotateError, PipelineError
from mslm_data.segment import SEGMENTERS
from mslm_data.segment.spacy import SpacySentences
from mslm_data.testing import check_segmenter
from tests import made
from tests.made import sentences_of
from tests.spacy_made import ruler

pytest.importorskip("spacy")

LONG_WORD = "Stable" * 13
"""Text for long documents with few tokens."""

some_documents = st.one_of(made.documents_of_text(), made.documents_of_words())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(
        ruler(
            tmp_path_factory.mktemp("spacy") / "model",
            [{"label": "X", "pattern": "x"}],
            sentences=True,
        )
    )


@given(documents=st.lists(some_documents, max_size=4))
def test_spacy_sentences__pass_the_checks_of_all_segmenters(
    model: str, documents: list[Document]
) -> None:
    check_segmenter(SpacySentences(model=model), documents)


def test_model__gives_sentence_starts(model: str) -> None:
    document = Document(
        id="d", text="Seen. [**Dr. A. B**] left. \n\n Then home", placeholders=(Placeholder(6, 20),)
    )

    assert sentences_of(SpacySentences(model=model), document) == [(0, 5), (6, 26), (30, 39)]


def test_model__splits_long_documents(model: str) -> None:
    text = (f"{LONG_WORD} today. " * 8 + "\n") * 1500
    sentences = sentences_of(SpacySentences(model=model), Document(id="d", text=text))

    assert len(text) > 1_000_000
    assert {text[start:end] for start, end in sentences} == {f"{LONG_WORD} today."}
    assert len(sentences) == 12_000


def test_model__must_set_sentence_starts(tmp_path: Path) -> None:
    options = SpacySentences(model=str(ruler(tmp_path, [{"label": "X", "pattern": "x"}])))

    with pytest.raises(
        PipelineError,
        match=r"segmenter 'spacy': the pipeline '.*' sets no sentences; .* but has entity_ruler",
    ):
        sentences_of(options, Document(id="d", text="a. b."))


def test_model__must_exist() -> None:
    with pytest.raises(
        AnnotateError,
        match=r"segmenter 'spacy': no spaCy pipeline 'no_such_pipeline' is installed, .* its folder",
    ):
        sentences_of(SpacySentences(model="no_such_pipeline"), Document(id="d", text="a"))
    with pytest.raises(
        AnnotateError,
        match=r"segmenter 'spacy': no model given; set its option model .*--set segment\.model=",
    ):
        sentences_of(SpacySentences(), Document(id="d", text="a"))


def test_digest__depends_on_the_model(model: str) -> None:
    assert len(SpacySentences(model=model).digest()) == 64


def test_options__survive_pickling() -> None:
    options = SEGMENTERS.make("spacy", {"model": "m"})

    assert pickle.loads(pickle.dumps(options)) == options == SpacySentences(model="m")  # noqa: S301
