from __future__ import annotations

import re
from pathlib import Path

import pytest

from mslm_data.annotate.cached import BLANK, IN_PLACEHOLDER, FoundMentions
from mslm_data.annotate.spacy import SpacyNer
from mslm_data.data.document import Document, Placeholder, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError
from tests import made
from tests.spacy_made import ruler

PATTERNS = [
    {
        "label": "DISEASE",
        "pattern": [{"LOWER": "heart"}, {"IS_SPACE": True, "OP": "?"}, {"LOWER": "failure"}],
        "id": "C1",
    },
    {"label": "DRUG", "pattern": [{"LOWER": "aspirin"}, {"IS_SPACE": True, "OP": "?"}]},
    {"label": "DRUG", "pattern": [{"IS_SPACE": True}, {"LOWER": "codeine"}]},
    {"label": "BLANK", "pattern": [{"ORTH": "\n\n\n"}]},
    {"label": "NAME", "pattern": [{"LOWER": "name"}]},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(ruler(tmp_path_factory.mktemp("spacy") / "model", PATTERNS))


def annotate(options: SpacyNer, *texts: str) -> list[FoundMentions]:
    return made.annotated(options.start(), [Document(id="d", text=text) for text in texts])


HIDDEN = "[**Name 1**]"


@pytest.mark.parametrize(
    ("text", "spans", "left_out"),
    [
        (
            "x Heart\nfailure, aspirin",
            (Span(2, 15, "DISEASE", "C1"), Span(17, 24, "DRUG")),
            {},
        ),
        ("Aspirin\nand\n\n\naspirin", (Span(0, 7, "DRUG"), Span(14, 21, "DRUG")), {BLANK: 1}),
        ("or\ncodeine", (Span(3, 10, "DRUG"),), {}),
        (f"{HIDDEN} name", (Span(13, 17, "NAME"),), {IN_PLACEHOLDER: 1}),
    ],
)
def test_annotate__returns_entities_without_white_space_and_placeholders(
    model: str, text: str, spans: tuple[Span, ...], left_out: dict[Reason, int]
) -> None:
    placeholders = (Placeholder(0, len(HIDDEN)),) if text.startswith(HIDDEN) else ()
    document = Document(id="d", text=text, placeholders=placeholders)

    [found] = made.annotated(SpacyNer(model=model).start(), [document])

    assert found == FoundMentions(spans, left_out)


@pytest.mark.parametrize("piece", [1, 8, 20, 1000])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_annotate__splits_long_documents(model: str, piece: int, batch_size: int) -> None:
    text = "aspirin\n" * 10 + "\n" + "Heart failure. " * 10
    options = SpacyNer(model=model, piece=piece, batch_size=batch_size)
    [annotated, other] = annotate(options, text, text)

    assert annotated == other
    found = [(text[span.start : span.end], span.label) for span in annotated.spans]
    assert set(found) <= {("aspirin", "DRUG"), ("Heart failure", "DISEASE")}
    assert found.count(("aspirin", "DRUG")) == (10 if piece >= 8 else 0)
    assert found.count(("Heart failure", "DISEASE")) == (10 if piece >= 20 else 0)


def test_annotate__accepts_documents_above_the_limit_of_spacy(model: str) -> None:
    text = ("x" * 99 + "\n") * 10_001 + "aspirin"
    [annotated] = annotate(SpacyNer(model=model), text)

    assert annotated.spans == (Span(1_000_100, 1_000_107, "DRUG"),)


@pytest.mark.parametrize("method", ["start", "digest"])
def test_model__must_exist(method: str, tmp_path: Path) -> None:
    with pytest.raises(
        AnnotateError,
        match=r"annotator 'spacy': no model given; set its option model .*--set annotate\.model=",
    ):
        getattr(SpacyNer(), method)()
    for name in ("no_such_pipeline", str(tmp_path), "json"):
        with pytest.raises(AnnotateError, match=r"no spaCy pipeline '"):
            getattr(SpacyNer(model=name), method)()


def test_model__must_match_the_version_of_spacy(tmp_path: Path) -> None:
    (tmp_path / "config.cfg").write_text("[nlp]\nlang = 5\n")

    with pytest.raises(
        AnnotateError,
        match=rf"spaCy [\d.]+ cannot load '{re.escape(str(tmp_path))}' \(\w+\); `python -m spacy validate`",
    ):
        SpacyNer(model=str(tmp_path)).start()


def test_load__excludes_components(model: str) -> None:
    [annotated] = annotate(SpacyNer(model=model, exclude=("entity_ruler",)), "aspirin")

    assert annotated.spans == ()


def test_digest__depends_on_every_file(tmp_path: Path) -> None:
    one = ruler(tmp_path / "one", PATTERNS)
    two = ruler(tmp_path / "two", PATTERNS)
    digests = [SpacyNer(model=str(folder)).digest() for folder in (one, two)]
    (two / "entity_ruler" / "patterns.jsonl").write_text("")

    assert digests[0] == digests[1] != SpacyNer(model=str(two)).digest()
