"""Kinds of rounds. Each is a generator of complaints, empty if all is well."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.faults import tree
from benchmarks.inputs import ROOT
from benchmarks.soak import commands, corpora
from benchmarks.soak.commands import CODES, Ended, complaints
from benchmarks.soak.corpora import Corpus
from benchmarks.soak.reader import Reader

AT_ONCE = 4
"""Maximum number of disturbances of a build."""
_STRATEGIES = ("joint", "token", "whole-word", "span", "random-word", "elm", "bert")
_CHECKED = (".arrow", "tokenizer.json")
"""Suffixes of files of which `verify` checks a checksum."""


class Soak:
    """State shared by rounds.

    Attributes:
        scratch: Scratch folder of the soak.
        out: Folder for a round's build, deleted between rounds.
        reader: The long-lived process.
        counts: Event -> number.
        memory: Answers of the reader, in order, without those after a crash or hang.
    """

    def __init__(self, scratch: Path, reader: Reader) -> None:
        """Start in the folder `scratch`."""
        self.scratch = scratch
        self.out = scratch / "round" / "out"
        self.reader = reader
        self.counts = Counter[str]()
        self.memory: list[dict[str, int]] = []
        self._peace: dict[str, str] = {}
        self._digests: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._commands = 0

    def run(self, *words: str) -> Ended:
        """Run the command undisturbed."""
        return commands.run(words, self._place())

    def disturb(self, rng: random.Random, *words: str) -> tuple[str, Ended]:
        """Run and disturb the command."""
        how, ended = commands.disturb(words, self._place(), rng)
        self.counts[how] += 1
        return how, ended

    def start(self, *words: str) -> commands.Running:
        """Start the command."""
        return commands.Running(words, self._place())

    def _place(self) -> Path:
        self._commands += 1
        self.counts["commands"] += 1
        return self.scratch / "commands" / str(self._commands)

    def corpus(self, rng: random.Random) -> Corpus:
        """Return a random corpus."""
        return corpora.make(rng.choice(corpora.names()), self.scratch)

    def built(self, corpus: Corpus) -> tuple[Path, str]:
        """Return the folder and digest of an undisturbed build with one worker, cached.

        Raises:
            RuntimeError: The build fails.
        """
        out = self.scratch / "peace" / corpus.name
        if corpus.name not in self._peace:
            ended = self.run(*build_words(corpus, out), "--workers", "1")
            if ended.code != 0:
                raise RuntimeError(f"{corpus.name}: {ended.err[-500:]}")
            self._peace[corpus.name] = tree(out)
        return out, self._peace[corpus.name]

    def ask(self, **request: Any) -> dict[str, Any]:
        """Ask the reader, and record its memory."""
        answer = self.reader.ask(**request)
        self.counts[f"read: {request['do']}"] += 1
        if "kib" in answer:
            self.memory.append(answer | {"start": self.reader.starts})
        return answer

    def same(self, key: tuple[Any, ...], answer: dict[str, Any]) -> bool:
        """Return whether an answer equals the first answer with the same key."""
        known: dict[str, Any] = {
            name: answer[name] for name in ("rows", "digest") if name in answer
        }
        return self._digests.setdefault(key, known) == known


def build_words(corpus: Corpus, out: Path, *more: str) -> tuple[str, ...]:
    """Return the arguments of a build."""
    return ("build", *corpus.words, "--input", str(corpus.inputs), "--out", str(out), *more)


# Builds -------------------------------------------------------------------------------------------


def build_in_peace(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Build undisturbed with a random number of workers, and verify."""
    corpus = soak.corpus(rng)
    soak.built(corpus)
    more = ("--workers", str(rng.choice((1, 2, 3, 4))), "--json")

    ended = soak.run(*build_words(corpus, soak.out, *more))
    yield from complaints(ended, 0)
    if ended.code == 0:
        report = json.loads(ended.out)
        if report["read"] != report["written"] + report["set_aside"]:
            yield "read is not written + set_aside"
    yield from _finished(soak, corpus)


def build_disturbed(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Disturb a build a few times, then finish it by the same command."""
    corpus = soak.corpus(rng)
    words = build_words(corpus, soak.out, "--workers", str(rng.choice((1, 2, 4))))

    for _ in range(rng.randint(1, AT_ONCE)):
        how, ended = soak.disturb(rng, *words)
        yield from complaints(ended, *CODES[how])
        if ended.code not in (0, -signal.SIGKILL) and (leftover := _temporary(soak.out)):
            yield f"temporary files after {how}: {', '.join(leftover)}"

    yield from complaints(soak.run(*words), 0)
    yield from _finished(soak, corpus)


def build_parts(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Build some parts in parallel, one of them disturbed, then finish without `--part`."""
    corpus = soak.corpus(rng)
    words = build_words(corpus, soak.out, "--workers", str(rng.choice((1, 2))))
    parts = rng.randint(2, 4)
    numbers = rng.sample(range(1, parts + 1), rng.randint(1, parts))

    # Other parts run undisturbed at the same time, and must succeed.
    beside = [soak.start(*words, "--part", f"{number}/{parts}") for number in numbers[1:]]
    how, ended = soak.disturb(rng, *words, "--part", f"{numbers[0]}/{parts}")
    yield from complaints(ended, *CODES[how])
    for running in beside:
        yield from complaints(running.end(), 0)

    yield from complaints(soak.run(*words), 0)
    yield from _finished(soak, corpus)


def build_in_the_reader(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Build by `md.build` in the long-lived process."""
    corpus = soak.corpus(rng)
    _, source, _, tokenizer = corpus.words

    answer = soak.ask(
        do="build",
        source=source,
        input=str(corpus.inputs),
        tokenizer=tokenizer,
        out=str(soak.out),
        workers=rng.choice((1, 2)),
    )
    if "rows" not in answer:
        yield f"expected a folder, got {answer}"
    elif answer["below"]:
        yield f"{answer['below']} processes left below the one that built"
    yield from _finished(soak, corpus)


def _finished(soak: Soak, corpus: Corpus) -> Iterator[str]:
    """Yield complaints about a finished folder."""
    _, digest = soak.built(corpus)
    if not (soak.out / "manifest.json").is_file():
        yield "no manifest"
    elif tree(soak.out) != digest:
        yield "other bytes than those of a build in peace"
    else:
        yield from complaints(soak.run("verify", str(soak.out)), 0)


def _temporary(out: Path) -> list[str]:
    return [str(path.relative_to(out)) for path in out.rglob(".*.tmp")]


# Folders ------------------------------------------------------------------------------------------


def commands_on_a_folder(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Run mask-stats, inspect, verify and a dry run, none of which may change the folder."""
    corpus = soak.corpus(rng)
    built, digest = soak.built(corpus)
    strategy = ("--strategy", rng.choice(_STRATEGIES))

    seed = ("--seed", str(rng.randrange(1 << 40)))
    counted = soak.run("mask-stats", str(built), *strategy, *seed, "--json")
    yield from complaints(counted, 0)
    if counted.code == 0 and json.loads(counted.out)["sequences"] < 1:
        yield "mask-stats counted no sequence"

    inspected = soak.run("inspect", str(built), *strategy, "--rows", "20", "--show-text")
    yield from complaints(inspected, 0)
    yield from complaints(soak.run("verify", str(built), "--json"), 0)
    yield from complaints(soak.run(*build_words(corpus, soak.out, "--dry-run", "--json")), 0)
    if soak.out.exists():
        yield "--dry-run wrote something"
    if tree(built) != digest:
        yield "commands that read changed the folder"


def command_interrupted(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Disturb commands that only read."""
    built, digest = soak.built(soak.corpus(rng))
    words = rng.choice((("mask-stats", "--epochs", "30"), ("verify",), ("inspect", "--show-text")))

    how, ended = soak.disturb(rng, words[0], str(built), *words[1:])
    yield from complaints(ended, *CODES[how])
    if tree(built) != digest:
        yield "a command that reads changed the folder"


def epochs(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Read epochs in the long-lived process. Equal requests must give equal batches."""
    corpus = soak.corpus(rng)
    built, _ = soak.built(corpus)

    for _ in range(5):
        strategy = rng.choice(_STRATEGIES)
        batch_size = rng.choice((8, 32, 128))
        seed, epoch = rng.randrange(2), rng.randrange(2)
        answer = soak.ask(
            do="epoch",
            folder=str(built),
            strategy=strategy,
            seed=seed,
            epoch=epoch,
            batch_size=batch_size,
        )
        if "digest" not in answer:
            yield f"expected an epoch, got {answer}"
        elif not soak.same((corpus.name, strategy, batch_size, seed, epoch), answer):
            yield f"{strategy}, seed {seed}, epoch {epoch}: other batches than the last time"


# Damage -------------------------------------------------------------------------------------------


def damaged_input(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Build from damaged files: success with a folder that verifies, or an error message."""
    corpus = soak.corpus(rng)
    inputs = soak.out.with_name("inputs")
    shutil.copytree(corpus.inputs, inputs)
    soak.counts[f"input {_damage(inputs, rng)}"] += 1
    words = build_words(
        corpus._replace(inputs=inputs), soak.out, "--workers", str(rng.choice((1, 2)))
    )

    ended = soak.run(*words)
    yield from complaints(ended, 0, 1)
    soak.counts[f"damaged input: exit code {ended.code}"] += 1
    if ended.code == 0:
        yield from complaints(soak.run("verify", str(soak.out)), 0)


def damaged_folder(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Use a damaged folder: `verify` must fail, other commands may fail only with a message."""
    built, _ = soak.built(soak.corpus(rng))
    shutil.copytree(built, soak.out)
    how = _damage(soak.out, rng)
    changed = [
        str(path.relative_to(built))
        for path in sorted(built.rglob("*"))
        if path.is_file() and not _equal(path, soak.out / path.relative_to(built))
    ]
    soak.counts[f"folder {how}"] += 1

    # `verify` must detect damage of files with checksums. Other damage may be harmless.
    checked = soak.run("verify", str(soak.out))
    must_fail = any(name.endswith(_CHECKED) for name in changed)
    yield from (
        f"{how} {', '.join(changed)}: verify: {complaint}"
        for complaint in complaints(checked, *((1,) if must_fail else (0, 1)))
    )
    soak.counts[f"damaged folder: verify's exit code {checked.code}"] += 1

    for words in (("mask-stats", "--json"), ("inspect", "--rows", "5", "--show-text")):
        ended = soak.run(words[0], str(soak.out), *words[1:])
        yield from (
            f"{how} {', '.join(changed)}: {words[0]}: {complaint}"
            for complaint in complaints(ended, 0, 1)
        )

    answer = soak.ask(
        do="epoch", folder=str(soak.out), strategy="joint", seed=0, epoch=0, batch_size=32
    )
    if "fault" in answer:
        yield f"{how} {', '.join(changed)}: reading: {answer['fault']}"


def damaged_unfinished(soak: Soak, rng: random.Random) -> Iterator[str]:
    """Damage pieces or receipts of an unfinished build. The next command must rebuild them."""
    corpus = soak.corpus(rng)
    words = build_words(corpus, soak.out, "--workers", str(rng.choice((1, 2))))
    yield from complaints(soak.run(*words, "--part", "1/2"), 0)

    kinds = ("pieces", "receipts")
    leftover = [path for kind in kinds for path in (soak.out / ".build" / kind).rglob("*.*")]
    path, other = rng.sample(sorted(leftover), 2)
    how = _damage_file(path, other, rng)
    soak.counts[f"unfinished {how}"] += 1

    yield from (f"{how} {path.name}: {complaint}" for complaint in complaints(soak.run(*words), 0))
    yield from _finished(soak, corpus)


def _damage(folder: Path, rng: random.Random) -> str:
    """Damage one or two files of a folder, and return the kind of damage."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return _damage_file(rng.choice(files), rng.choice(files), rng)


def _damage_file(path: Path, other: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    how = rng.choice(("flipped", "flipped", "truncated", "swapped", "emptied", "removed"))
    if how == "flipped":
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 10)) if data else 0):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
    elif how == "truncated":
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    elif how == "swapped":
        path.write_bytes(other.read_bytes())
        other.write_bytes(data)
    elif how == "emptied":
        path.write_bytes(b"")
    else:
        path.unlink()
    return how


def _equal(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


Round = Callable[[Soak, random.Random], Iterator[str]]
ROUNDS: Mapping[Round, int] = {
    build_in_peace: 2,
    build_disturbed: 6,
    build_parts: 3,
    build_in_the_reader: 3,
    commands_on_a_folder: 2,
    command_interrupted: 2,
    epochs: 6,
    damaged_input: 5,
    damaged_folder: 4,
    damaged_unfinished: 3,
}
"""Kind of round -> relative frequency."""


def play_round(soak: Soak, seed: int, number: int) -> tuple[str, list[str]]:
    """Play a round, and return its kind and its findings."""
    rng = random.Random(f"{seed}-{number}")
    play = draw_round(rng)
    kind = play.__name__.replace("_", " ")
    soak.out.parent.mkdir()

    began = time.monotonic()
    findings = []
    for complaint in _complaints(play, soak, rng):
        what = complaint.replace(str(soak.scratch), "…").replace(str(ROOT), "…")
        findings.append(f"round {number}, {kind}: {what}")
    shutil.rmtree(soak.out.parent)

    seconds = time.monotonic() - began
    print(f"round {number}, {kind}: {seconds:.1f} s", file=sys.stderr, flush=True)
    for finding in findings:
        print(f"  FOUND: {finding}", file=sys.stderr, flush=True)
    return kind, findings


def draw_round(rng: random.Random) -> Round:
    """Draw a kind of round."""
    return rng.choices([*ROUNDS], [*ROUNDS.values()])[0]


def _complaints(play: Round, soak: Soak, rng: random.Random) -> Iterator[str]:
    """Yield the complaints of a round. An error that ends it is one: later rounds must go on."""
    try:
        yield from play(soak, rng)
    except Exception as error:  # noqa: BLE001 - the findings of hours would be lost
        traceback.print_exc()
        last = str(error).strip().rpartition("\n")[2]
        yield f"{type(error).__name__}: {last}"
