"""Tests of the plug-in: run `pytest` in this folder, with the package installed."""

from mslm_data_paragraphs import Paragraphs

from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Documents
from mslm_data.testing import check_segmenter

TEXT = "Ada fell.\nShe hurt\n\nher knee.\n \nNo fever.\n\n"


def paragraphs(document: Document, **options: int) -> list[str]:
    found = Paragraphs(**options).sentences(Documents.from_documents([document]))
    return [document.text[a:b] for a, b in zip(found.starts, found.ends, strict=True)]


def test_paragraphs__keeps_its_promises() -> None:
    crossed = Document(id="d", text=TEXT, spans=(Span(14, 28, "X"),))

    check_segmenter(Paragraphs(), [TEXT, "", " \n", "One line", "\n\n\nLate", crossed])


def test_sentences__end_at_empty_lines() -> None:
    document = Document(id="d", text=TEXT)

    assert paragraphs(document) == ["Ada fell.\nShe hurt", "her knee.", "No fever."]
    assert paragraphs(document, least=15)[1:] == ["her knee.\n \nNo fever."]
