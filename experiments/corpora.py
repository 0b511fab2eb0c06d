"""Build the corpora of the experiments with the package's commands, once, in a cache folder.

Files are read from the folder `MSLM_DATA_REAL`. If it is missing, the shipped samples replace
BLURB's corpora, so the code runs anywhere. Each line of results names its data.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from benchmarks import concepts, inputs
from mslm_data.api.loading import Shards, load

NER = {
    "NCBI-disease": "ncbi-disease",
    "BC5CDR-chem": "bc5cdr-chem",
    "BC5CDR-disease": "bc5cdr-disease",
    "BC2GM": "bc2gm",
}
"""BLURB's name of a corpus -> name of the shipped pipeline and of the sample's folder."""
HELD_OUT = ("NCBI-disease", "BC5CDR-chem", "BC2GM")
"""Corpora whose test sentences are removed from all adaptation text."""
OTHER_NER: dict[str, dict[str, str]] = {
    "SEC filings": {
        "train": "other/sec_filings/FIN5.txt",
        "test": "other/sec_filings/FIN3.txt",
    },
    "WNUT17": {
        "train": "other/wnut17/wnut17train.conll",
        "validation": "other/wnut17/emerging.dev.conll",
        "test": "other/wnut17/emerging.test.annotated",
    },
}
"""Named entities outside of medicine: name -> split -> file in the folder of real data."""
DOCUMENTS: dict[str, tuple[str, str]] = {
    "NCBI-disease": ("pubtator/ncbi/NCBItrainset_corpus.txt", "Disease"),
    "BC5CDR-chem": ("pubtator/bc5cdr/CDR_TrainingSet.PubTator.txt", "Chemical"),
    "BC5CDR-disease": ("pubtator/bc5cdr/CDR_TrainingSet.PubTator.txt", "Disease"),
}
"""Name -> file of whole training documents, and label. BLURB's files have sentences only."""
_RENAMED = ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
"""Labels of NCBI-disease's documents, all of which BLURB calls Disease."""
NOTES = "clinical/notes/NOTEEVENTS.csv.gz"
TASKS = {"ACL-ARC": "acl_arc", "ChemProt": "chemprot"}
"""Text classification: name -> folder in `tasks`."""

_MARKED = re.compile(r"<< (.+?) >>|\[\[ (.+?) \]\]")
"""ChemProt's marks of the two entities in a relation."""

Sentence = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A folder of built corpora and encoders.

    Attributes:
        folder: Folder outside the repository. Missing corpora and encoders are made again.
        encoder: Folder of a Hugging Face encoder with its tokenizer.
        device: Torch device to train on. Default: "cpu".
    """

    folder: Path
    encoder: Path
    device: str = "cpu"

    def origin(self) -> str:
        """Return the source of the text: BLURB, or the shipped samples if BLURB is missing."""
        if (inputs.real() / "blurb").is_dir():
            return "BLURB"
        return "the shipped samples, which were made up"

    def build(self) -> str:
        """Return the identity of a user's build, an option of all runs; "" for shipped corpora."""
        return ""

    def ner(self, name: str) -> Shards:
        """Return a corpus of named entities with the published splits."""
        if name in NER:
            options = ["--source", f"blurb/{NER[name]}", "--input", str(source(name))]
            return self._built(name, options)

        with tempfile.TemporaryDirectory() as scratch:
            for split, file in OTHER_NER[name].items():
                shutil.copyfile(inputs.real() / file, Path(scratch) / f"{split}.conll")
            return self._built(name, ["--input", scratch], _pipeline(name, "conll", "given"))

    def task(self, name: str) -> Shards:
        """Return a corpus of labelled texts with the published splits and weak mentions of terms.

        ChemProt's terms are the entities marked in its training text. ACL-ARC marks none, so its
        terms are n-grams of its training text, ranked by pointwise mutual information.
        """
        files = ["--input", str(inputs.real() / "tasks" / TASKS[name])]
        table = self.folder / "corpora" / f"{name}.terms.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{table}.lock"):
            if not table.is_file():
                # Only ChemProt marks entities.
                terms = self._marked(name) or self._ngrams(name, files)
                rows = ["name,label", *(f'"{term}",Term' for term in terms)]
                table.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return self._built(name, files, _task(name, _terms(table, "Term")))

    def _marked(self, name: str) -> list[str]:
        """Return the entities marked in a task's training text, sorted."""
        path = inputs.real() / "tasks" / TASKS[name] / "train.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()
        terms = {a or b for line in lines for a, b in _MARKED.findall(json.loads(line)["text"])}
        return sorted(term for term in terms if '"' not in term)

    def _ngrams(self, name: str, files: list[str]) -> list[str]:
        """Return n-grams of a task's training text."""
        shards = self._built(f"{name}-plain", files, _task(name, 'use = "none"'))
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "ngrams.txt"
            options = ["--drop-short-words", "--stop-words", "english", "--list", str(path)]
            command("vocab", "pmi", str(shards.folder), *options)
            lines = path.read_text(encoding="utf-8").splitlines()
        return sorted(line.split("\t")[0] for line in lines if '"' not in line)

    def domain(self) -> Shards:
        """Return the adaptation text, a split `train` with gold mentions.

        It is the training and development text of the available BLURB corpora. Sentences equal to
        a test sentence of `HELD_OUT`, or with 13 consecutive words of one, are removed.
        """
        return self._text("domain", domain_sentences())

    def weak_domain(self) -> Shards:
        """Return the text of `domain` with weak mentions, the names of diseases and drugs.

        The names are from the Disease Ontology and DrugBank's open vocabulary, or from the shipped
        sample if the folder of real data does not have them.
        """
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "concepts.csv"
            concepts.write(path)
            with path.open(newline="", encoding="utf-8") as file:
                names = sorted({row["name"] for row in csv.DictReader(file)})
            table = Path(scratch) / "terms.csv"
            with table.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(
                    [("name", "label"), *((name, "Entity") for name in names)]
                )
            return self._text("domain-weak", domain_sentences(), _terms(table, "Entity"))

    def documents(self, name: str) -> Shards:
        """Return the training documents of a corpus, a split `train` with gold mentions."""
        file, label = DOCUMENTS[name]
        annotate = f'labels = ["{label}"]'
        if name == "NCBI-disease":
            names = "\n".join(f'{each} = "Disease"' for each in _RENAMED)
            annotate += f"\n[annotate.rename]\n{names}"
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copyfile(inputs.real() / file, Path(scratch) / "train.txt")
            pipeline = _pipeline(name, "pubtator", "clinical", annotate=annotate)
            return self._built(f"{name}-documents", ["--input", scratch], pipeline)

    def open_text(self) -> Shards:
        """Return text without gold mentions, annotated with the names of open vocabularies.

        It is the training and development text of BLURB's corpora and the clinical notes, without
        the sentences of `HELD_OUT`'s test sets. The names are from the Disease Ontology, DrugBank
        and the Symptom Ontology.
        """
        with tempfile.TemporaryDirectory() as scratch:
            table = Path(scratch) / "terms.csv"
            with table.open("w", newline="", encoding="utf-8") as file:
                rows = [(name, "Entity") for name in concepts.open_names()]
                csv.writer(file).writerows([("name", "label"), *rows])

            texts = [" ".join(word for word, _ in sentence) for sentence in domain_sentences()]
            texts += _notes()
            data = Path(scratch) / "data"
            data.mkdir()
            with (data / "train.jsonl").open("w", encoding="utf-8") as file:
                for number, text in enumerate(texts):
                    file.write(json.dumps({"id": str(number), "text": text}) + "\n")
            pipeline = _pipeline(
                "open-text",
                "jsonl",
                "clinical",
                source=self._held_out(),
                annotate=_terms(table, "Entity"),
            )
            return self._built("open-text", ["--input", str(data)], pipeline)

    def everything(self) -> Shards:
        """Return all available training text, used to train the language modelling head only."""
        return self._text("everything", [*domain_sentences(), *_other_sentences()])

    def _text(
        self, name: str, sentences: Sequence[Sentence], annotate: str = 'labels = ["Entity"]'
    ) -> Shards:
        with tempfile.TemporaryDirectory() as scratch:
            inputs.write(Path(scratch) / "train.tsv", list(sentences))
            pipeline = _pipeline(name, "conll", "given", source=self._held_out(), annotate=annotate)
            return self._built(name, ["--input", scratch], pipeline)

    def _held_out(self) -> str:
        """Return the option with which a build removes what overlaps with the test sets."""
        tests = [str(Path(str(self.ner(corpus).folder)) / "test") for corpus in HELD_OUT]
        return f"decontaminate = {tests}"

    def _built(self, name: str, options: list[str], pipeline: str = "") -> Shards:
        """Run `mslm-data build`, unless the folder is complete."""
        folder = self.folder / "corpora" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"), tempfile.TemporaryDirectory() as scratch:
            if not (folder / "manifest.json").is_file():
                if pipeline:
                    file = Path(scratch) / "pipeline.toml"
                    file.write_text(pipeline, encoding="utf-8")
                    options = ["--source", str(file), *options]
                tokenizer = ["--tokenizer", str(self.encoder), "--workers", "1"]
                command("build", *options, *tokenizer, "--out", str(folder))
        return load(folder)


@dataclass(frozen=True, kw_only=True)
class OwnCache(Cache):
    """A cache for one corpus that the user has built. The encoder's head is trained on it, too.

    Attributes:
        shards: Built folder of the corpus. It is not written to.
    """

    shards: Path

    def origin(self) -> str:
        """Return the source of the text."""
        return "a corpus that was built before"

    def build(self) -> str:
        """Return the first 16 digits of the plan's digest, which covers the inputs."""
        return load(self.shards).manifest.plan[:16]

    def ner(self, name: str) -> Shards:  # noqa: ARG002
        """Return the corpus, for any name."""
        return load(self.shards)

    def everything(self) -> Shards:
        """Return the corpus."""
        return load(self.shards)


def _pipeline(
    name: str, source_use: str, segmenter: str, *, source: str = "", annotate: str = ""
) -> str:
    """Return the TOML of a pipeline whose corpus may repeat documents.

    Args:
        name: Name of the corpus.
        source_use: Form of the files.
        segmenter: Segmenter.
        source: Further lines of `[source]`. Default: "".
        annotate: Lines of `[annotate]`. Default: "".
    """
    return (
        f'name = "{name}"\n'
        f'[source]\nduplicates = "keep"\nuse = "{source_use}"\n{source}\n'
        f"[annotate]\n{annotate}\n"
        f'[segment]\nuse = "{segmenter}"\n'
    )


def _task(name: str, annotate: str) -> str:
    """Return the pipeline of a task's labelled texts."""
    source = 'doc_label = "label"\nid_column = ""'
    return _pipeline(name.lower(), "jsonl", "whole", source=source, annotate=annotate)


def _terms(table: Path, label: str) -> str:
    """Return the lines of `[annotate]` for a table of terms."""
    return f'use = "terms"\ntable = "{table}"\nlabels = ["{label}"]'


def command(*arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command of the package in its own process.

    Args:
        *arguments: Arguments of `mslm-data`.
        environment: Additional environment variables. Default: None.

    Raises:
        SystemExit: The command failed. Its own message is on stderr.
    """
    run = [sys.executable, "-m", "mslm_data", *arguments]
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(
        run, check=False, stdout=subprocess.DEVNULL, env=variables, cwd=inputs.ROOT
    )
    if done.returncode:
        raise SystemExit(
            f"mslm-data {arguments[0]}: ended with exit code {done.returncode}, see above"
        )


def source(name: str) -> Path:
    """Return the folder of a BLURB corpus, or of its shipped sample if BLURB is missing."""
    for folder in (f"{name}-IOB", name):
        path = inputs.real() / "blurb" / folder
        if path.is_dir():
            return path
    return inputs.ROOT / "vocab" / "sample" / NER[name]


def domain_sentences() -> list[Sentence]:
    """Return the training and development sentences of BLURB's corpora, with untyped mentions.

    BC5CDR's two sets annotate the same sentences and are merged. If a chemical and a disease
    overlap, the chemical is kept.
    """
    sentences = []
    for file in ("train.tsv", "devel.tsv"):
        sentences += _read(source("NCBI-disease") / file)
        sentences += _read(source("BC2GM") / file)
        chemicals = _read(source("BC5CDR-chem") / file)
        diseases = _read(source("BC5CDR-disease") / file)
        sentences += both(chemicals, diseases)

    jnlpba = inputs.real() / "blurb" / "JNLPBA" / "devel.tsv"
    if jnlpba.is_file():
        sentences += _read(jnlpba)
    return sentences


def both(sentences: Sequence[Sentence], others: Sequence[Sentence]) -> list[Sentence]:
    """Merge two annotations of the same sentences. The first wins where they overlap.

    If the words of a sentence differ, its second annotation is ignored.
    """
    merged = []
    for index, sentence in enumerate(sentences):
        other = others[index] if index < len(others) else []
        if [word for word, _ in sentence] != [word for word, _ in other]:
            merged.append(sentence)
            continue
        pairs = zip(sentence, other, strict=True)
        merged.append([(word, tag if tag != "O" else tag2) for (word, tag), (_, tag2) in pairs])
    return merged


def _other_sentences() -> list[Sentence]:
    """Return sentences of other domains without mentions: filings, posts and labelled texts."""
    sentences: list[Sentence] = []
    for files in OTHER_NER.values():
        path = inputs.real() / files["train"]
        words: Sentence = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            fields = line.split()
            if fields and not fields[0].startswith("-DOCSTART-"):
                words.append((fields[0], "O"))
            elif words:
                sentences.append(words)
                words = []
        if words:
            sentences.append(words)

    for folder in TASKS.values():
        path = inputs.real() / "tasks" / folder / "train.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        sentences += [[(word, "O") for word in json.loads(line)["text"].split()] for line in lines]
    return sentences


def _notes() -> list[str]:
    """Return the clinical notes, except withdrawn ones (`ISERROR` is 1)."""
    path = inputs.real() / NOTES
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["TEXT"] for row in rows if row["ISERROR"] != "1"]


def _read(path: Path) -> list[Sentence]:
    """Return the sentences of a file with untyped tags, without `-DOCSTART-` lines."""
    sentences = inputs.read(path)
    return [
        [(word, tag[:1]) for word, tag in sentence]
        for sentence in sentences
        if not sentence[0][0].startswith("-DOCSTART-")
    ]
