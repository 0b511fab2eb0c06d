"""Table of fuzzing targets: a file, its seeds, the files beside it, and a check."""

from __future__ import annotations

import codecs
import functools
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mslm_data.errors import MslmDataError
from mslm_data.shard.manifest import read_manifest
from tests.fuzz import artifacts, mutations, seeds, words
from tests.fuzz.checks import Check, blessed, building, packing, source, verified
from tests.fuzz.seeds import CANARY, SHARD


@dataclass(frozen=True, kw_only=True)
class Target:
    """A reader of a file.

    Attributes:
        file: Mutated file, relative to its own folder.
        seeds: Returns the initial contents of the file.
        check: Reads the folder. Any error other than ours is a finding.
        beside: Other files of the folder.
        tokens: Tokens of the format.
        private: Whether messages must not contain the canary.
    """

    file: str
    seeds: Callable[[], Sequence[bytes]]
    check: Check
    beside: Callable[[], Mapping[str, bytes]] = dict
    tokens: tuple[bytes, ...] = ()
    private: bool = True

    @property
    def all_tokens(self) -> tuple[bytes, ...]:
        """Tokens of all formats; those of this format make up half."""
        own = self.tokens or (CANARY.encode(),)
        return own * (1 + len(mutations.TOKENS) // len(own)) + mutations.TOKENS

    def lay_out(self, folder: Path) -> None:
        """Write the files beside the mutated file."""
        for name, data in self.beside().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (folder / self.file).parent.mkdir(parents=True, exist_ok=True)

    def try_one(self, folder: Path, data: bytes) -> bool:
        """Check some bytes; return whether they were accepted rather than refused with one of our errors."""
        (folder / self.file).write_bytes(data)
        try:
            self.check(folder)
        except MslmDataError as error:
            if self.private and CANARY in str(error):
                raise AssertionError("the text is in a message") from error
            return False
        return True


def _lines(data: bytes) -> int:
    """Count the lines that are not blank, in UTF-8 or in the encoding of the byte order mark."""
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix of this one
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            data = data.decode(encoding, "replace").encode()
            break
    # Lines end in CR if the file has no LF.
    end = b"\n" if b"\n" in data else b"\r"
    return sum(bool(line.strip()) for line in data.removeprefix(b"\xef\xbb\xbf").split(end))


def _both(one: Callable[[], tuple[bytes, bytes]], number: int) -> Callable[[], Sequence[bytes]]:
    return lambda: [one()[number]]


def _arrow(*, stream: bool) -> list[bytes]:
    kinds = (None, "lz4", "zstd") if not stream else (None,)
    return [seeds.arrow(seeds.table(), stream=stream, compression=kind) for kind in kinds]


EBM = "ebm_nlp_2_00/annotations/aggregated/starting_spans/participants/train/11.AGGREGATED.ann"
TARGETS: dict[str, Target] = {
    "conll": Target(
        file="train.tsv",
        seeds=lambda: [seeds.conll(), seeds.conll(separator=" ", columns=4)],
        check=source("conll"),
        tokens=words.TAGS,
    ),
    "conll-marked": Target(
        file="train.tsv",
        seeds=lambda: [
            seeds.conll(mark="-DOCSTART- (#)"),
            seeds.conll(mark="###MEDLINE:#", columns=3),
        ],
        check=source("conll"),
        tokens=words.TAGS,
    ),
    "conll-brackets": Target(
        file="train.tsv",
        seeds=lambda: [seeds.brackets()],
        check=source("conll", {"scheme": "brackets"}),
        tokens=(b"(X*", b"*)", b"*", b"(Y)", b"#end document", b"# newdoc"),
    ),
    "conll-labels": Target(
        file="train.tsv.gz",
        seeds=lambda: seeds.packed([re.sub(rb"\b[BI]-", b"", seeds.conll())]),
        check=source("conll", {"scheme": "label"}),
    ),
    "pubtator": Target(
        file="train.txt",
        seeds=lambda: [seeds.pubtator()],
        check=source("pubtator"),
        tokens=words.PUBTATOR,
    ),
    "inline": Target(
        file="train.txt",
        seeds=lambda: [
            seeds.inline("<START:Disease> ", " <END>"),
            seeds.inline("[Disease]", "[/Disease]"),
            seeds.inline("<Disease>", "</Disease>"),
            seeds.inline("[@", "#Disease*]"),
            seeds.joined_words(),
        ],
        check=source("inline", file="train.txt", count=_lines),
        tokens=words.INLINE,
    ),
    "inline-blocks": Target(
        file="train.txt",
        seeds=lambda: [seeds.inline('<NE TYPE="Disease">', "</NE>")],
        check=source("inline", {"documents": "block"}),
        tokens=words.INLINE,
    ),
    "bioc": Target(
        file="train.xml", seeds=lambda: [seeds.bioc()], check=source("bioc"), tokens=words.XML
    ),
    "bioc-json": Target(
        file="train.json",
        seeds=lambda: [seeds.bioc_json(), b"[" + seeds.bioc_json() + b"]"],
        check=source("bioc"),
        tokens=words.TOOLS,
    ),
    "bioc-utf16": Target(
        file="train.xml",
        seeds=lambda: [seeds.bioc()],
        check=source("bioc", {"offsets": "utf-16"}),
        tokens=words.XML,
    ),
    "brat": Target(
        file="train/a.ann",
        seeds=_both(seeds.brat, 1),
        beside=lambda: {"train/a.txt": seeds.brat()[0]},
        check=source("brat"),
        tokens=words.BRAT,
    ),
    "brat-text": Target(
        file="train/a.txt",
        seeds=_both(seeds.brat, 0),
        beside=lambda: {"train/a.ann": seeds.brat()[1]},
        check=source("brat", {"discontinuous": "set_aside"}),
    ),
    "offsets": Target(
        file="train/mentions.tsv",
        seeds=_both(seeds.offsets, 0),
        beside=lambda: {"train/texts.tsv": seeds.offsets()[1]},
        check=source("offsets", {"pattern": "mentions*", "texts": "texts.tsv"}),
        tokens=words.TABLE,
    ),
    "offsets-texts": Target(
        file="train/texts.tsv",
        seeds=_both(seeds.offsets, 1),
        beside=lambda: {"train/mentions.tsv": seeds.offsets()[0]},
        check=source("offsets", {"pattern": "mentions*", "texts": "texts.tsv"}),
        tokens=words.TABLE,
    ),
    "offsets-csv": Target(
        file="train/mentions.csv",
        seeds=lambda: [seeds.offsets()[0].replace(b",", b";").replace(b"\t", b",")],
        beside=lambda: {"train/texts.tsv": seeds.offsets()[1]},
        check=source("offsets", {"pattern": "mentions*", "texts": "texts.tsv"}),
        tokens=words.CSV,
    ),
    "i2b2": Target(
        file="train/a.con",
        seeds=_both(seeds.i2b2, 1),
        beside=lambda: {"train/a.txt": seeds.i2b2()[0]},
        check=source("i2b2"),
        tokens=words.CONCEPTS,
    ),
    "i2b2-text": Target(
        file="train/a.txt",
        seeds=_both(seeds.i2b2, 0),
        beside=lambda: {"train/a.con": seeds.i2b2()[1]},
        check=source("i2b2"),
    ),
    "i2b2-xml": Target(
        file="train.xml",
        seeds=lambda: [seeds.i2b2_tags(), seeds.i2b2_records()],
        check=source("i2b2"),
        tokens=words.XML,
    ),
    "cas": Target(
        file="train.xmi",
        seeds=lambda: [seeds.cas("xmi")[0]],
        beside=lambda: {"TypeSystem.xml": seeds.cas("xmi")[1]},
        check=source("cas"),
        tokens=words.XML,
    ),
    "cas-types": Target(
        file="TypeSystem.xml",
        seeds=lambda: [seeds.cas("xmi")[1]],
        beside=lambda: {"train.xmi": seeds.cas("xmi")[0]},
        check=source("cas"),
        tokens=words.XML,
    ),
    "cas-json": Target(
        file="train.json",
        seeds=lambda: [seeds.cas("json")[0]],
        check=source("cas"),
        tokens=words.CAS,
    ),
    "webanno": Target(
        file="train.tsv",
        seeds=lambda: [seeds.webanno()],
        check=source("webanno"),
        tokens=words.WEBANNO,
    ),
    "docbin": Target(
        file="train.spacy", seeds=lambda: [seeds.docbin(level=6)], check=source("docbin")
    ),
    "docbin-unpacked": Target(
        file="train.msgpack",
        seeds=lambda: [zlib.decompress(seeds.docbin(level=6))],
        check=packing("train.msgpack", "train.spacy", source("docbin", {"spans_key": "sc"})),
    ),
    "bc2gm": Target(
        file="train/train.in",
        seeds=_both(seeds.bc2gm, 0),
        beside=lambda: {"train/GENE.eval": seeds.bc2gm()[1]},
        check=source("bc2gm", file="train.in", count=_lines),
        tokens=words.BC2GM,
    ),
    "bc2gm-mentions": Target(
        file="train/GENE.eval",
        seeds=_both(seeds.bc2gm, 1),
        beside=lambda: {"train/train.in": seeds.bc2gm()[0]},
        check=source("bc2gm", file="train.in", count=_lines),
        tokens=words.BC2GM,
    ),
    "ebm-labels": Target(
        file=EBM,
        seeds=_both(seeds.ebm, 1),
        beside=lambda: {"ebm_nlp_2_00/documents/11.tokens": seeds.ebm()[0]},
        check=source("ebm"),
        tokens=words.EBM,
    ),
    "ebm-tokens": Target(
        file="ebm_nlp_2_00/documents/11.tokens",
        seeds=_both(seeds.ebm, 0),
        beside=lambda: {EBM: seeds.ebm()[1]},
        check=source("ebm"),
        tokens=words.EBM,
    ),
    "ebm-rows": Target(
        file="train.tsv", seeds=lambda: [seeds.pico()], check=source("ebm"), tokens=words.TAGS
    ),
    "jsonl": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.json_lines(), seeds.grouped_rows()],
        check=source("jsonl", {"tag_names": ("O", "B-X")}, file="train.jsonl", count=_lines),
        tokens=words.OBJECTS,
    ),
    "json": Target(
        file="train.json",
        seeds=lambda: [
            b"[" + b",\n".join(seeds.json_lines().splitlines()) + b"]\n",
            b'{"data": [' + b",\n".join(seeds.grouped_rows().splitlines()) + b"]}\n",
        ],
        check=source("jsonl", {"id_column": ""}),
        tokens=words.OBJECTS,
    ),
    "jsonl-tools": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.tool_rows(), seeds.prodigy(), seeds.doccano()],
        check=source("jsonl", {"tag_names": ("A", "B")}, file="train.jsonl", count=_lines),
        tokens=words.TOOLS,
    ),
    "prodigy": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.prodigy()],
        check=source("prodigy", file="train.jsonl", count=_lines),
        tokens=words.TOOLS,
    ),
    "prodigy-all": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.prodigy()],
        check=source("prodigy", {"of_several": "all", "annotator": "s-1"}),
        tokens=words.TOOLS,
    ),
    "label-studio": Target(
        file="train.json",
        seeds=seeds.label_studio,
        check=source("label-studio"),
        tokens=words.TOOLS,
    ),
    "doccano": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.doccano()],
        check=source("doccano", file="train.jsonl", count=_lines),
        tokens=words.TOOLS,
    ),
    "medcattrainer": Target(
        file="train.json",
        seeds=lambda: [seeds.medcattrainer()],
        check=source("medcattrainer"),
        tokens=words.TOOLS,
    ),
    "jsonl-gz": Target(
        file="train.jsonl.gz",
        seeds=lambda: seeds.packed([seeds.json_lines()]),
        check=source("jsonl"),
    ),
    "hub-arrow": Target(file="train.arrow", seeds=lambda: _arrow(stream=True), check=source("hub")),
    "hub-arrow-file": Target(
        file="train.arrow", seeds=lambda: _arrow(stream=False), check=source("hub")
    ),
    "hub-parquet": Target(
        file="train.parquet",
        seeds=lambda: [
            seeds.parquet(seeds.table()),
            seeds.parquet(seeds.table(), compression="none", use_dictionary=False),
        ],
        check=source("hub"),
    ),
    "hub-saved": Target(
        file="dataset_dict.json",
        seeds=lambda: [seeds.saved(b"")["dataset_dict.json"]],
        beside=lambda: seeds.saved(_arrow(stream=True)[0]),
        check=source("hub"),
        tokens=words.SAVED,
    ),
    "hub-state": Target(
        file="train/state.json",
        seeds=lambda: [seeds.saved(b"")["train/state.json"]],
        beside=lambda: seeds.saved(_arrow(stream=True)[0]),
        check=source("hub"),
        tokens=words.SAVED,
    ),
    "notes": Target(
        file="train.csv", seeds=lambda: [seeds.notes()], check=source("notes"), tokens=words.CSV
    ),
    "notes-shares": Target(
        file="train.csv",
        seeds=lambda: [seeds.notes()],
        check=source(
            "notes", {"shares": {"a": 0.5, "b": 0.5}, "patients": 2, "placeholders": "token"}
        ),
        tokens=words.CSV,
    ),
    "notes-gz": Target(
        file="train.csv.gz", seeds=lambda: seeds.packed([seeds.notes()]), check=source("notes")
    ),
    "notes-parquet": Target(
        file="train.parquet",
        seeds=lambda: [
            seeds.parquet(seeds.notes_table()),
            seeds.parquet(seeds.notes_table(), compression="zstd"),
        ],
        check=source("notes"),
    ),
    "notes-text": Target(
        file="12-a.txt",
        seeds=lambda: [seeds.documents()[0][0].encode()],
        check=source("notes", {"patient_pattern": r"^(\d+)-"}),
        tokens=words.CSV,
    ),
    "conllu": Target(
        file="train.conllu",
        seeds=lambda: [seeds.conllu(), seeds.conllu(mark=True)],
        check=source("conllu"),
        tokens=words.TAGS,
    ),
    "token-table": Target(
        file="train.csv",
        seeds=lambda: [seeds.token_table(",")],
        check=source("token-table"),
        tokens=words.CSV,
    ),
    "token-table-tabs": Target(
        file="train.tsv",
        seeds=lambda: [seeds.token_table("\t")],
        check=source("token-table"),
        tokens=words.TAGS,
    ),
    "text": Target(
        file="train.txt",
        seeds=lambda: [seeds.plain()],
        check=source("text", {"documents": "line"}),
    ),
    "text-blocks": Target(
        file="train.txt",
        seeds=lambda: [seeds.plain()],
        check=source("text", {"documents": "block"}),
    ),
    "text-jsonl": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.json_lines()],
        check=source("text", {"id_column": "id"}, file="train.jsonl", count=_lines),
        tokens=words.OBJECTS,
    ),
    "text-csv": Target(
        file="train.csv",
        seeds=lambda: [seeds.notes()],
        check=source("text", {"id_column": "ROW_ID"}),
        tokens=words.CSV,
    ),
    "build-conll": Target(
        file="train.tsv",
        seeds=lambda: [seeds.conll()],
        check=building("conll", "train.tsv"),
        tokens=words.TAGS,
    ),
    "build-jsonl": Target(
        file="train.jsonl",
        seeds=lambda: [seeds.json_lines()],
        check=building("jsonl", "train.jsonl"),
        tokens=words.OBJECTS,
    ),
    "build-pubtator": Target(
        file="train.txt",
        seeds=lambda: [seeds.pubtator()],
        check=building("pubtator", "train.txt"),
        tokens=words.PUBTATOR,
    ),
    "build-notes": Target(
        file="NOTEEVENTS.csv",
        seeds=lambda: [seeds.notes()],
        beside=lambda: {"terms.csv": seeds.TERMS},
        check=artifacts.build_notes,
        tokens=words.CSV,
    ),
    "manifest": Target(
        file="manifest.json",
        seeds=lambda: [seeds.folder()["manifest.json"]],
        check=read_manifest,
        tokens=words.MANIFEST,
    ),
    **{
        f"verify-{name}": Target(
            file=file,
            seeds=functools.partial(lambda file: [seeds.folder()[file]], file),
            beside=seeds.folder,
            check=verified(file),
            tokens=words.MANIFEST if file.endswith(".json") else (),
        )
        for name, file in (
            ("manifest", "manifest.json"),
            ("set-aside", "set_aside.jsonl"),
            ("splits", "dataset_dict.json"),
            ("state", "train/state.json"),
            ("info", "train/dataset_info.json"),
            ("tokenizer", "tokenizer.json"),
            ("shard", SHARD),
        )
    },
    "shard": Target(
        file=SHARD, seeds=lambda: [seeds.folder()[SHARD]], beside=seeds.folder, check=blessed
    ),
    "lexicon": Target(
        file="x.arrow", seeds=lambda: [seeds.lexicon()], check=artifacts.read_lexicon
    ),
    "scores": Target(
        file="x/train/s.arrow", seeds=lambda: [seeds.scores()], check=artifacts.read_scores
    ),
    "pipeline": Target(
        file="x.toml",
        seeds=seeds.pipelines,
        check=artifacts.read_pipeline,
        tokens=words.TOML,
        private=False,
    ),
    "strategy": Target(
        file="x.toml",
        seeds=lambda: seeds.STRATEGIES,
        check=artifacts.read_strategy,
        tokens=words.MASK,
        private=False,
    ),
    "concepts-csv": Target(
        file="x.csv",
        seeds=lambda: [seeds.CONCEPTS, seeds.DRUGS],
        check=artifacts.concepts("x.csv"),
        private=False,
        tokens=words.CSV,
    ),
    "concepts-obo": Target(
        file="x.obo",
        seeds=lambda: [seeds.OBO],
        check=artifacts.concepts("x.obo"),
        tokens=words.OBO,
        private=False,
    ),
    "concepts-obo-gz": Target(
        file="x.obo.gz",
        seeds=lambda: seeds.packed([seeds.OBO]),
        check=artifacts.concepts("x.obo.gz"),
        private=False,
    ),
    "concepts-rrf": Target(
        file="MRCONSO.RRF",
        seeds=lambda: [seeds.MRCONSO],
        beside=lambda: {"MRSTY.RRF": seeds.MRSTY},
        check=artifacts.concepts("MRCONSO.RRF"),
        tokens=words.RRF,
        private=False,
    ),
    "concepts-types": Target(
        file="MRSTY.RRF",
        seeds=lambda: [seeds.MRSTY],
        beside=lambda: {"MRCONSO.RRF": seeds.MRCONSO},
        check=artifacts.concepts("MRCONSO.RRF"),
        tokens=words.RRF,
        private=False,
    ),
    "terms": Target(
        file="x.csv",
        seeds=lambda: [seeds.TERMS, seeds.CONCEPTS],
        check=artifacts.read_terms,
        private=False,
        tokens=words.CSV,
    ),
    "types": Target(
        file="x.toml",
        seeds=lambda: [seeds.TYPES],
        check=artifacts.read_types,
        tokens=words.TOML,
        private=False,
    ),
    "weights": Target(
        file="x.tsv",
        seeds=lambda: [seeds.WEIGHTS],
        check=artifacts.read_weights,
        private=False,
        tokens=words.TABLE,
    ),
    "counts": Target(
        file="x.tsv", seeds=lambda: [seeds.COUNTS], check=artifacts.read_counts, private=False
    ),
    "tokenizer-vocab": Target(
        file="vocab.txt",
        seeds=lambda: [artifacts.VOCAB],
        check=artifacts.load_tokenizer("vocab.txt"),
        private=False,
        tokens=words.VOCABULARY,
    ),
    "tokenizer-names": Target(
        file="special_tokens_map.json",
        seeds=lambda: [artifacts.NAMES],
        beside=lambda: {"vocab.txt": artifacts.VOCAB},
        check=artifacts.load_tokenizer("."),
        tokens=words.TOKENIZER,
        private=False,
    ),
    "tokenizer-bpe": Target(
        file="vocab.json",
        seeds=lambda: [artifacts.BPE_VOCAB],
        beside=lambda: {"merges.txt": artifacts.MERGES},
        check=artifacts.load_tokenizer("."),
        tokens=words.TOKENIZER,
        private=False,
    ),
    "tokenizer-merges": Target(
        file="merges.txt",
        seeds=lambda: [artifacts.MERGES],
        beside=lambda: {"vocab.json": artifacts.BPE_VOCAB},
        check=artifacts.load_tokenizer("."),
        tokens=words.VOCABULARY,
        private=False,
    ),
}
