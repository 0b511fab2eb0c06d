"""Checks of other files than corpora: pipelines, strategies, lexicons, scores, tables, vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mslm_data import pipeline
from mslm_data.annotate import semantic_types
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.annotate.terms.term_table import read_terms as terms_of
from mslm_data.builds import stages
from mslm_data.data.document import Document
from mslm_data.encode import tokenizer
from mslm_data.lexicon import score_columns as scores
from mslm_data.lexicon import store as lexicon
from mslm_data.lexicon.anchors import general_text
from mslm_data.lexicon.concepts import concept_tables, obo, rrf
from mslm_data.lexicon.concepts.names import NameChoice, NameTally, clean
from mslm_data.lexicon.scores import tables
from mslm_data.mask.artefacts import with_artefacts
from mslm_data.mask.table import make
from mslm_data.segment.given import Whole
from tests import made
from tests.fuzz import checks, seeds
from tests.fuzz.checks import Check
from tests.generate import fixed_examples

ABOUT = {"size": 1144, "tokenizer": "0" * 64}
VOCAB = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\na\n##s\nA\n.\n0\n"
NAMES = b'{"mask_token": "[MASK]", "pad_token": {"content": "[PAD]", "lstrip": false}, "unk_token": "[UNK]"}'
BPE_VOCAB = (
    b'{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "a": 5, "b": 6, "ab": 7, "0": 8}'
)
MERGES = b"#version: 0.2\na b\n"


def read_lexicon(folder: Path) -> None:
    """Read a lexicon. An accepted lexicon can be used."""
    path = folder / "x.arrow"
    read = lexicon.read_lexicon(path)
    assert checks.within(read.tokens.values, 0, read.about["size"])
    assert len(read.words) == len(read)
    lexicon.write_lexicon(folder / "again.arrow", read)
    lexicon._open_cached.cache_clear()
    strategy = make("pmi", {"lexicon": str(path)})
    strategy.plan(fixed_examples(), seed=1)


def read_scores(folder: Path) -> None:
    """Open scores. Accepted scores can be used."""
    scores._open_cached.cache_clear()
    column = scores.open_scores(folder / "x")
    examples = fixed_examples(seeds.ROWS)
    assert bool(np.all(column.keys[1:] >= column.keys[:-1]))
    column.gather(examples)


def read_pipeline(folder: Path) -> None:
    """Read a pipeline, and make its parts."""
    read = pipeline.read(str(folder / "x.toml"))
    json.dumps(read.effective(), default=str)
    stages.make_source(read)
    stages.make_segmenter(read)
    stages.make_annotator(read)


def read_strategy(folder: Path) -> None:
    """Read a strategy. An accepted strategy can mask."""
    strategy = with_artefacts(make(str(folder / "x.toml"), {}), lambda name, _: name)
    examples = fixed_examples()
    strategy.corrupt(examples, strategy.plan(examples, seed=1, epoch=2, step=3), seed=1)


def concepts(file: str) -> Check:
    """Return a check that reads a file of concepts."""
    name = file.removesuffix(".gz")
    read = {".csv": concept_tables.read, ".obo": obo.read, ".RRF": rrf.read}[Path(name).suffix]

    def check(folder: Path) -> None:
        choice = NameChoice(types=frozenset({"T047"}), xref="UMLS_CUI")
        for one in read(folder / file, ("T047",), choice, NameTally()):
            choice.refusal(one._replace(name=clean(one.name)))
            "".join((one.concept, one.name, *one.types, one.source)).encode()

    return check


def read_terms(folder: Path) -> None:
    """Read a table of terms. An accepted table can find mentions."""
    path = folder / "x.csv"
    for term in terms_of(path, "semantic_types.toml"):
        assert term.name
        assert term.label
    running = Terms(table=str(path)).start()
    made.annotated(running, [Document(id="d", text="A high fever, and a rash, red.")])


def read_types(folder: Path) -> None:
    """Read a table of semantic types."""
    read = semantic_types.read(str(folder / "x.toml"))
    assert all(label in read.labels for label in read.label_by_type.values())
    read.label(("T047", "T121"))


def read_weights(folder: Path) -> None:
    """Read a table of words and numbers, in each way."""
    for by in ("words", "pieces", "ids"):
        read, _ = tables.read_table(
            folder / "x.tsv", made.word_piece(), by=by, given_words=by == "words", about=dict(ABOUT)
        )
        lexicon.write_lexicon(folder / "made.arrow", read)


def read_counts(folder: Path) -> None:
    """Read a table of words with their counts."""
    assert all(count > 0 for count in general_text.from_file(folder / "x.tsv").counts.values())


def build_notes(folder: Path) -> None:
    """Build notes with a table of terms."""
    annotate = {"use": "terms", "table": str(folder / "terms.csv")}
    checks.building(
        "notes", "NOTEEVENTS.csv", labels=("Disease",), segment="clinical", annotate=annotate
    )(folder)


def load_tokenizer(file: str) -> Check:
    """Return a check that loads a tokenizer. An accepted tokenizer can encode."""

    def check(folder: Path) -> None:
        loaded = tokenizer.load_tokenizer(str(folder / file))
        ids = loaded.ids
        assert all(-1 <= id_ < ids.size for id_ in (ids.mask, ids.pad, ids.unk))
        assert all(0 <= id_ < ids.size for id_ in ids.special)
        assert tokenizer.parse_tokenizer(loaded.json).json == loaded.json
        encoder = made.encoder(loaded, ("X",), max_tokens=16)
        document = made.of_words(["the", "a", "0", "é", "ab", "."], [(0, 2)])
        made.encoded(encoder, [document], Whole())

    return check
