"""Do the declared runs in order, and append a line of results for each.

The same command resumes an interrupted experiment: runs with a line in `experiments/results` are
skipped. The exception is a run whose partner has no line, if the language modelling head has
different bits on this processor. An interruption loses only the current run.

A process uses one thread at the lowest priority. Start the same command several times to share the
runs between processes. Timings are not results.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import platformdirs
import torch
import transformers

import mslm_data
from benchmarks.inputs import ROOT
from benchmarks.report import commit
from experiments import encoder, jobs, lines, page
from experiments.corpora import Cache, OwnCache
from experiments.lines import Run
from experiments.plan import (
    ARMS,
    BLURB,
    QUESTIONS,
    TRIED_SEEDS,
    Questions,
    Study,
    current,
    plan,
    questions_of,
)
from experiments.queue import Queue
from mslm_data.api.loading import load
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.errors import MslmDataError

WAIT_S = 10
"""Seconds between two searches for a run, while all open runs wait for other processes."""
PRIMITIVES = "20000"
"""Capacity of oneDNN's cache of matrix products, with one entry per shape.

Rows of about a hundred lengths need more than the default of 1,024 entries.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the open runs of the chosen questions."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.encoder:
        _check_encoder(parser, options.encoder)
    questions = QUESTIONS
    if options.shards:
        questions = questions_of(_study(parser, options))
    unknown = sorted(set(options.questions) - set(questions))
    if unknown:
        parser.error(f"expected {', '.join(questions)}, got {', '.join(unknown)}")
    names = options.questions or list(questions)
    corpora = dict.fromkeys(step.run.corpus for step in plan(names, [], questions))
    unknown = sorted(set(options.corpora or ()) - set(corpora))
    if unknown:
        parser.error(f"--corpora: expected {', '.join(corpora)}, got {', '.join(unknown)}")

    def wanted(run: Run) -> bool:
        chosen = options.corpora or [run.corpus]
        # Other corpora may use the learning rates chosen on `tried_on`.
        if run.seed in TRIED_SEEDS:
            return run.corpus in (*chosen, BLURB.tried_on)
        seed = options.seeds is None or run.seed < options.seeds
        return seed and run.corpus in (*chosen, "domain", "open text")

    if options.list:
        _list(names, questions, wanted, options.results)
        if options.shards:
            _print_results(names, questions, options)
        return 0

    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", PRIMITIVES)
    torch.set_num_threads(1)
    os.nice(19 - os.nice(0))
    cache = _cache(options)
    end = time.time() + options.hours * 3600 if options.hours else float("inf")

    queue = Queue(
        names=names,
        questions=questions,
        wanted=wanted,
        results=options.results,
        start=encoder.digest(encoder.with_head(cache)),
        locks=options.cache / "locks",
    )
    longest = 0.0
    while not queue.done():
        # Assume that the next run takes as long as the longest one so far.
        if time.time() + longest > end:
            print("stopped: the next run would not end in time", flush=True)
            break

        taken = queue.take()
        if taken is None:
            time.sleep(WAIT_S)
            continue
        run, lock = taken
        # Append the line before the lock ends, so that no other process repeats the run.
        with lock:
            result = jobs.do(run, cache)
            lines.append(run, {**result, "about": about(cache)}, options.results)
        longest = max(longest, result["hours"] * 3600)
        print(
            f"{_describe(run)}: {_format_scores(result['scores'])}, {result['hours'] * 60:.1f} min",
            flush=True,
        )
    if options.shards:
        _print_results(names, questions, options)
    return 0


def _cache(options: argparse.Namespace) -> Cache:
    begin = options.encoder or encoder.packaged()
    if options.shards:
        return OwnCache(
            folder=options.cache, encoder=begin, device=options.device, shards=options.shards
        )
    return Cache(folder=options.cache, encoder=begin, device=options.device)


def _check_encoder(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Exit unless the folder has an encoder that runs can begin with.

    The cache tells encoders apart by the digest of their `.safetensors` files.
    """
    if not (folder / "config.json").is_file():
        parser.error(
            f"--encoder: expected the folder of an encoder, with its config.json, got {folder}; "
            "a name on the hub has to be downloaded first"
        )
    if not list(folder.glob("*.safetensors")):
        parser.error(
            f"--encoder: expected weights as .safetensors, found none in {folder}; load the "
            "encoder with transformers and save it with `save_pretrained`"
        )


def _study(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Study:
    """Return the study of the user's corpus; exit if the options or the folder do not fit."""
    if options.corpora:
        parser.error("--corpora: expected none with --shards, which is one corpus")
    if options.results == lines.RESULTS:
        parser.error("--results: expected a folder for the lines of your corpus, got none")
    try:
        shards = load(options.shards)
        tokenizer = tokenizers.load_tokenizer(str(options.encoder or encoder.packaged()))
    except MslmDataError as error:
        parser.error(str(error))

    missing = sorted({"train", "validation", "test"} - set(shards.splits))
    if missing:
        parser.error(
            f"--shards: expected the splits train, validation and test, got {', '.join(shards)}; "
            "build the folder from files of these names"
        )
    if tokenizer.digest != shards.manifest.tokenizer.sha256:
        parser.error(
            "--encoder: expected the encoder whose tokenizer the shards were built with, got "
            "another; build them with `--tokenizer` and its folder"
        )
    build = {"build": _cache(options).build()}
    return Study(corpora=(_name(options),), tried_on=_name(options), options=build)


def _name(options: argparse.Namespace) -> str:
    return str(options.shards.resolve().name)


def _print_results(names: Sequence[str], questions: Questions, options: argparse.Namespace) -> None:
    """Print the tables of the user's corpus."""
    finished = current(lines.read(options.results), questions)
    tables = page.corpus_tables(finished, _name(options), names)
    print("\n".join(["", *(tables or ["no two arms can be compared yet"])]), flush=True)


def about(cache: Cache) -> dict[str, str]:
    """Return the provenance of a line: commit, versions, data and processor."""
    return {
        "commit": commit(ROOT),
        "mslm-data": mslm_data.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "data": cache.origin(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        **({} if cache.device == "cpu" else {"device": cache.device}),
    }


def _list(
    names: Sequence[str], questions: Questions, wanted: Callable[[Run], bool], folder: Path
) -> None:
    """Print each run of a plan once, with its state."""
    finished = lines.read(folder)
    starts = lines.starts(finished)
    steps = {step.run.key: step for step in plan(names, finished, questions) if wanted(step.run)}
    done = {key for key, step in steps.items() if step.done(starts)}
    for key, step in steps.items():
        print("done" if key in done else "open", _describe(step.run))
    print(f"{len(done)} of {len(steps)} runs are done")


def _describe(run: Run) -> str:
    rate = f", {run.options['rate']:g}" if "rate" in run.options else ""
    on = f" ({run.options['scored']})" if run.options.get("scored") == "validation" else ""
    return f"{run.task}, {run.corpus}{on}, {run.arm or 'none'}{rate}, seed {run.seed}"


def _format_scores(scores: dict[str, object]) -> str:
    """Format the numbers among the scores, or those of the nested scores."""
    plain = {name: score for name, score in scores.items() if isinstance(score, float)}
    if plain:
        return ", ".join(f"{name} {score:.3f}" for name, score in plain.items())
    return "; ".join(
        f"{name} {_format_scores(inner)}"
        for name, inner in scores.items()
        if isinstance(inner, dict)
    )


def _seeds(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, got '{text}'")
    return int(text)


def _hours(text: str) -> float:
    with contextlib.suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected hours above 0, got '{text}'")


def _device(text: str) -> str:
    """Check that torch can compute on a device, and return its name."""
    try:
        float(torch.ones(1, device=text))
    except (RuntimeError, AssertionError) as error:
        message = str(error).splitlines()[0]
        raise argparse.ArgumentTypeError(
            f"expected a device that torch can use, got '{text}': {message}"
        ) from None
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "questions",
        nargs="*",
        metavar="QUESTION",
        help=f"questions, in the order of the runs: {', '.join(QUESTIONS)} (default all)",
    )
    add("--corpora", nargs="+", help="do only the runs of these corpora", metavar="NAME")
    add("--seeds", type=_seeds, help="do only seeds 0 to N - 1", metavar="N")
    add("--hours", type=_hours, help="stop before a run that would end after H hours", metavar="H")
    add(
        "--shards",
        type=Path,
        metavar="FOLDER",
        help="compare the arms on your own corpus, built with the encoder's tokenizer into "
        f"train, validation and test; the questions are {', '.join(ARMS)}",
    )
    add("--list", action="store_true", help="print each run with its state, and exit")
    add(
        "--encoder",
        type=Path,
        metavar="FOLDER",
        help=f"folder of the encoder (default: the encoder in the package {encoder.PACKAGE})",
    )
    add(
        "--device",
        type=_device,
        metavar="DEVICE",
        default="cpu",
        help="torch device to train on, such as cuda (default cpu)",
    )
    add(
        "--cache",
        type=Path,
        metavar="FOLDER",
        default=Path(platformdirs.user_cache_dir("mslm-data")) / "experiments",
        help="folder of built corpora and encoders, which can be removed at any time",
    )
    add(
        "--results",
        type=Path,
        metavar="FOLDER",
        default=lines.RESULTS,
        help="folder of the result lines (default experiments/results)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
