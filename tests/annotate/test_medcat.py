"""Annotation with MedCAT."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate import ANNOTATORS, Annotated
from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.annotate.medcat.annotator import LoadedMedCat, MedCat
from mslm_data.annotate.overlaps import flatten
from mslm_data.data.document import Document, Placeholder
from mslm_data.errors import AnnotateError, PipelineError
from mslm_data.io import resources
from mslm_data.io.files import sha256_of
from mslm_data.lexicon.concepts.names import NameChoice
from mslm_data.lexicon.concepts.packs import ConceptFile, make_pack
from tests.annotate.medcat_made import notes, write_table

pytest.importorskip("medcat")


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("concepts") / "concepts.csv")


@pytest.fixture(scope="module")
def pack(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs") / "pack"
    make_pack([ConceptFile(table)], folder, choice=NameChoice())
    return folder


@pytest.fixture(scope="module")
def running(table: Path) -> LoadedMedCat:
    return MedCat(model_pack=str(table)).start()


def annotated(running: Any, text: str, *placeholders: Placeholder) -> Annotated:
    (result,) = running.annotate([Document(id="1", text=text, placeholders=placeholders)])
    return result


def found(running: Any, text: str, *placeholders: Placeholder) -> list[tuple[str, str]]:
    """Return mentions, flat: their text and label."""
    spans, _ = flatten(annotated(running, text, *placeholders).spans)
    return [(text[span.start : span.end], span.label) for span in spans]


def test_annotate__gives_concepts_labels_and_scores(running: LoadedMedCat) -> None:
    text = "Pt with CHF, low back pain.\r\nOn Aspirin\xa0daily."

    spans = annotated(running, text).spans

    assert list(spans) == sorted(spans)
    assert [(text[s.start : s.end], s.label, s.concept, s.score) for s in flatten(spans)[0]] == [
        ("CHF", "Disease", "C9900001", 1.0), ("low back pain", "Symptom", "C9900003", 1.0),
        ("Aspirin", "Treatment", "C9900006", 1.0),
    ]  # fmt: skip


def test_annotate__gives_nested_mentions_for_flatten_to_choose(running: LoadedMedCat) -> None:
    text = "low back pain"

    assert [text[s.start : s.end] for s in annotated(running, text).spans] == [
        "low back pain",
        "back pain",
        "pain",
    ]


def test_annotate__is_not_hidden_by_concepts_of_other_types(running: LoadedMedCat) -> None:
    assert found(running, "history of stroke") == [("stroke", "Disease")]


def test_annotate__takes_the_first_label_of_two(running: LoadedMedCat) -> None:
    assert found(running, "methadone dependence") == [("methadone dependence", "Treatment")]
    assert running.counts == {"concepts": 13, "with_label": 12, "with_two_labels": 1}


def test_annotate__gives_an_ambiguous_name_to_its_primary(running: LoadedMedCat) -> None:
    assert [span.concept for span in annotated(running, "a cold").spans] == ["C9900013"]


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("Heart; failure", ["Heart"], "reaches across punctuation"),
        ("heart (failure)", ["heart"], "reaches across punctuation"),
        ("congestive heart\nfailure", ["congestive heart\nfailure"], None),
        ("congestive heart\r\nfailure", ["congestive heart\r\nfailure"], None),
        ("lung\n\ncancer", [], "reaches across a blank line"),
        ("heart\n\n failure", ["heart"], None),  # three skipped tokens: MedCAT's own limit is two
        ("lung\n-cancer", [], "reaches across a list mark"),
        ("heart\n- failure", ["heart"], None),  # the same
        ("lung cancer.", ["lung cancer"], None),
    ],
)
def test_annotate__does_not_reach_across(
    running: LoadedMedCat, text: str, expected: list[str], reason: str | None
) -> None:
    result = annotated(running, text)

    assert [text for text, _ in found(running, text)] == expected
    assert reason is None or result.left_out[reason] >= 1


def test_annotate__stands_in_no_placeholder_and_reaches_across_none(running: LoadedMedCat) -> None:
    text = "[**Last Name (un) pain 4**] lung [**x**]cancer, pain[**.**] pain"
    places = _places(text, "[**Last Name (un) pain 4**]", "[**x**]", "[**.**]")

    assert found(running, text, *places) == [("pain", "Symptom"), ("pain", "Symptom")]
    assert len(found(running, text)) > 2


def _places(text: str, *pieces: str) -> list[Placeholder]:
    return [Placeholder(text.index(piece), text.index(piece) + len(piece)) for piece in pieces]


def test_annotate__leaves_out_low_scores(table: Path) -> None:
    running = MedCat(model_pack=str(table), min_score=0.5).start()
    running._cat = _Stub(running._cat, score=0.4)

    result = annotated(running, "pain")

    assert (result.spans, result.left_out) == ((), {"score below min_score": 1})


def test_annotate__keeps_wanted_meta_annotations(table: Path) -> None:
    running = MedCat(model_pack=str(table)).start()
    running._options = MedCat(model_pack=str(table), keep_meta={"Status": ("Affirmed",)})
    text = "pain and stroke"

    running._cat = _Stub(running._cat, meta={"pain": "Negated", "stroke": "Affirmed"})

    assert found(running, text) == [("stroke", "Disease")]
    assert annotated(running, text).left_out == {"meta-annotation Status": 1}
    running._options = MedCat(model_pack=str(table), keep_meta={"Statsu": ("Affirmed",)})
    with pytest.raises(
        AnnotateError, match=r"expected a meta-annotation of the pack \(Status\), got 'Statsu'"
    ):
        annotated(running, text)


class _Stub:
    """MedCAT with other scores, and with meta-annotations."""

    def __init__(self, cat: Any, *, score: float = 1.0, meta: dict[str, str] | None = None) -> None:
        self._cat, self._score, self._meta = cat, score, meta or {}

    def __call__(self, text: str) -> Any:
        document = self._cat(text)
        for entity in document.linked_ents:
            entity.context_similarity = self._score
        return document

    def get_addon_output(self, entity: Any) -> dict[str, Any]:
        return {
            "meta_anns": {
                "Status": {
                    "value": self._meta[entity.base.text],
                    "confidence": 1.0,
                    "name": "Status",
                }
            }
        }


def test_annotate__does_not_depend_on_the_other_documents(running: LoadedMedCat) -> None:
    documents = [Document(id=str(n), text=text) for n, text in enumerate(notes(30, seed=0))]

    together = running.annotate(documents)

    assert together == [running.annotate([document])[0] for document in documents]


_SEEDED = """
import json, sys
from mslm_data.annotate.medcat.annotator import MedCat
from mslm_data.data.document import Document
from tests.annotate.medcat_made import notes
running = MedCat(model_pack=sys.argv[1]).start()
print(json.dumps([[span for span in one.spans] for one in running.annotate(
    [Document(id="", text=text) for text in notes(40, seed=1)])]))
"""


def test_annotate__is_the_same_in_every_process(pack: Path, table: Path) -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", _SEEDED, str(model)], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, check=True, text=True,
        ).stdout
        for model, seed in ((pack, "1"), (pack, "2"), (table, "3"))
    ]  # fmt: skip

    assert printed[0] == printed[1] == printed[2]
    assert sum(map(len, json.loads(printed[0]))) > 50


def test_start__asks_nothing_of_the_network(pack: Path) -> None:
    environment = {**os.environ, "HOME": str(pack.parent), "MEDCAT_DISABLE_VERSION_CHECK": ""}
    code = (
        "import socket, sys\n"
        "def no(*a, **k): raise SystemExit(3)\n"
        "socket.socket.connect = no; socket.getaddrinfo = no; socket.create_connection = no\n"
        "from mslm_data.annotate.medcat.annotator import MedCat\n"
        "from mslm_data.data.document import Document\n"
        "print(len(MedCat(model_pack=sys.argv[1]).start().annotate([Document(id='', text='pain')])[0].spans))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(pack)],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert not list(pack.parent.glob("**/medcat_version.json"))


def test_start__reads_the_shipped_sample() -> None:
    running = MedCat(model_pack=str(resources.path("vocab", "sample/concepts.csv"))).start()

    assert running.counts["with_label"] == running.counts["concepts"] == 168
    assert found(running, "COPD, chills; on Lasix") == [
        ("COPD", "Disease"), ("chills", "Symptom"), ("Lasix", "Treatment"),
    ]  # fmt: skip


def test_digest__is_of_the_files_whether_zipped_or_not(
    pack: Path, table: Path, tmp_path: Path
) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")

    assert medcat_pack.digest(zipped) == medcat_pack.digest(pack)
    assert medcat_pack.digest(table) != medcat_pack.digest(pack)
    assert MedCat(model_pack=str(zipped)).digest() == MedCat(model_pack=str(pack)).digest()
    assert MedCat(model_pack=str(pack)).pack_digest() == medcat_pack.digest(pack)


def test_start__takes_a_zip_and_no_folder_beside_it(pack: Path, tmp_path: Path) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "cdb.dat").write_bytes(b"stale")

    running = MedCat(model_pack=str(zipped), sha256=medcat_pack.digest(zipped)).start()

    assert found(running, "lung cancer") == [("lung cancer", "Disease")]
    (tmp_path / "cache" / "packs" / medcat_pack.digest(zipped) / "model_card.json").write_text("{}")
    with pytest.raises(
        AnnotateError, match=r"expected the files of pack\.zip, got others; delete this folder"
    ):
        MedCat(model_pack=str(zipped)).start()


def test_start__takes_the_sha256_of_a_zip_itself(pack: Path, tmp_path: Path) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")

    copy = medcat_pack.checked(zipped, sha256_of(zipped).upper())

    assert medcat_pack.digest(copy) == medcat_pack.digest(pack)


def _zipped(pack: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in pack.rglob("*"):
            archive.write(file, file.relative_to(pack))
    return path


class _Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("file", ["cdb.dat", "cdb/raw_dict.dat"])
def test_start__unpickles_nothing_of_another_pack(file: str, tmp_path: Path) -> None:
    import pickle

    evil, touched = tmp_path / "evil", tmp_path / "touched"
    (evil / file).parent.mkdir(parents=True)
    (evil / file).write_bytes(pickle.dumps(_Evil(touched)))

    with pytest.raises(
        AnnotateError,
        match=f"expected a pack with sha256 {'0' * 64}, got .*nothing of it was loaded",
    ):
        MedCat(model_pack=str(evil), sha256="0" * 64).start()

    assert not touched.exists()


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "C:\\out"])
def test_start__unpacks_nothing_outside(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as archive:
        archive.writestr(name, "x")

    with pytest.raises(
        AnnotateError,
        match=r"pack\.zip: member '.*': expected a path inside the archive; not unpacked",
    ):
        MedCat(model_pack=str(tmp_path / "pack.zip")).start()


def test_start__unpacks_no_bomb(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pack.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cdb/raw_dict.dat", bytes(65 << 20))

    with pytest.raises(
        AnnotateError,
        match=r"pack\.zip: expected at most \d+ bytes from an archive of \d+, got more",
    ):
        MedCat(model_pack=str(tmp_path / "pack.zip")).start()


def test_start__refuses_what_is_no_pack(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04")
    write_table(tmp_path / "names.csv", "id,label\n1,x\n")
    for name, message in [
        ("", "expected model_pack, got none; pass --set annotate.model_pack=PACK"),
        (str(tmp_path / "none"), "found nothing; `mslm-data vocab concepts` makes a pack"),
        (
            str(tmp_path / "folder"),
            "expected a MedCAT model pack with a folder cdb or a file cdb.dat, got neither",
        ),
        (
            str(tmp_path / "torn.zip"),
            "expected a whole, unencrypted tar or zip archive, got BadZipFile",
        ),
        (str(tmp_path / "names.csv"), "expected a table with the columns cui, name"),
    ]:
        with pytest.raises(AnnotateError, match=message):
            MedCat(model_pack=name).start()


def test_start__refuses_packs_without_types_of_the_table(tmp_path: Path) -> None:
    snomed = write_table(
        tmp_path / "snomed.csv", "cui,name,type_ids\n22298006,myocardial infarction,9090192\n"
    )
    untyped = write_table(tmp_path / "untyped.csv", "cui,name\n1,myocardial infarction\n")

    with pytest.raises(
        AnnotateError, match="got 1 concepts with types such as 9090192; SNOMED packs have no UMLS"
    ):
        MedCat(model_pack=str(snomed)).start()
    with pytest.raises(AnnotateError, match="got 1 concepts with no types"):
        MedCat(model_pack=str(untyped)).start()


def test_start__takes_a_table_of_types_of_the_users(tmp_path: Path) -> None:
    snomed = write_table(
        tmp_path / "snomed.csv", "cui,name,type_ids\n22298006,myocardial infarction,9090192\n"
    )
    types = tmp_path / "snomed.toml"
    types.write_text('labels = ["Disorder"]\n[[type]]\ntui = "9090192"\nlabel = "Disorder"\n')

    running = MedCat(model_pack=str(snomed), types=str(types)).start()

    assert found(running, "myocardial infarction") == [("myocardial infarction", "Disorder")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("labels = [", "expected labels = .* got TOMLDecodeError"),
        ('[[type]]\ntui = "T047"\nlabel = "Disease"\n', "got KeyError"),
        (
            'labels = []\n[[type]]\ntui = "T047"\nlabel = "Disease"\n',
            "type T047: expected one of the labels",
        ),
    ],
)
def test_start__refuses_what_is_no_table_of_types(
    content: str, message: str, table: Path, tmp_path: Path
) -> None:
    (tmp_path / "types.toml").write_text(content)

    with pytest.raises(AnnotateError, match=message):
        MedCat(model_pack=str(table), types=str(tmp_path / "types.toml")).start()
    with pytest.raises(AnnotateError, match=r"found no 'nothing\.toml'"):
        MedCat(model_pack=str(table), types="nothing.toml").start()


def test_settings__reach_medcat(table: Path) -> None:
    running = MedCat(
        model_pack=str(table), settings={"components": {"ner": {"upper_case_limit_len": 3}}}
    ).start()

    assert found(running, "chf") == [("chf", "Disease")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"components": {"nre": {}}},
            "annotate.settings.components: MedCAT has no setting 'nre'; did you mean 'ner'",
        ),
        (
            {"general": {"separator": ["~"]}},
            "annotate.settings.general.separator: expected a value like '~'",
        ),
    ],
)
def test_settings__must_be_medcats(settings: dict[str, Any], message: str, table: Path) -> None:
    with pytest.raises(AnnotateError, match=message):
        MedCat(model_pack=str(table), settings=settings).start()


def test_options__are_checked() -> None:
    for options, message in [
        ({"sha256": "abc"}, "expected sha256 as 64 hexadecimal digits"),
        ({"min_score": 2.0}, "expected min_score between 0 and 1"),
        ({"tokenizer": "spacy"}, "expected one of .* got 'spacy'"),
        ({"model": "x"}, "did you mean 'model_pack'"),
    ]:
        with pytest.raises(PipelineError, match=message):
            ANNOTATORS.make("medcat", options)


def test_start__converts_packs_of_medcat_1(tmp_path: Path) -> None:
    dill = pytest.importorskip("dill")
    old = tmp_path / "old"
    old.mkdir()
    (old / "cdb.dat").write_bytes(dill.dumps({"cdb": _OLD}))
    (old / "vocab.dat").write_bytes(dill.dumps({"vocab": {"lung": {"cnt": 3, "vec": None}}}))
    (old / "config.json").write_text(json.dumps(_OLD_CONFIG))

    running = MedCat(model_pack=str(old), sha256=medcat_pack.digest(old)).start()

    assert found(running, "lung cancer") == [("lung cancer", "Disease")]
    with pytest.raises(AnnotateError, match="got one of MedCAT 1; convert it once"):
        MedCat(model_pack=str(old), sha256=medcat_pack.digest(old), tokenizer="pack").start()


_OLD = {
    "name2cuis": {"lung~cancer": ["C99"]}, "name2cuis2status": {"lung~cancer": {"C99": "P"}},
    "name2count_train": {}, "name_isupper": {}, "snames": {"lung", "lung~cancer"},
    "cui2names": {"C99": {"lung~cancer"}}, "cui2snames": {"C99": {"lung", "lung~cancer"}},
    "cui2context_vectors": {}, "cui2count_train": {}, "cui2tags": {}, "cui2type_ids": {"C99": {"T191"}},
    "cui2preferred_name": {"C99": "Lung cancer"}, "cui2average_confidence": {},
    "addl_info": {"type_id2name": {"T191": "Neoplastic Process"}}, "vocab": {},
}  # fmt: skip
"""What MedCAT 1 pickled, as `medcat.utils.legacy.convert_cdb` reads it."""

_OLD_CONFIG = {
    "cdb_maker": {}, "preprocessing": {"keep_punct": {"==SET==": [".", ":"]}}, "linking": {"filters": {"cuis": {}}},
    "ner": {"min_name_len": 3}, "general": {"spacy_model": "en_core_web_md", "spacy_disabled_components": []},
    "annotation_output": {},
}  # fmt: skip


def test_annotate__real_notes(real: Path, tmp_path: Path) -> None:
    import csv
    import gzip
    import re

    concepts = real / "concepts"
    inputs = [
        ConceptFile(concepts / "disease_ontology" / "doid_2016-03-04.obo", ("T047",)),
        ConceptFile(concepts / "drugbank_open" / "drugbank_vocabulary.csv", ("T121",)),
    ]
    make_pack(inputs, tmp_path / "pack", choice=NameChoice(xref="UMLS_CUI"))
    with gzip.open(
        real / "clinical" / "notes" / "NOTEEVENTS.csv.gz", "rt", encoding="utf-8", newline=""
    ) as file:
        texts = [row["TEXT"] for row in csv.DictReader(file) if row["ISERROR"] != "1"]
    documents = [
        Document(id=str(number), text=text, placeholders=tuple(
            Placeholder(*match.span()) for match in re.finditer(r"\[\*\*.*?\*\*\]", text, re.DOTALL)))
        for number, text in enumerate(texts)
    ]  # fmt: skip
    running = MedCat(model_pack=str(tmp_path / "pack")).start()

    mentions = 0
    for document, result in zip(documents, running.annotate(documents), strict=True):
        spans, _ = flatten(result.spans)
        mentions += len(spans)
        for span in spans:
            name = document.text[span.start : span.end]
            assert name == name.strip()
            assert name
            assert not any(
                place.start < span.end and span.start < place.end for place in document.placeholders
            )

    assert len(documents) == 1324
    assert mentions == 2302
