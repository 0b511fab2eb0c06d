"""Annotators on notes, against MedCAT and spaCy, and builds of notes: notes per second.

`python -m benchmarks annotate`
"""

from __future__ import annotations

import csv
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import concepts
from benchmarks import notes as invented
from benchmarks.harness import Contestant, Results, Row, in_turn, make_row, same, unless_absent
from benchmarks.inputs import Inputs
from benchmarks.watch import Figure, watched
from mslm_data.annotate.medcat.pack import digest
from mslm_data.data.document import Document
from mslm_data.data.documents import Documents
from mslm_data.io import resources
from mslm_data.shard.manifest import Manifest, read_manifest

NOTES = int(os.environ.get("MSLM_DATA_BENCH_NOTES", "8000"))
"""Number of notes in the builds. Default: 8,000; use 100,000 or more for a long run."""
_ROUNDS = 3
_COMPARED = 400
_MATCHED = 1000
_ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Found = tuple[int, int, str]
"""Start, end (half-open, in characters) and concept."""


class Corpus(NamedTuple):
    """Notes and the concepts to annotate.

    Attributes:
        notes: CSV file with the columns of NOTEEVENTS.
        table: Concept table with MedCAT's columns.
        pack: Model pack of the same concepts, made by MedCAT.
    """

    notes: Path
    table: Path
    pack: Path


def run(inputs: Inputs, scratch: Path) -> Results:
    """Compare annotators on the same notes, then build `NOTES` notes with one and two workers."""
    table = resources.path("vocab", "sample/concepts.csv")
    small = Corpus(scratch / "small.csv", table, _pack(table, scratch / "pack"))
    invented.write(small.notes, notes=_COMPARED, seed=1)
    rows = unless_absent(
        "annotate notes, peer MedCAT", lambda: _annotators(small.table, small.pack, small.notes)
    )

    large = scratch / "concepts.csv"
    concepts_caption = concepts.write(large)
    large_corpus = Corpus(scratch / "NOTEEVENTS.csv", large, _pack(large, scratch / "large"))
    invented.write(large_corpus.notes, notes=NOTES, concepts=large)

    spacy_notes = scratch / "some.csv"
    invented.write(spacy_notes, notes=_MATCHED, seed=2, concepts=large)
    rows += unless_absent(
        "annotate notes with `terms`, peer spaCy", lambda: _phrases(large, spacy_notes)
    )

    # Untimed builds to compile kernels.
    measure(small, inputs, scratch, rounds=1)
    rows += measure(large_corpus, inputs, scratch, rounds=_ROUNDS)

    size = large_corpus.notes.stat().st_size / 1e6
    caption = (
        f"Notes: {NOTES:,} generated ones, {size:.0f} MB, with {concepts_caption}; {_COMPARED} "
        f"with the sample's concepts for MedCAT, {_MATCHED:,} with these for spaCy"
    )
    return Results(rows=rows, inputs=[caption])


def _pack(table: Path, out: Path) -> Path:
    """Make a MedCAT model pack from a concept table, and return its folder.

    Raises:
        ImportError: MedCAT or spaCy is not installed.
    """
    cat = _medcat(table, out.parent)
    saved = cat.save_model_pack(
        str(out.parent), pack_name=out.name, make_archive=False, add_hash_to_pack_name=False
    )
    return Path(saved)


def _annotators(table: Path, pack: Path, notes: Path) -> list[Row]:
    """Compare `LoadedMedCat.find` with MedCAT, and count common entities.

    Raises:
        ImportError: MedCAT or spaCy is not installed.
    """
    from mslm_data.annotate.medcat.annotator import MedCat

    texts = _texts(notes)
    documents = [Document(id=str(i), text=text) for i, text in enumerate(texts)]

    ours = MedCat(
        model_pack=str(pack),
        sha256=digest(pack),
        tokenizer="words",
        not_inside="",
        max_line_breaks=99,
    ).load()
    cat = _medcat(table, notes.parent)

    their_places = [_entity_places(cat.get_entities(text)) for text in texts]
    our_places = [
        sorted({(span.start, span.end, span.concept) for span in document.spans})
        for document in ours.find(documents)
    ]
    shared = sum(len(set(a) & set(b)) for a, b in zip(their_places, our_places, strict=True))
    equal = (
        f"{shared:,} of its {sum(map(len, their_places)):,} entities are among our "
        f"{sum(map(len, our_places)):,}, nested ones included"
    )

    speed = in_turn(
        {
            "ours": Contestant(call=lambda _: ours.find(documents), work=len(texts)),
            "peer": Contestant(
                call=lambda _: [cat.get_entities(text) for text in texts], work=len(texts)
            ),
        },
        rounds=_ROUNDS,
    )
    return [
        make_row(
            "annotate notes, one core",
            speed,
            unit="notes",
            what="`LoadedMedCat.find`; the peer is `cat.get_entities` in a loop, spaCy tokenizer, "
            f"spell check on as it is by default, the same concepts; {equal}.",
        )
    ]


def _phrases(table: Path, notes: Path) -> list[Row]:
    """Compare `LoadedTerms.annotate` with spaCy's `PhraseMatcher`, and count common mentions.

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

    their_places = [
        {(span.start_char, span.end_char, span.label_) for span in find(text)} for text in texts
    ]
    our_places = [
        {(span.start, span.end, span.concept) for span in document.spans} for document in annotate()
    ]
    shared = sum(len(a & b) for a, b in zip(their_places, our_places, strict=True))
    equal = (
        f"{shared:,} of its {sum(map(len, their_places)):,} mentions are among our "
        f"{sum(map(len, our_places)):,}; a name of several concepts is one mention there, and "
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
        make_row(
            "annotate notes with `terms`, one core",
            speed,
            unit="notes",
            what="`LoadedTerms.annotate`; the peer is spaCy's `PhraseMatcher` on small letters and "
            f"`filter_spans`, over a blank English pipeline, the same names; {equal}.",
        )
    ]


def _phrase_matcher(table: Path) -> tuple[Any, Any]:
    """Return a blank spaCy pipeline, and a `PhraseMatcher` of the names of a concept table."""
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
    """Return the column TEXT of a table of notes."""
    with notes.open(newline="", encoding="utf-8") as file:
        return [row["TEXT"] for row in csv.DictReader(file)]


def _medcat(table: Path, scratch: Path) -> Any:
    """Make a MedCAT model as in its documentation: a blank spaCy pipeline, lower-case names."""
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


def _entity_places(entities: dict[str, Any]) -> list[Found]:
    return sorted((e["start"], e["end"], e["cui"]) for e in entities["entities"].values())


def measure(corpus: Corpus, inputs: Inputs, scratch: Path, *, rounds: int) -> list[Row]:
    """Time `mslm-data build` with each annotator in turn, and make the rows.

    Args:
        corpus: Notes and concepts.
        inputs: Provides the vocabulary.
        scratch: Folder to build in.
        rounds: Number of builds of each annotator and number of workers.

    Raises:
        RuntimeError: Builds with the same annotator differ.
    """
    options = {
        "terms": ("annotate.use=terms", f"annotate.table={corpus.table}"),
        "medcat": (
            f"annotate.model_pack={corpus.pack}",
            f"annotate.sha256={digest(corpus.pack)}",
        ),
    }
    figures: dict[tuple[str, int], list[Figure]] = {
        ("terms", 1): [],
        ("medcat", 1): [],
        ("medcat", 2): [],
    }
    manifests: dict[str, Manifest] = {}

    for _ in range(rounds):
        for (annotator, workers), builds in figures.items():
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
                builds.append(watched(command, env=_ONE_CORE))

                # A manifest has the digests of all shards: equal manifests mean equal folders.
                manifest = read_manifest(out)
                same(
                    f"build notes with {annotator}",
                    manifest,
                    manifests.setdefault(annotator, manifest),
                )

    rows = []
    for (annotator, workers), builds in figures.items():
        rows += _build_rows(annotator, workers, builds, manifests[annotator])
    return rows


def _build_rows(
    annotator: str, workers: int, figures: Sequence[Figure], manifest: Manifest
) -> list[Row]:
    """Return a row with notes per second and, for one worker, one with notes per CPU second."""
    notes_read = sum(split.read for split in manifest.splits.values())
    mentions = sum(split.given_mentions for split in manifest.splits.values())
    peak = max(figure.mib for figure in figures)
    what = (
        f"`mslm-data build --source mimic` with `{annotator}`, from {notes_read:,} notes to shards "
        f"with {mentions:,} mentions, start-up included; peak memory of all processes "
        f"{peak:,.0f} MiB."
    )

    wall = make_row(
        f"build notes with `{annotator}`, {'one worker' if workers == 1 else 'two workers'}",
        {"ours": [notes_read / figure.seconds for figure in figures]},
        unit="notes",
        what=what,
    )
    if workers > 1:
        return [wall]

    per_core = make_row(
        f"build notes with `{annotator}`, a second of a core",
        {"ours": [notes_read / figure.cpu for figure in figures]},
        unit="notes",
        what="as above; notes a second of CPU time, that of all processes added up.",
    )
    return [wall, per_core]
