"""Concept tables, notes and packs for the tests of MedCAT."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np

from mslm_data.annotate.medcat.annotator import LoadedMedCat, MedCat
from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.pack import digest

CONCEPTS = """cui,name,ontologies,name_status,type_ids,description
C9900001,congestive heart failure,T,P,T047,
C9900001,heart failure|CHF,T,A,T047,
C9900002,heart,T,P,T184,
C9900003,low back pain,T,P,T184,
C9900004,back pain,T,P,T184,
C9900005,pain,T,P,T184,
C9900006,aspirin,T,P,T109|T121,
C9900007,history of stroke,T,P,T033,
C9900008,stroke,T,P,T047,
C9900009,methadone dependence,T,P,T047|T121,
C9900010,last name syndrome|name,T,P,T047,
C9900011,lung cancer,T,P,T191,
C9900012,cold,T,A,T047,
C9900013,cold,T,P,T184,
"""
"""Nested names, an unlabelled type that overlaps a labelled one, two labels, a name of two concepts."""

_WORDS = re.findall(
    r"\S+",
    "the patient was seen for worsening of after and denies on admission with chronic acute mild Stable reviewed "
    "heart failure congestive back pain low lung cancer aspirin stroke history liver abscesses headaches NOS 12 b.i.d. "
    "CHF chf x2 mg/dL T2DM Dr. naïve @home",
)
_GAPS = (
    *(" ", " ", " ", " ", " ", "  ", "\n", "\n\n", ", ", "; "),
    *(" - ", ": ", ". ", "\n   ", "/", " (", ") ", "-", "\r\n"),
)


def write_table(path: Path, text: str = CONCEPTS) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@cache
def without_snapshot() -> None:
    """Keep MedCAT from listing all installed packages for each configuration: 0.3 s each."""
    snapshot: Any = import_module("medcat.utils.envsnapshot")
    for name in ("get_installed_dependencies", "get_transitive_deps"):
        setattr(snapshot, name, lambda _: {})


def make_cat(
    table: Path, *, provider: str = "regex", settings: Mapping[str, Any] | None = None
) -> Any:
    """Make a model by MedCAT's own maker.

    Args:
        table: Table with the columns of MedCAT.
        provider: MedCAT's name of the tokenizer.
        settings: Dotted name of a setting of MedCAT -> value.
    """
    without_snapshot()
    config = import_module("medcat.config.config").Config()
    config.general.log_level = logging.ERROR
    config.general.nlp.provider = provider
    for name, value in (settings or {}).items():
        *parents, last = name.split(".")
        setattr(reduce(getattr, parents, config), last, value)

    maker = import_module("medcat.model_creation.cdb_maker").CDBMaker(config)
    cdb = maker.prepare_csvs([str(table)], keep_default_na=False)
    vocabulary = import_module("medcat.vocab").Vocab()
    for word, count in cdb.token_counts.items():
        vocabulary.add_word(word, count)
    return import_module("medcat.cat").CAT(cdb, vocabulary, config)


def make_pack(table: Path, folder: Path, settings: Mapping[str, Any] | None = None) -> Path:
    """Save a model from `make_cat` as a pack of MedCAT, which has pickles."""
    cat = make_cat(table, settings=settings)
    saved = cat.save_model_pack(
        str(folder.parent),
        pack_name=folder.name,
        make_archive=False,
        add_hash_to_pack_name=False,
    )
    return Path(saved)


def load(pack: Path, **options: Any) -> LoadedMedCat:
    """Load a pack, named by its digest."""
    return MedCat(model_pack=str(pack), sha256=digest(pack), **options).load()


def notes(count: int, *, seed: int) -> list[str]:
    """Make notes with wrapped, truncated, nested, capitalised and punctuated names."""
    draw = random.Random(seed)
    return [
        "".join(draw.choice(_WORDS) + draw.choice(_GAPS) for _ in range(draw.randrange(5, 120)))
        for _ in range(count)
    ]


def table_of(count: int, *, seed: int) -> str:
    """Make a concept table with names of one to four words from `notes`.

    Some names belong to several concepts.
    """
    draw = random.Random(seed)
    rows = [
        f"C99{number:05d},{' '.join(draw.choice(_WORDS) for _ in range(draw.randrange(1, 5)))},T,"
        f"{draw.choice('PAAN')},T047,"
        for number in range(count)
    ]
    return "\n".join(["cui,name,ontologies,name_status,type_ids,description", *rows, ""])


def train(cat: Any) -> None:
    """Give words random vectors, and learn the contexts of concepts."""
    draw = np.random.default_rng(0)
    for word in list(cat.vocab.vocab):
        cat.vocab.add_word(word, 1, draw.normal(size=16))
    cat.trainer.train_unsupervised(notes(10, seed=7), nepochs=1)
