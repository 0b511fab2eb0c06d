"""Annotation of notes beside MedCAT as people call it, and a whole build from notes to shards."""

from __future__ import annotations

import csv
import logging
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import Contestant, Results, Row, in_turn, row_of, unless_absent
from benchmarks.inputs import ROOT, Inputs
from mslm_data.data.document import Document
from mslm_data.io import resources
from mslm_data.shard.manifest import read_manifest

NOTES = int(os.environ.get("MSLM_DATA_BENCH_NOTES", "20000"))
"""Notes of the build; set 100,000 or more for a long run."""
_COMPARED = 400
_ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_MANY = "annotate notes, one core of ours against two of theirs"

Found = tuple[int, int, str]
"""Start and end in characters, and the concept."""


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - notes are generated
    """Compare annotators on the same notes, and build a large file with one and two workers."""
    table = resources.path("vocab", "sample/concepts.csv")
    pack = scratch / "pack"
    _call("-m", "mslm_data", "vocab", "concepts", "--from", str(table), "--out", str(pack))

    small = scratch / "small.csv"
    large = scratch / "NOTEEVENTS.csv"
    _call("-m", "benchmarks.notes", "--notes", str(_COMPARED), "--seed", "1", "--out", str(small))
    _call("-m", "benchmarks.notes", "--notes", str(NOTES), "--seed", "0", "--out", str(large))

    rows = unless_absent("annotate notes, peer MedCAT", lambda: _annotators(table, pack, small))
    rows += _builds(pack, large, scratch)

    size = large.stat().st_size / 1e6
    says = f"Notes: {NOTES:,} generated ones, {size:.0f} MB; {_COMPARED} for annotators"
    return Results(rows=rows, inputs=[says])


def _annotators(table: Path, pack: Path, notes: Path) -> list[Row]:
    """Compare `MedCat.annotate` with MedCAT's own calls, and count the entities that both find.

    Raises:
        ImportError: MedCAT or spaCy is not installed.
    """
    from mslm_data.annotate.medcat.annotator import MedCat

    with notes.open(newline="", encoding="utf-8") as file:
        texts = [row["TEXT"] for row in csv.DictReader(file)]
    documents = [Document(id=str(i), text=text) for i, text in enumerate(texts)]

    ours = MedCat(
        model_pack=str(pack), tokenizer="words", not_inside="", max_line_breaks=99
    ).start()
    cat = _medcat(table, notes.parent)

    theirs_found = [_found(cat.get_entities(text)) for text in texts]
    ours_found = [
        sorted({(span.start, span.end, span.concept) for span in document.spans})
        for document in ours.annotate(documents)
    ]
    shared = sum(len(set(a) & set(b)) for a, b in zip(theirs_found, ours_found, strict=True))
    equal = (
        f"{shared:,} of its {sum(map(len, theirs_found)):,} entities are among our "
        f"{sum(map(len, ours_found)):,}, nested ones included"
    )

    annotating = Contestant(call=lambda _: ours.annotate(documents), work=len(texts))
    one_by_one = Contestant(
        call=lambda _: [cat.get_entities(text) for text in texts], work=len(texts)
    )
    loop = row_of(
        "annotate notes, one core",
        in_turn({"ours": annotating, "peer": one_by_one}, rounds=3),
        unit="notes",
        what="`MedCat.annotate`; the peer is `cat.get_entities` in a loop, spaCy tokenizer, spell "
        f"check on as it is by default, the same concepts; {equal}.",
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


def _builds(pack: Path, notes: Path, scratch: Path) -> list[Row]:
    """Build the large file with one worker and with two: notes a second, and the peak of memory.

    Raises:
        RuntimeError: The two folders differ.
    """
    rows = []
    digests = set()
    for workers in (1, 2):
        out = scratch / f"notes-{workers}"

        start = time.perf_counter()
        _call(
            "-m", "mslm_data", "build", "--source", "mimic", "--input", str(notes),
            "--out", str(out), "--workers", str(workers),
            "--set", f"annotate.model_pack={pack}",
            "--tokenizer", str(resources.path("vocab", "sample/vocab.txt")),
        )  # fmt: skip
        spent = time.perf_counter() - start

        manifest = read_manifest(out)
        shards = [shard for split in manifest.splits.values() for shard in split.shards]
        digests.add(manifest.plan + "".join(shard.sha256 for shard in shards))

        read = sum(split.read for split in manifest.splits.values())
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        rows.append(
            Row(
                name=f"build notes, {workers} worker(s)",
                what=f"notes to shards, all stages and start-up included; {read:,} notes; the "
                f"largest process had {peak:.0f} MiB.",
                unit="notes",
                ours=read / spent,
            )
        )

    if len(digests) != 1:
        raise RuntimeError("build notes: expected one worker and two to build equal folders")
    return rows


def _call(*words: str) -> None:
    subprocess.run(
        [sys.executable, *words],
        check=True,
        cwd=ROOT,
        env={**os.environ, **_ONE_CORE},
        stdout=subprocess.DEVNULL,
    )
