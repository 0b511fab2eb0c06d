"""Commands on real corpora, compared with published numbers and with counts of their files."""

from __future__ import annotations

import csv
import functools
import gzip
import math
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
import tokenizers

import mslm_data as md
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document, Part
from mslm_data.source.formats.notes import Notes
from tests import made
from tests.cli.running import Done, run
from tests.reference import overlap as reference

PAGE = Path(__file__).parents[2] / "docs" / "quality.md"
CONCEPTS = made.SAMPLE / "concepts.csv"


class Corpus(NamedTuple):
    """A corpus: its folder, and the numbers of rows and mentions of its three splits."""

    folder: str
    sequences: tuple[int, int, int]
    mentions: tuple[int, int, int]


CORPORA = {
    "bc2gm": Corpus("BC2GM-IOB", (12574, 2519, 5038), (15197, 3061, 6325)),
    "bc5cdr-chem": Corpus("BC5CDR-chem-IOB", (4560, 4581, 4797), (5203, 5347, 5385)),
    "bc5cdr-disease": Corpus("BC5CDR-disease-IOB", (4560, 4581, 4797), (4182, 4246, 4424)),
    "ncbi-disease": Corpus("NCBI-disease-IOB", (5424, 923, 940), (5134, 787, 960)),
}


def vocab_of(real: Path) -> Path:
    return real / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt"


def build(real: Path, out: Path, name: str, *words: object) -> Done:
    corpus = ("--input", real / "blurb" / CORPORA[name].folder, "--tokenizer", vocab_of(real))
    return run("build", "--source", f"blurb/{name}", *corpus, "--out", out, *words)


@pytest.mark.parametrize("name", CORPORA)
def test_build__and_mask_stats_count_a_corpus_as_its_files_do(
    name: str, real: Path, tmp_path: Path
) -> None:
    """The expected masks are counted from the file, without positions."""
    rows = rows_of_file(real, real / "blurb" / CORPORA[name].folder / "train.tsv")
    elm, blm = "1.0", "0.075"

    built = build(real, tmp_path, name, "--json").json
    stats = run("mask-stats", tmp_path, "--elm", elm, "--blm", blm, "--json").json
    fewer = run("mask-stats", tmp_path, "--elm", "0.25", "--json").json

    splits = [built["splits"][split] for split in ("train", "validation", "test")]
    assert tuple(split["sequences"] for split in splits) == CORPORA[name].sequences
    assert tuple(split["mentions"] for split in splits) == CORPORA[name].mentions
    assert built["read"] == built["written"] == sum(CORPORA[name].sequences)
    assert run("verify", tmp_path).code == 0

    expected = {
        "sequences": len(rows),
        "maskable_tokens": sum(row.tokens for row in rows),
        "tokens": sum(row.tokens + 2 for row in rows),
        "mentions": sum(row.mentions for row in rows),
        "mention_tokens": sum(row.mention_tokens for row in rows),
        "masked_mentions": sum(row.mentions for row in rows),
        "n_elm": sum(row.mention_tokens for row in rows),
        "n_blm": sum(
            min(math.ceil(Fraction(blm) * row.tokens), row.tokens - row.mention_tokens)
            for row in rows
        ),
    }
    assert {key: stats[key] for key in expected} == expected
    quarter = sum(math.ceil(Fraction(1, 4) * row.mentions) for row in rows)
    assert fewer["masked_mentions"] == quarter


class Row(NamedTuple):
    """A sentence of a corpus, counted from its file with the tokenizer alone."""

    tokens: int
    mentions: int
    mention_tokens: int


def rows_of_file(real: Path, file: Path) -> list[Row]:
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece.from_file(str(vocab_of(real)), unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    pieces = functools.cache(lambda word: len(tokenizer.encode(word).ids))

    text = file.read_text(encoding="utf-8").replace("\r", "").strip("\n")
    rows = []
    for sentence in text.split("\n\n"):
        lines = [line.split("\t") for line in sentence.strip("\n").split("\n")]
        rows.append(
            Row(
                tokens=sum(pieces(word) for word, _ in lines),
                mentions=sum(tag.startswith("B") for _, tag in lines),
                mention_tokens=sum(pieces(word) for word, tag in lines if tag != "O"),
            )
        )
    return rows


def test_build__counts_jnlpba_in_rows_and_documents(real: Path, tmp_path: Path) -> None:
    tokenizer = real / "tokenizers" / "PubMedBERT_BiomedBERT.vocab.txt"
    corpus = ("--input", real / "blurb" / "JNLPBA", "--tokenizer", tokenizer)

    done = run("build", "--source", "blurb/jnlpba", *corpus, "--out", tmp_path, "--json")

    validation = done.json["splits"]["validation"]
    numbers = [validation[key] for key in ("documents", "sequences", "mentions")]
    assert numbers == [200, 1739, 4551]


def test_build__counts_notes_and_finds_terms_in_their_text(real: Path, tmp_path: Path) -> None:
    notes = real / "clinical" / "notes" / "NOTEEVENTS.csv.gz"

    done = run(
        "build", "--source", "mimic", "--input", notes, "--out", tmp_path, "--json", "--tokenizer",
        vocab_of(real), "--set", "annotate.use=terms", "--set", f"annotate.table={CONCEPTS}",
        "--set", "encode.keep_text=true",
    )  # fmt: skip

    assert (done.json["read"], done.json["set_aside"], done.json["written"]) == (1345, 21, 1324)
    with gzip.open(notes, "rt", newline="", encoding="utf-8") as file:
        texts = {row["ROW_ID"]: row["TEXT"] for row in csv.DictReader(file)}
    annotator = Terms(table=str(CONCEPTS)).start()
    names: dict[str, set[str]] = {}
    for part in Notes(pattern="*").cut(Part(str(notes)), target_bytes=1 << 30):
        for record in Notes(pattern="*", placeholders="token").read(part):
            if isinstance(record, Document):
                (found,) = made.annotated(annotator, [record])
                names[record.id] = {
                    " ".join(record.text[span.start : span.end].split()) for span in found.spans
                }
    for rows in md.load(tmp_path).values():
        for row in rows:
            assert row["text"] in texts[row["doc_id"]]
            for start, end in zip(row["span_starts"], row["span_ends"], strict=True):
                piece = row["text"][row["token_starts"][start] : row["token_ends"][end - 1]]
                assert " ".join(piece.split()) in names[row["doc_id"]]


def test_anchors__of_a_corpus_are_its_terms(real: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordfreq")
    vocab = real / "tokenizers" / "bert-base-uncased__BlueBERT.vocab.txt"
    corpus = ("--source", "blurb/bc5cdr-chem", "--input", real / "blurb" / "BC5CDR-chem-IOB")
    run("build", *corpus, "--tokenizer", vocab, "--out", tmp_path / "built")

    done = run("vocab", "anchors", tmp_path / "built", "--general", "wordfreq", "--json")

    words = [anchor["word"] for anchor in done.json["anchors"]]
    assert words[:4] == ["adriamycin", "sirolimus", "isoproterenol", "proteinuria"]
    assert words[4:6] == ["bupivacaine", "lamivudine"]
    assert done.json["anchors"][0]["count"] == 35


@pytest.mark.long
@pytest.mark.parametrize("name", CORPORA)
def test_overlap__equals_its_twin_and_the_page(name: str, real: Path, tmp_path: Path) -> None:
    build(real, tmp_path / "out", name, "--set", "encode.keep_text=true")
    texts = {split: list(rows.texts()) for split, rows in md.load(tmp_path / "out").items()}
    page = PAGE.read_text(encoding="utf-8")

    for pair in run("overlap", tmp_path / "out", "--json").json["pairs"]:
        of, within = pair["of"]["split"], pair["in"]["split"]
        exact, near = reference.overlap(texts[of], texts[within])
        found = {how: [shared["row"] for shared in pair["found"] if shared["how"] == how]
                 for how in ("exact", "near")}  # fmt: skip
        assert found == {"exact": exact, "near": near}

        counts = (pair["sentences"], pair["exact"], pair["exact_short"], pair["near"])
        row = f"| {name} | {of} | {within} | {' | '.join(f'{count:,}' for count in counts)} |"
        assert row in page


@pytest.mark.long
def test_audit__page_shows_scores_of_open_ontologies(real: Path, tmp_path: Path) -> None:
    ontology = real / "concepts" / "disease_ontology" / "doid_2016-03-04.obo"
    drugs = real / "concepts" / "drugbank_open" / "drugbank_vocabulary.csv"
    terms = tmp_path / "t.csv"
    words = ("--from", f"{ontology}=T047", "--from", f"{drugs}=T121", "--out", terms)
    made_table = run("vocab", "concepts", *words)
    assert made_table.code == 0, made_table.err
    model = ("--set", f"annotate.table={terms}")
    built = run(
        "build", "--source", "mimic", "--sample", "--out", tmp_path / "out", "--set", "annotate.use=terms",
        "--set", "annotate.plurals=true", "--set", "annotate.case=short", *model,
    )  # fmt: skip
    assert built.code == 0, built.err

    page = PAGE.read_text(encoding="utf-8")
    for pipeline, folder, corpus, label in (
        ("ncbi-disease", "ncbi", "NCBI-disease", "Disease=Disease"),
        ("bc5cdr-disease", "bc5cdr", "BC5CDR", "Disease=Disease"),
        ("bc5cdr-chem", "bc5cdr", "BC5CDR", "Chemical=Treatment"),
    ):
        done = run(
            "audit", tmp_path / "out", *model, "--gold", real / "pubtator" / folder,
            "--gold-source", f"blurb/{pipeline}", "--gold-set", "source.use=pubtator", "--label",
            label, "--json",
        )  # fmt: skip
        ((name, scores),) = done.json["labels"].items()
        numbers = [scores[f"exact_{score}"] for score in ("precision", "recall", "f1")]
        columns = " | ".join(f"{number:.3f}"[1:] for number in numbers)
        assert f"| ontologies | {corpus}, all splits | {name} | {columns}" in page
