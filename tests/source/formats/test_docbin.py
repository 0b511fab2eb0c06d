from __future__ import annotations

import gc
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.tokens import DocBin as SpacyDocBin

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.docbin import DocBin
from tests.source.formats.fixtures.docbin import docs


def read(path: Path, **options: Any) -> list[Document | SetAside]:
    return list(DocBin(**options).read(Part(str(path))))


def repacked(path: Path, **changes: Any) -> None:
    """Write a DocBin with some of its fields changed."""
    fields = msgspec.msgpack.decode(zlib.decompress(SpacyDocBin(docs=docs()).to_bytes()))
    fields.update({name: change(fields[name]) for name, change in changes.items()})
    path.write_bytes(zlib.compress(msgspec.msgpack.encode(fields)))


def of_real_sentences(path: Path, *, attrs: tuple[str, ...] = ()) -> list[Doc]:
    """Return NCBI-disease's development set as docs of ten sentences."""
    vocab = spacy.blank("en").vocab
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    rows = [[row.split("\t") for row in block.split("\n")] for block in blocks]
    made = []
    for begin in range(0, len(rows), 10):
        tokens = [token for sentence in rows[begin : begin + 10] for token in sentence]
        starts = [n == 0 for sentence in rows[begin : begin + 10] for n in range(len(sentence))]
        words = [word for word, _ in tokens]
        doc = Doc(vocab, words=words, spaces=[n % 7 != 0 for n in range(len(words))], sent_starts=starts,
                  ents=[tag if tag == "O" else f"{tag}-Disease" for _, tag in tokens])  # fmt: skip
        doc.spans["sc"] = [
            *doc.ents,
            *(Span(doc, ent.start, ent.start + 1, "First", kb_id="C9") for ent in doc.ents),
        ]
        made.append(doc)
    return made


@pytest.mark.long
@pytest.mark.parametrize("key", ["ents", "sc"])
def test_read__agrees_with_spacy_on_a_whole_corpus(real: Path, tmp_path: Path, key: str) -> None:
    path = tmp_path / "train.spacy"
    SpacyDocBin(docs=of_real_sentences(real / "blurb/NCBI-disease-IOB/devel.tsv")).to_disk(path)

    found = read(path, spans_key=key)

    given = list(SpacyDocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    assert len(found) == len(given)
    count = 0
    for document, doc in zip(found, given, strict=True):
        assert isinstance(document, Document)
        assert document.text == doc.text
        spans = doc.ents if key == "ents" else doc.spans[key]
        expected = [(s.start_char, s.end_char, s.label_, s.kb_id_, 1.0) for s in spans]
        assert [tuple(span) for span in document.spans] == expected
        assert document.sentences == tuple(Sentence(s.start_char, s.end_char) for s in doc.sents)
        count += len(expected)
    assert count == {"ents": 787, "sc": 2 * 787}[key]


def test_read__reads_a_parse_and_symbols_as_spacy_does(tmp_path: Path) -> None:
    vocab = spacy.blank("en").vocab
    heads, deps = [1, 1, 1, 4, 4], ["nsubj", "ROOT", "punct", "nsubj", "ROOT"]
    doc = Doc(vocab, words=["He", "ran", ".", "It", "hid"], heads=heads, deps=deps)
    doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, 3, 4, "ORG")]
    SpacyDocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")

    (found,) = read(tmp_path / "a.spacy")

    (again,) = SpacyDocBin().from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("en").vocab)
    assert isinstance(found, Document)
    assert [span.label for span in found.spans] == ["PERSON", "ORG"]
    assert found.sentences == tuple(Sentence(s.start_char, s.end_char) for s in again.sents)
    assert found.text == again.text


def test_read__unknown_spaces_are_spaces_as_in_spacy(tmp_path: Path) -> None:
    doc = Doc(spacy.blank("en").vocab, words=["He", "ran", "."])
    doc.has_unknown_spaces = True
    SpacyDocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")

    (found,) = read(tmp_path / "a.spacy")

    assert isinstance(found, Document)
    assert found.text == doc.text == "He ran . "
    assert (found.sentences, found.words) == (None, None)


def test_read__ignores_tokens_marked_as_no_entity(tmp_path: Path) -> None:
    doc = Doc(spacy.blank("en").vocab, words=["He", "ran", "far"])
    doc.set_ents([Span(doc, 2, 3, "X")], blocked=[doc[0:1]], default="missing")
    SpacyDocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")

    (found,) = read(tmp_path / "a.spacy")

    assert isinstance(found, Document)
    assert [span[:3] for span in found.spans] == [(7, 10, "X")]


def test_read__user_data_is_never_decoded(tmp_path: Path) -> None:
    bin_ = SpacyDocBin(docs=docs(), store_user_data=True)
    bin_.user_data = [b"\xc1 this is not msgpack"] * 2
    bin_.to_disk(tmp_path / "a.spacy")

    assert len(read(tmp_path / "a.spacy")) == 2


def test_read__rejects_a_missing_span_group(tmp_path: Path) -> None:
    SpacyDocBin(docs=docs()).to_disk(tmp_path / "a.spacy")

    with pytest.raises(SourceError, match=r"groups 'rats', found none; set \[source\] spans_key"):
        read(tmp_path / "a.spacy", spans_key="rats")


def test_read__rejects_files_with_groups_but_no_entities(tmp_path: Path) -> None:
    (one, _) = docs()
    one.ents = []
    SpacyDocBin(docs=[one]).to_disk(tmp_path / "a.spacy")

    with pytest.raises(SourceError, match="expected entities, got only span groups"):
        read(tmp_path / "a.spacy")


def test_read__sets_documents_with_damaged_entities_aside(tmp_path: Path) -> None:
    # Change the first entity's tag from B (3) to I (1).
    attrs = SpacyDocBin().attrs
    place = 8 * (1 * len(attrs) + attrs.index(spacy.attrs.ENT_IOB))
    repacked(tmp_path / "a.spacy", tokens=lambda data: data[:place] + b"\1" + data[place + 1 :])

    one, other = read(tmp_path / "a.spacy")

    assert one == SetAside(
        "a:0", "a.spacy:1", Reason("expected a document as spaCy packs it, got ValueError")
    )
    assert isinstance(other, Document)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": lambda data: data[:-8]},
        {"spaces": lambda data: data + b"\0"},
        {"lengths": lambda data: b"\xff\xff\xff\xff" + data[4:]},
        {"attrs": lambda attrs: [7, *attrs[1:]]},
        {"strings": lambda strings: [1]},
        {"span_groups": lambda groups: 7},
    ],
)
def test_read__rejects_other_files(tmp_path: Path, changes: Any) -> None:
    repacked(tmp_path / "a.spacy", **changes)

    with pytest.raises(SourceError, match="expected a DocBin of spaCy, got"):
        read(tmp_path / "a.spacy")


def test_read__a_span_of_another_size_sets_its_document_aside(tmp_path: Path) -> None:
    group = msgspec.msgpack.encode({"name": "sc", "spans": [b"abc"]})
    broken = msgspec.msgpack.encode([group])
    repacked(tmp_path / "a.spacy", span_groups=lambda groups: [groups[0], broken])

    other, one = read(tmp_path / "a.spacy", spans_key="sc")

    assert isinstance(one, SetAside)
    assert one.reason.text.startswith("expected a document as spaCy packs it, got ")
    assert isinstance(other, Document)


def test_read__a_broken_group_sets_its_document_aside(tmp_path: Path) -> None:
    repacked(tmp_path / "a.spacy", span_groups=lambda groups: [groups[0], b"\xc1\xc1"])

    other, one = read(tmp_path / "a.spacy", spans_key="sc")

    assert isinstance(one, SetAside)
    assert one.reason.text.startswith("expected a document as spaCy packs it, got ")
    assert gc.isenabled()
    assert isinstance(other, Document)


def test_read__limits_the_unpacked_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mslm_data.source.formats.docbin._MOST_UNPACKED", 64 << 20)
    (tmp_path / "a.spacy").write_bytes(zlib.compress(b"\0" * (65 << 20)))

    with pytest.raises(SourceError, match="unpacks to more than"):
        read(tmp_path / "a.spacy")


def test_read__limits_the_size_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mslm_data.source.formats.docbin._MOST_UNPACKED", 64 << 20)
    doc = Doc(spacy.blank("en").vocab, words=["x" * (1 << 20)] * 100)
    SpacyDocBin(attrs=["ENT_IOB"], docs=[doc]).to_disk(tmp_path / "a.spacy")
    assert (tmp_path / "a.spacy").stat().st_size < 1 << 17

    with pytest.raises(SourceError, match="expected texts of at most"):
        read(tmp_path / "a.spacy")


def test_docbin__loads_spacy_only_to_read() -> None:
    code = "import sys; from mslm_data.source.formats.docbin import DocBin; DocBin(); sys.exit('spacy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recognises__a_packed_docbin() -> None:
    packed = SpacyDocBin(docs=docs()).to_bytes()

    assert DocBin().sniff(Sample(Path("a.spacy"), packed[: 1 << 16])).why == "it is a packed DocBin"
    assert DocBin().sniff(Sample(Path("a.spacy"), zlib.compress(b"anything"))).why == ""
    assert DocBin().sniff(Sample(Path("a.spacy"), b"anything")).why == ""
