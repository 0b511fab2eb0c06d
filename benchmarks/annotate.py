"""Annotation of notes: ours beside MedCAT as people call it, and a whole build from notes to shards."""

from __future__ import annotations

import csv
import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Contestant, Results, Row, in_turn, row_of
from benchmarks.inputs import ROOT, Inputs
from mslm_data.data.document import Document
from mslm_data.io import resources
from mslm_data.shard.manifest import read_manifest

NOTES = int(os.environ.get("MSLM_DATA_BENCH_NOTES", "20000"))
"""Notes of the build; 100,000 and more for a long run."""
_COMPARED = 400
_ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - notes are generated, whatever the corpora
    """Compare annotators on the same notes, and build a large file of notes with one and two workers."""
    table = resources.path("vocab", "sample/concepts.csv")
    pack = scratch / "pack"
    _call("-m", "mslm_data", "vocab", "concepts", "--from", str(table), "--out", str(pack))
    small, large = scratch / "small.csv", scratch / "NOTEEVENTS.csv"
    _call("-m", "benchmarks.notes", "--notes", str(_COMPARED), "--seed", "1", "--out", str(small))
    _call("-m", "benchmarks.notes", "--notes", str(NOTES), "--seed", "0", "--out", str(large))
    rows = [*_annotators(table, pack, small), *_builds(pack, large, scratch)]
    size = large.stat().st_size / 1e6
    return Results(
        rows=rows,
        inputs=[f"Notes: {NOTES:,} generated ones, {size:.0f} MB; {_COMPARED} for annotators"],
    )


def _annotators(table: Path, pack: Path, notes: Path) -> list[Row]:
    """Compare `MedCat.annotate` with MedCAT's own calls, which must find the same entities."""
    from mslm_data.annotate.medcat.annotator import MedCat

    with notes.open(newline="", encoding="utf-8") as file:
        texts = [row["TEXT"] for row in csv.DictReader(file)]
    documents = [Document(id=str(i), text=text) for i, text in enumerate(texts)]
    ours = MedCat(
        model_pack=str(pack), tokenizer="words", not_inside="", max_line_breaks=99
    ).start()
    cat = _plain(table, notes.parent)
    want = [_found(cat.get_entities(text)) for text in texts]
    got = [
        sorted({(s.start, s.end, s.concept) for s in one.spans}) for one in ours.annotate(documents)
    ]
    shared = sum(len(set(a) & set(b)) for a, b in zip(want, got, strict=True))
    equal = (
        f"{shared:,} of its {sum(map(len, want)):,} entities are among our "
        f"{sum(map(len, got)):,}, nested ones included"
    )
    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: ours.annotate(documents), work=len(texts)),
            "peer": Contestant(
                call=lambda _: [cat.get_entities(text) for text in texts], work=len(texts)
            ),
        },
        rounds=3,
    )
    loop = row_of(
        "annotate notes, one core",
        rates,
        unit="notes",
        what="`MedCat.annotate`; the peer is `cat.get_entities` in a loop, spaCy tokenizer, spell check on as it is "
        f"by default, the same concepts; {equal}.",
    )
    try:
        list(cat.get_entities_multi_texts(texts[:2], n_process=2))
    except (
        ModuleNotFoundError
    ) as error:  # its worker processes import what only other versions of a package have
        print(
            f"annotate: get_entities_multi_texts is left out: {error}", file=sys.stderr, flush=True
        )
        return [loop]
    pool = in_turn(
        {
            "ours": Contestant(call=lambda _: ours.annotate(documents), work=len(texts)),
            "peer": Contestant(
                call=lambda _: dict(cat.get_entities_multi_texts(texts, n_process=2)),
                work=len(texts),
            ),
        },
        rounds=2,
        warm_up=False,
    )
    many = row_of(
        "annotate notes, one core of ours against two of theirs",
        pool,
        unit="notes",
        what="ours as above in one process; the peer is `get_entities_multi_texts(n_process=2)` on the same notes, its "
        "processes started anew in each call, as it does.",
    )
    return [loop, many]


def _plain(table: Path, scratch: Path) -> Any:
    """Make a MedCAT of a concept table as its documentation does: a blank spaCy pipeline, lower-case names."""
    os.environ["MEDCAT_DISABLE_VERSION_CHECK"] = "true"
    import spacy
    from medcat.cat import CAT
    from medcat.config.config import Config
    from medcat.model_creation.cdb_maker import CDBMaker
    from medcat.vocab import Vocab

    logging.getLogger("medcat").setLevel(logging.ERROR)
    config = Config()
    config.general.log_level = logging.ERROR
    config.general.nlp.provider = "spacy"
    config.cdb_maker.name_versions = ["LOWER"]
    model = scratch / "blank"
    spacy.blank("en").to_disk(model)
    config.general.nlp.modelname = str(model)
    cdb = CDBMaker(config).prepare_csvs([str(table)], full_build=True)
    return CAT(cdb, Vocab(), config)


def _found(entities: dict[str, Any]) -> list[tuple[int, int, str]]:
    return sorted((e["start"], e["end"], e["cui"]) for e in entities["entities"].values())


def _builds(pack: Path, notes: Path, scratch: Path) -> list[Row]:
    """Build the large file with one worker and with two, and say notes a second and the peak of memory."""
    rows = []
    digests = set()
    for workers in (1, 2):
        out = scratch / f"notes-{workers}"
        before = time.perf_counter()
        _call(
            "-m", "mslm_data", "build", "--source", "mimic", "--input", str(notes), "--out", str(out), "--workers",
            str(workers), "--set", f"annotate.model_pack={pack}", "--tokenizer",
            str(resources.path("vocab", "sample/vocab.txt")),
        )  # fmt: skip
        spent = time.perf_counter() - before
        manifest = read_manifest(out)
        digests.add(
            manifest.plan
            + "".join(s.sha256 for split in manifest.splits.values() for s in split.shards)
        )
        read = sum(split.read for split in manifest.splits.values())
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        what = (
            f"notes to shards, all stages and start-up included; {read:,} notes; "
            f"the largest process had {peak:.0f} MiB"
        )
        rows.append(
            Row(
                name=f"build notes, {workers} worker(s)",
                what=f"{what}.",
                unit="notes",
                ours=read / spent,
            )
        )
    if len(digests) != 1:
        raise AssertionError("builds with one and two workers differ")
    return rows


def _call(*words: str) -> None:
    done: Sequence[str] = [sys.executable, *words]
    subprocess.run(
        done, check=True, cwd=ROOT, env={**os.environ, **_ONE_CORE}, stdout=subprocess.DEVNULL
    )
