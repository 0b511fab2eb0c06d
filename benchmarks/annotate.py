"""Annotation of notes beside MedCAT and spaCy as people call them, and builds of many notes."""

from __future__ import annotations

import csv
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import concepts
from benchmarks import notes as invented
from benchmarks.harness import Contestant, Results, Row, in_turn, row_of, same, unless_absent
from benchmarks.inputs import ROOT, Inputs
from benchmarks.watch import Figure, watched
from mslm_data.data.document import Document
from mslm_data.data.documents import Documents
from mslm_data.io import resources
from mslm_data.shard.manifest import Manifest, read_manifest

NOTES = int(os.environ.get("MSLM_DATA_BENCH_NOTES", "8000"))
"""Notes of the builds; set 100,000 or more for a long run."""
_ROUNDS = 3
_COMPARED = 400
_MATCHED = 1000
_ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_MANY = "annotate notes, one core of ours against two of theirs"

Found = tuple[int, int, str]
"""Start and end in characters, and the concept."""


class Corpus(NamedTuple):
    """Notes, and the concepts that are looked for in them.

    Attributes:
        notes: A table in the shape of NOTEEVENTS.
        table: The concepts, in MedCAT's columns.
        pack: The same concepts as a MedCAT model pack.
    """

    notes: Path
    table: Path
    pack: Path


def run(inputs: Inputs, scratch: Path) -> Results:
    """Compare annotators on the same notes, and build many notes with one worker and two."""
    table = resources.path("vocab", "sample/concepts.csv")
    few = Corpus(scratch / "small.csv", table, _pack(table, scratch / "pack"))
    invented.write(few.notes, notes=_COMPARED, seed=1)
    rows = unless_absent(
        "annotate notes, peer MedCAT", lambda: _annotators(few.table, few.pack, few.notes)
    )

    large = scratch / "concepts.csv"
    says_concepts = concepts.write(large)
    many = Corpus(scratch / "NOTEEVENTS.csv", large, _pack(large, scratch / "large"))
    invented.write(many.notes, notes=NOTES, concepts=large)

    some = scratch / "some.csv"
    invented.write(some, notes=_MATCHED, seed=2, concepts=large)
    rows += unless_absent("annotate notes with `terms`, peer spaCy", lambda: _phrases(large, some))

    # The first builds leave compiled kernels behind.
    measure(few, inputs, scratch, rounds=1)
    rows += measure(many, inputs, scratch, rounds=_ROUNDS)

    size = many.notes.stat().st_size / 1e6
    says = (
        f"Notes: {NOTES:,} generated ones, {size:.0f} MB, with {says_concepts}; {_COMPARED} with "
        f"the sample's concepts for MedCAT, {_MATCHED:,} with these for spaCy"
    )
    return Results(rows=rows, inputs=[says])


def _pack(table: Path, out: Path) -> Path:
    """Make a model pack of a concept table, and return its folder."""
    command = ["-m", "mslm_data", "vocab", "concepts", "--from", str(table), "--out", str(out)]
    subprocess.run([sys.executable, *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return out


def _annotators(table: Path, pack: Path, notes: Path) -> list[Row]:
    """Compare `LoadedMedCat.find` with MedCAT's own calls, and count the entities that both find.

    Raises:
        ImportError: MedCAT or spaCy is not installed.
    """
    from mslm_data.annotate.medcat.annotator import MedCat

    texts = _texts(notes)
    documents = [Document(id=str(i), text=text) for i, text in enumerate(texts)]

    ours = MedCat(model_pack=str(pack), tokenizer="words", not_inside="", max_line_breaks=99).load()
    cat = _medcat(table, notes.parent)

    theirs_found = [_found(cat.get_entities(text)) for text in texts]
    ours_found = [
        sorted({(span.start, span.end, span.concept) for span in document.spans})
        for document in ours.find(documents)
    ]
    shared = sum(len(set(a) & set(b)) for a, b in zip(theirs_found, ours_found, strict=True))
    equal = (
        f"{shared:,} of its {sum(map(len, theirs_found)):,} entities are among our "
        f"{sum(map(len, ours_found)):,}, nested ones included"
    )

    annotating = Contestant(call=lambda _: ours.find(documents), work=len(texts))
    one_by_one = Contestant(
        call=lambda _: [cat.get_entities(text) for text in texts], work=len(texts)
    )
    loop = row_of(
        "annotate notes, one core",
        in_turn({"ours": annotating, "peer": one_by_one}, rounds=3),
        unit="notes",
        what="`LoadedMedCat.find`; the peer is `cat.get_entities` in a loop, spaCy tokenizer, "
        f"spell check on as it is by default, the same concepts; {equal}.",
    )
    return [loop, *unless_absent(_MANY, lambda: [_pool(cat, annotating, texts)])]


def _pool(cat: Any, ours: Contestant, texts: list[str]) -> Row:
    """Compare with MedCAT's own worker processes.

    Raises:
        ImportError: These processes import what other versions of a package have.
    """
    list(cat.get_entities_multi_texts(texts[:2], n_process=2))

    peer = Contestant(
        call=lambda _: dict(cat.get_entities_multi_texts(texts, n_process=2)), work=len(texts)
    )
    return row_of(
        _MANY,
        in_turn({"ours": ours, "peer": peer}, rounds=2, warm_up=False),
        unit="notes",
        what="ours as above in one process; the peer is `get_entities_multi_texts(n_process=2)` on "
        "the same notes, its processes started anew in each call, as it does.",
    )


def _phrases(table: Path, notes: Path) -> list[Row]:
    """Compare `LoadedTerms.annotate` with spaCy's `PhraseMatcher`, and count what both find.

    Raises:
        ImportError: spaCy is not installed.
    """
    from spacy.util import filter_spans

    from mslm_data.annotate.terms.annotator import Terms

    texts = _texts(notes)
    ours = Terms(table=str(table)).start()
    nlp, matcher = _phrase_matcher(table)

    def annotate() -> Documents:
        documents = Documents.from_documents(
            [Document(id=str(i), text=text) for i, text in enumerate(texts)]
        )
        return documents.with_mentions(ours.annotate(documents).mentions)

    def find(text: str) -> list[Any]:
        spans: list[Any] = filter_spans(matcher(nlp.make_doc(text), as_spans=True))
        return spans

    theirs_found = [
        {(span.start_char, span.end_char, span.label_) for span in find(text)} for text in texts
    ]
    ours_found = [
        {(span.start, span.end, span.concept) for span in document.spans} for document in annotate()
    ]
    shared = sum(len(a & b) for a, b in zip(theirs_found, ours_found, strict=True))
    equal = (
        f"{shared:,} of its {sum(map(len, theirs_found)):,} mentions are among our "
        f"{sum(map(len, ours_found)):,}; a name of several concepts is one mention there, and "
        "words are spaCy's"
    )

    speed = in_turn(
        {
            "ours": Contestant(call=lambda _: annotate(), work=len(texts)),
            "peer": Contestant(call=lambda _: [find(text) for text in texts], work=len(texts)),
        },
        rounds=_ROUNDS,
    )
    return [
        row_of(
            "annotate notes with `terms`, one core",
            speed,
            unit="notes",
            what="`LoadedTerms.annotate`; the peer is spaCy's `PhraseMatcher` on small letters and "
            f"`filter_spans`, over a blank English pipeline, the same names; {equal}.",
        )
    ]


def _phrase_matcher(table: Path) -> tuple[Any, Any]:
    """Return a blank pipeline, and a matcher of the names of a concept table."""
    import spacy
    from spacy.matcher import PhraseMatcher

    nlp = spacy.blank("en")
    matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = [nlp.make_doc(name) for name in row["name"].split("|")]
            matcher.add(row["cui"], names)
    return nlp, matcher


def _texts(notes: Path) -> list[str]:
    """Return the texts of a table of notes."""
    with notes.open(newline="", encoding="utf-8") as file:
        return [row["TEXT"] for row in csv.DictReader(file)]


def _medcat(table: Path, scratch: Path) -> Any:
    """Make a MedCAT of a concept table as its documentation does.

    That is a blank spaCy pipeline and lower-case names.
    """
    os.environ["MEDCAT_DISABLE_VERSION_CHECK"] = "true"
    import spacy
    from medcat.cat import CAT
    from medcat.config.config import Config
    from medcat.model_creation.cdb_maker import CDBMaker
    from medcat.vocab import Vocab

    logging.getLogger("medcat").setLevel(logging.ERROR)
    model = scratch / "blank"
    spacy.blank("en").to_disk(model)

    config = Config()
    config.general.log_level = logging.ERROR
    config.general.nlp.provider = "spacy"
    config.general.nlp.modelname = str(model)
    config.cdb_maker.name_versions = ["LOWER"]

    cdb = CDBMaker(config).prepare_csvs([str(table)], full_build=True)
    return CAT(cdb, Vocab(), config)


def _found(entities: dict[str, Any]) -> list[Found]:
    return sorted((e["start"], e["end"], e["cui"]) for e in entities["entities"].values())


def measure(corpus: Corpus, inputs: Inputs, scratch: Path, *, rounds: int) -> list[Row]:
    """Build the notes with each annotator in turn, as whole commands, and make the rows.

    Raises:
        RuntimeError: Builds with the same annotator differ.
    """
    options = {
        "terms": ("annotate.use=terms", f"annotate.table={corpus.table}"),
        "medcat": (f"annotate.model_pack={corpus.pack}",),
    }
    figures: dict[tuple[str, int], list[Figure]] = {
        ("terms", 1): [],
        ("medcat", 1): [],
        ("medcat", 2): [],
    }
    manifests: dict[str, Manifest] = {}

    for _ in range(rounds):
        for (annotator, workers), measured in figures.items():
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                out = Path(folder) / "out"
                command = [
                    *("-m", "mslm_data", "build", "--source", "mimic"),
                    *("--input", str(corpus.notes)),
                    *("--tokenizer", str(inputs.vocab)),
                    *("--workers", str(workers)),
                    *("--out", str(out)),
                ]
                for option in options[annotator]:
                    command += ["--set", option]
                measured.append(watched(command, env=_ONE_CORE))

                # A manifest has the digests of all shards, and nothing of the machine.
                manifest = read_manifest(out)
                same(
                    f"build notes with {annotator}",
                    manifest,
                    manifests.setdefault(annotator, manifest),
                )

    rows = []
    for (annotator, workers), measured in figures.items():
        rows += _rows_of_builds(annotator, workers, measured, manifests[annotator])
    return rows


def _rows_of_builds(
    annotator: str, workers: int, figures: Sequence[Figure], manifest: Manifest
) -> list[Row]:
    """Return notes a second and, for one worker, notes a second of CPU time."""
    read = sum(split.read for split in manifest.splits.values())
    found = sum(split.given_mentions for split in manifest.splits.values())
    peak = max(figure.mib for figure in figures)
    what = (
        f"`mslm-data build --source mimic` with `{annotator}`, from {read:,} notes to shards with "
        f"{found:,} mentions, start-up included; peak memory of all processes {peak:,.0f} MiB."
    )

    wall = row_of(
        f"build notes with `{annotator}`, {'one worker' if workers == 1 else 'two workers'}",
        {"ours": [read / figure.seconds for figure in figures]},
        unit="notes",
        what=what,
    )
    if workers > 1:
        return [wall]

    per_core = row_of(
        f"build notes with `{annotator}`, a second of a core",
        {"ours": [read / figure.cpu for figure in figures]},
        unit="notes",
        what="as above; notes a second of CPU time, that of all processes added up.",
    )
    return [wall, per_core]
