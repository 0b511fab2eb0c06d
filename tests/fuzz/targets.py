"""Table of fuzzing targets: a file, its seeds, the files beside it, and a check."""

from __future__ import annotations

import codecs
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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
        more: Returns further contents to mutate, which the check may refuse.
        beside: Other files of the folder.
        tokens: Tokens of the format.
        private: Whether messages must not contain the canary.
    """

    file: str
    seeds: Callable[[], Sequence[bytes]]
    check: Check
    more: Callable[[], Sequence[bytes]] = tuple
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


def _arrow(*, stream: bool) -> list[bytes]:
    kinds = (None, "lz4", "zstd") if not stream else (None,)
    return [seeds.arrow(seeds.table(), stream=stream, compression=kind) for kind in kinds]


LINES = {
    "bc2gm": "train.in",
    "doccano": "train.jsonl",
    "jsonl": "train.jsonl",
    "prodigy": "train.jsonl",
    "text": "train.txt",
}
"""Source -> file of its corpus in which each line is a record."""
TOKENS = {
    "azure": words.AZURE,
    "comprehend": words.COMPREHEND,
    "bc2gm": words.BC2GM,
    "bioc": words.XML + words.TOOLS,
    "brat": words.BRAT,
    "cas": words.XML + words.CAS,
    "conll": (*words.TAGS, b"(X*", b"*)", b"*", b"(Y)", b"#end document", b"# newdoc"),
    "conllu": words.TAGS,
    "ctakes": words.XML + words.CAS,
    "doccano": words.TOOLS,
    "ebm": words.EBM + words.TAGS,
    "i2b2": words.CONCEPTS + words.XML,
    "inline": words.INLINE,
    "jsonl": words.OBJECTS + words.TOOLS,
    "label-studio": words.TOOLS,
    "medcattrainer": words.TOOLS,
    "notes": words.CSV,
    "offsets": words.TABLE,
    "omop": words.CSV,
    "prodigy": words.TOOLS,
    "pubtator": words.PUBTATOR,
    "text": words.OBJECTS,
    "token-table": words.CSV + words.TAGS,
    "webanno": words.WEBANNO,
}
"""Source -> tokens of its format."""
OPTIONS: dict[str, dict[str, object]] = {
    "bioc": {"offsets": "utf-16"},
    "brat": {"discontinuous": "set_aside"},
    "jsonl": {"id_column": ""},
    "notes": {"shares": {"a": 0.5, "b": 0.5}, "patients": 2, "placeholders": "token"},
    "prodigy": {"of_several": "all"},
    "text": {"documents": "block"},
}
"""Source -> other options with which its corpus is read too."""


def corpus_targets() -> Iterator[tuple[str, Target]]:
    """Yield a target for the largest file of each suffix in the small corpora, beside the others.

    The other files of the suffix are seeds too, and cases of the source with the same options.
    """
    for name, tokens in TOKENS.items():
        files, options = seeds.corpus(name)
        largest_first = sorted(files, key=lambda file: -len(files[file]))
        by_suffix = {Path(file).suffix: file for file in reversed(largest_first)}
        chosen = {name: options}
        if name in OPTIONS:
            chosen[f"{name}-options"] = {**options, **OPTIONS[name]}

        for target, own in chosen.items():
            for suffix, file in by_suffix.items():
                is_counted = own == options and Path(file).name == LINES.get(name)
                others = [files[other] for other in files if other.endswith(suffix)]
                yield (
                    f"{target}-{suffix[1:]}",
                    Target(
                        file=file,
                        seeds=functools.partial(list, [files[file]]),
                        more=functools.partial(_with_cases, others, name, own, suffix),
                        beside=functools.partial(dict, files),
                        check=source(
                            name,
                            own,
                            file=Path(file).name if is_counted else "",
                            count=_lines if is_counted else None,
                        ),
                        tokens=tokens,
                    ),
                )


def _with_cases(
    others: Sequence[bytes], name: str, options: Mapping[str, object], suffix: str
) -> Sequence[bytes]:
    return [*others, *seeds.cases(name, options, suffix)]


TARGETS: dict[str, Target] = {
    **dict(corpus_targets()),
    "conll-brackets": Target(
        file="f.tsv",
        seeds=lambda: [b"#begin document (a); part 000\nZqcan (X*\nb *)\nc (Y)\n\nd *\n" * 9],
        more=lambda: seeds.cases("conll", {"scheme": "brackets"}, ".tsv"),
        check=source("conll", {"scheme": "brackets"}),
        tokens=TOKENS["conll"],
    ),
    "conll-labels": Target(
        file="f.tsv",
        seeds=lambda: [b"Zqcan\tO\nb\tDisease\nc\tDisease\nd\tO\n\ne\tO\n\n" * 9],
        more=lambda: seeds.cases("conll", {"scheme": "label"}, ".tsv"),
        check=source("conll", {"scheme": "label"}),
        tokens=TOKENS["conll"],
    ),
    "docbin": Target(
        file="train.spacy", seeds=lambda: [seeds.docbin(level=6)], check=source("docbin")
    ),
    "docbin-unpacked": Target(
        file="train.msgpack",
        seeds=lambda: [zlib.decompress(seeds.docbin(level=6))],
        check=packing("train.msgpack", "train.spacy", source("docbin", {"spans_key": "sc"})),
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
