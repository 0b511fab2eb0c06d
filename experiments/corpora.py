"""Build the corpora of the experiments with the package's own commands, once, in a cache folder.

Files are read from the folder that `MSLM_DATA_REAL` names. Where it is absent, the shipped samples
stand in for BLURB's corpora, so that the code can be tried anywhere; each line of results says on
what it was measured.
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
"""BLURB's name of a corpus -> the shipped pipeline, and the folder of its shipped sample."""
HELD_OUT = ("NCBI-disease", "BC5CDR-chem", "BC2GM")
"""Corpora whose test sentences stand in no text that an encoder is adapted on."""
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
"""Named entities outside of medicine: name -> split -> file below the folder of real data."""
DOCUMENTS: dict[str, tuple[str, str]] = {
    "NCBI-disease": ("pubtator/ncbi/NCBItrainset_corpus.txt", "Disease"),
    "BC5CDR-chem": ("pubtator/bc5cdr/CDR_TrainingSet.PubTator.txt", "Chemical"),
    "BC5CDR-disease": ("pubtator/bc5cdr/CDR_TrainingSet.PubTator.txt", "Disease"),
}
"""File of a corpus' training documents, of which BLURB has the sentences alone, and its label."""
_RENAME = """
[annotate.rename]
SpecificDisease = "Disease"
DiseaseClass = "Disease"
Modifier = "Disease"
CompositeMention = "Disease"
"""
NOTES = "clinical/notes/NOTEEVENTS.csv.gz"
TASKS = {"ACL-ARC": "acl_arc", "ChemProt": "chemprot"}
"""Text classification: name -> folder below `tasks`."""

_TEXT = """
name = "{name}"

[source]
use = "conll"
decontaminate = {decontaminate}

[annotate]
labels = ["Entity"]

[segment]
use = "given"
"""
_WEAK_TEXT = """
name = "{name}"

[source]
use = "conll"
decontaminate = {decontaminate}

[annotate]
use = "terms"
table = "{table}"
labels = ["Entity"]

[segment]
use = "given"
"""
_OPEN_TEXT = """
name = "{name}"

[source]
use = "jsonl"
decontaminate = {decontaminate}

[annotate]
use = "terms"
table = "{table}"
labels = ["Entity"]

[segment]
use = "clinical"
"""
_DOCUMENTS = """
name = "{name}"

[source]
use = "pubtator"

[annotate]
labels = ["{label}"]
{rename}

[segment]
use = "clinical"
"""
_OTHER = """
name = "{name}"

[source]
use = "conll"

[segment]
use = "given"
"""
_TASK = """
name = "{name}"

[source]
use = "jsonl"
doc_label = "label"
id_column = ""

[annotate]
{annotate}

[segment]
use = "whole"
"""
_TERMS = """
use = "terms"
table = "{table}"
labels = ["Term"]
"""
_MARKED = re.compile(r"<< (.+?) >>|\[\[ (.+?) \]\]")
"""ChemProt's own marks of the two entities whose relation a text is about."""

Sentence = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The folder in which corpora are built, and what they are built for.

    Attributes:
        folder: Any folder outside the repository; what is missing there is made again.
        encoder: Folder of a Hugging Face encoder with its tokenizer.
        device: What models are trained on, as torch names it.
    """

    folder: Path
    encoder: Path
    device: str = "cpu"

    def origin(self) -> str:
        """Return where the text comes from: BLURB, or the shipped samples where it is missing."""
        if (inputs.real() / "blurb").is_dir():
            return "BLURB"
        return "the shipped samples, which were made up"

    def build(self) -> str:
        """Return which build the runs depend on; "" where the commit says it."""
        return ""

    def ner(self, name: str) -> Shards:
        """Return a corpus of named entities with its own splits."""
        if name in NER:
            options = ["--source", f"blurb/{NER[name]}", "--input", str(source(name))]
            return self._built(name, options)

        with tempfile.TemporaryDirectory() as scratch:
            for split, file in OTHER_NER[name].items():
                shutil.copyfile(inputs.real() / file, Path(scratch) / f"{split}.conll")
            return self._built(name, ["--input", scratch], _OTHER.format(name=name))

    def task(self, name: str) -> Shards:
        """Return a corpus of labelled texts with its own splits, and weak mentions of terms.

        Terms are what ChemProt's training text marks, and n-grams of ACL-ARC's training text,
        ranked by pointwise mutual information: it marks none.
        """
        files = ["--input", str(inputs.real() / "tasks" / TASKS[name])]
        table = self.folder / "corpora" / f"{name}.terms.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{table}.lock"):
            if not table.is_file():
                terms = self._marked(name) or self._ngrams(name, files)
                rows = ["name,label", *(f'"{term}",Term' for term in terms)]
                table.write_text("\n".join(rows) + "\n", encoding="utf-8")
        annotate = _TERMS.format(table=table)
        return self._built(name, files, _TASK.format(name=name.lower(), annotate=annotate))

    def _marked(self, name: str) -> list[str]:
        """Return the strings that a task's training text marks, sorted."""
        path = inputs.real() / "tasks" / TASKS[name] / "train.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()
        found = {a or b for line in lines for a, b in _MARKED.findall(json.loads(line)["text"])}
        return sorted(term for term in found if '"' not in term)

    def _ngrams(self, name: str, files: list[str]) -> list[str]:
        """Return n-grams of a task's training text."""
        pipeline = _TASK.format(name=name.lower(), annotate='use = "none"')
        shards = self._built(f"{name}-plain", files, pipeline)
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "ngrams.txt"
            options = ["--drop-short-words", "--stop-words", "english", "--list", str(path)]
            command("vocab", "pmi", str(shards.folder), *options)
            lines = path.read_text(encoding="utf-8").splitlines()
        return sorted(line.split("\t")[0] for line in lines if '"' not in line)

    def domain(self) -> Shards:
        """Return the text that encoders are adapted on: one split, `train`, with gold mentions.

        It is the training and development text of BLURB's corpora, as far as they are there, less
        the sentences of `HELD_OUT`'s test sets, exact ones and those with 13 words in common.
        """
        return self._text("domain", domain_sentences())

    def weak_domain(self) -> Shards:
        """Return the text of `domain` with weak mentions: the names of diseases and drugs.

        They are those of the Disease Ontology and of DrugBank's open vocabulary, where the folder
        of real data has them, else those of the shipped sample.
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
            pipeline = _WEAK_TEXT.replace("{table}", str(table))
            return self._text("domain-weak", domain_sentences(), pipeline)

    def documents(self, name: str) -> Shards:
        """Return the training documents of a corpus, one split `train`, with gold mentions."""
        file, label = DOCUMENTS[name]
        rename = _RENAME if name == "NCBI-disease" else ""
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copyfile(inputs.real() / file, Path(scratch) / "train.txt")
            pipeline = _DOCUMENTS.format(name=name, label=label, rename=rename)
            return self._built(f"{name}-documents", ["--input", scratch], pipeline)

    def open_text(self) -> Shards:
        """Return text with the names of open vocabularies as mentions, and no gold mention.

        It is the training and development text of BLURB's corpora and the clinical notes, less the
        sentences of `HELD_OUT`'s test sets. The names are those of the Disease Ontology, DrugBank
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
            tests = [str(Path(str(self.ner(corpus).folder)) / "test") for corpus in HELD_OUT]
            pipeline = _OPEN_TEXT.format(name="open-text", decontaminate=tests, table=table)
            return self._built("open-text", ["--input", str(data)], pipeline)

    def everything(self) -> Shards:
        """Return all training text at hand, for the first language modelling head alone."""
        return self._text("everything", [*domain_sentences(), *_other_sentences()])

    def _text(self, name: str, sentences: Sequence[Sentence], pipeline: str = _TEXT) -> Shards:
        tests = [str(Path(str(self.ner(corpus).folder)) / "test") for corpus in HELD_OUT]
        with tempfile.TemporaryDirectory() as scratch:
            inputs.write(Path(scratch) / "train.tsv", list(sentences))
            made = pipeline.format(name=name, decontaminate=tests)
            return self._built(name, ["--input", scratch], made)

    def _built(self, name: str, options: list[str], pipeline: str = "") -> Shards:
        """Run `mslm-data build` unless the folder is there."""
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
    """One corpus that somebody has built; the head of its encoder is trained on it too.

    Attributes:
        shards: Its folder, which is only read.
    """

    shards: Path

    def origin(self) -> str:
        """Return where the text comes from."""
        return "a corpus that was built before"

    def build(self) -> str:
        """Return the first 16 digits of what the build's plan digests to, inputs and all."""
        return load(self.shards).manifest.plan[:16]

    def ner(self, name: str) -> Shards:  # noqa: ARG002
        """Return the corpus, whatever it is called."""
        return load(self.shards)

    def everything(self) -> Shards:
        """Return the corpus."""
        return load(self.shards)


def command(*arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command of the package, in a process of its own.

    Args:
        *arguments: Words after `mslm-data`.
        environment: Variables that it has besides those of this process.

    Raises:
        SystemExit: It failed; it has said why.
    """
    run = [sys.executable, "-m", "mslm_data", *arguments]
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(
        run, check=False, stdout=subprocess.DEVNULL, env=variables, cwd=inputs.ROOT
    )
    if done.returncode:
        said = f"ended with exit code {done.returncode}, as said above"
        raise SystemExit(f"mslm-data {arguments[0]}: {said}")


def source(name: str) -> Path:
    """Return the folder of a corpus: of BLURB, or else the shipped sample of it."""
    for folder in (f"{name}-IOB", name):
        path = inputs.real() / "blurb" / folder
        if path.is_dir():
            return path
    return inputs.ROOT / "vocab" / "sample" / NER[name]


def domain_sentences() -> list[Sentence]:
    """Return the training and development sentences of BLURB's corpora, mentions of any type.

    BC5CDR's two sets are the same sentences. Where a word is in a chemical and in a disease, the
    chemical counts.
    """
    found = []
    for file in ("train.tsv", "devel.tsv"):
        found += _read(source("NCBI-disease") / file)
        found += _read(source("BC2GM") / file)
        chemicals = _read(source("BC5CDR-chem") / file)
        diseases = _read(source("BC5CDR-disease") / file)
        found += both(chemicals, diseases)

    jnlpba = inputs.real() / "blurb" / "JNLPBA" / "devel.tsv"
    if jnlpba.is_file():
        found += _read(jnlpba)
    return found


def both(sentences: Sequence[Sentence], others: Sequence[Sentence]) -> list[Sentence]:
    """Return sentences with the mentions of two annotations of them, the first where they overlap.

    Of sentences that are not the same words in both, only the first annotation counts.
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
    """Return sentences of other domains, without mentions: contracts, posts, labelled texts."""
    found: list[Sentence] = []
    for files in OTHER_NER.values():
        path = inputs.real() / files["train"]
        words: Sentence = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            fields = line.split()
            if fields and not fields[0].startswith("-DOCSTART-"):
                words.append((fields[0], "O"))
            elif words:
                found.append(words)
                words = []
        if words:
            found.append(words)

    for folder in TASKS.values():
        path = inputs.real() / "tasks" / folder / "train.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        found += [[(word, "O") for word in json.loads(line)["text"].split()] for line in lines]
    return found


def _notes() -> list[str]:
    """Return the clinical notes, without those withdrawn as errors."""
    path = inputs.real() / NOTES
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["TEXT"] for row in rows if row["ISERROR"] != "1"]


def _read(path: Path) -> list[Sentence]:
    """Return the sentences of a file, tags without types, without lines that open a document."""
    sentences = inputs.read(path)
    return [
        [(word, tag[:1]) for word, tag in sentence]
        for sentence in sentences
        if not sentence[0][0].startswith("-DOCSTART-")
    ]
