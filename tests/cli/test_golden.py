"""The `--json` of each command on the shipped samples.

`golden/` has a file per command: its calls, each with the exit code and the JSON object. Paths,
versions, digests and prose are replaced by words. `python -m tests.cli.test_golden [COMMAND ...]`
writes the files again: look at their difference before it is committed, since JSON keys are
promises to users.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from mslm_data._version import __version__
from mslm_data.cli import COMMANDS
from mslm_data.cli.vocab import COMMANDS as VOCAB
from mslm_data.cli.vocab.scores import COMMANDS as SCORES
from tests.cli.running import run
from tests.lexicon.models import sample_vocab, saved
from tests.made import SAMPLE

FOLDER = Path(__file__).parent / "golden"

CALLS = {
    "build": [
        "build --source blurb/ncbi-disease --sample --out {out}/a",
        "build --source blurb/ncbi-disease --sample --out {out}/b --dry-run",
        "build --source blurb/ncbi-disease --sample --out {out}/c --part 1/2",
        "build --source blurb --sample --out {out}/d --dry-run",
        "build --source mimic --sample --out {out}/e",
        "build --source auto --input {flawed} --tokenizer {vocab} --out {out}/f "
        "--set source.max_loss=1 --set encode.max_tokens=16",
        "build --source auto --input {flawed} --tokenizer {vocab} --out {out}/g --dry-run",
        "build --source {weak_toml} --input {notes} --tokenizer {vocab} --out {out}/h",
    ],
    "mask-stats": [
        "mask-stats {ncbi}",
        "mask-stats {ncbi} --elm 0.4 --blm 0.1 --seed 3 --epochs 2 --weights released",
        "mask-stats {ncbi} --sweep",
        "mask-stats {ncbi} --split test --strategy whole-word --set rate=0.2",
        "mask-stats {ncbi} --strategy token --top-words 3",
        "mask-stats {ncbi} --strategy diffusion",
        "mask-stats {mimic}",
        "mask-stats {mimic} --top-words 3 --show-text",
    ],
    "inspect": [
        "inspect {ncbi} --rows 2",
        "inspect {ncbi} --split test --start 3 --rows 1 --strategy joint --strategy span "
        "--set span.rate=0.2 --seed 2 --epoch 1",
        "inspect {ncbi} --rows 2 --strategy joint --strategy causal --as-seen",
        "inspect {mimic} --rows 1 --show-text",
        "inspect {weak} --rows 2",
    ],
    "verify": ["verify {ncbi}", "verify {mimic}", "verify {damaged}"],
    "vocab pmi": [
        "vocab pmi {ncbi} --all-splits --min-count 2 --out {out}/a.arrow",
        "vocab pmi {ncbi} --recipe levine --measure squared --lengths 2-3 --min-count 1,2 "
        "--coverage 0.2 --shares 60,40 --out {out}/b.arrow",
        "vocab pmi {ncbi} --recipe released --min-count 1 --size 5 --out {out}/c.arrow",
    ],
    "vocab anchors": [
        "vocab anchors {ncbi} --general {chem} --count 4 --min-count 2 --out {out}/a.arrow",
        "vocab anchors {ncbi} --general {counts} --count 3 --min-count 2 --smoothing 0.5 "
        "--stop-words english --split test --out {out}/b.arrow",
        "vocab anchors {mimic} --general {counts} --count 3 --min-count 2 --out {out}/c.arrow",
        "vocab anchors {mimic} --general {counts} --count 3 --min-count 2 --show-text "
        "--out {out}/d.arrow",
    ],
    "vocab concepts": [
        "vocab concepts --from {concepts} --types T047,T121 --common-words keep --out {out}/a.csv",
        "vocab concepts --from {concepts} --common-words drop --out {out}/b.csv",
    ],
    "vocab scores anchors": [
        "vocab scores anchors {anchored} --encoder {encoder} --combine mean --out {out}/a.arrow",
    ],
    "vocab scores attention": [
        "vocab scores attention {ncbi} --encoder {encoder} --split test --out {out}/a",
    ],
    "vocab scores logits": [
        "vocab scores logits {ncbi} --encoder {tagger} --class 1 --value margin --out {out}/a",
    ],
    "vocab scores confidence": [
        "vocab scores confidence {ncbi} --callable tests.cli.test_golden:p_true --split test "
        "--threshold 0.02 --out {out}/a",
    ],
    "vocab scores table": [
        "vocab scores table {ncbi} --from {rates} --out {out}/a.arrow",
        "vocab scores table {mimic} --from {rates} --by pieces --out {out}/b.arrow",
    ],
    "vocab scores frequency": [
        "vocab scores frequency {ncbi} --out {out}/a.arrow",
        "vocab scores frequency {mimic} --split train --split test --out {out}/b.arrow",
    ],
    "annotate": ["annotate {tagger} --input {texts} --out {out}/a.jsonl"],
    "audit": [
        "audit {weak} --gold {gold} --gold-source {gold_toml} --label DIS=Disease "
        "--set annotate.annotators.all.table={terms} "
        "--set annotate.annotators.some.table={fewer_terms}",
        "audit {weak} --gold {gold} --gold-source {gold_toml} --label DIS=Disease "
        "--set annotate.annotators.all.table={terms} "
        "--set annotate.annotators.some.table={fewer_terms} --train {fewer_terms}",
    ],
    "overlap": ["overlap {ncbi}", "overlap {ncbi}/train {ncbi}/test {chem}/test {mimic}"],
    "subset": [
        "subset {ncbi} --documents 3,5 --seed 1 --out {out}/a",
        "subset {ncbi} --share 0.2 --out {out}/b",
        "subset {mimic} --shots 1 --out {out}/c",
        "subset {ncbi} --min-term-share 0.1 --documents 3 --out {out}/d",
        "subset {ncbi} --term-shares 0.05,0.1 --label Disease --out {out}/e",
    ],
    "export": [
        *(f"export {{ncbi}} --to {to} --out {{out}}/{to}" for to in ("parquet", "jsonl")),
        *(
            f"export {{texted}} --to {to} --out {{out}}/{to}"
            for to in ("gliner", "docbin", "conll")
        ),
        "export {mimic} --to jsonl --split test --out {out}/notes",
    ],
    "push": ["push {with_others} me/genes --public"],
    "doctor": ["doctor"],
    "recipes": [
        "recipes",
        "recipes mimic",
        "recipes auto --input {flawed}",
        "recipes --sources",
        "recipes --sources conll",
        "recipes --annotators",
        "recipes --annotators terms",
        "recipes --segmenters",
        "recipes --segmenters clinical",
        "recipes --strategies",
        "recipes --strategies joint",
        "recipes --strategies mixture",
        "recipes --picks",
    ],
}
"""Command -> its calls, without `--json`. Names in braces are inputs, see `Inputs`."""

WITHOUT_JSON = {"look"}
PROSE = {"text", "toml", "help", "reads", "does", "source", "why", "hides", "words"}
"""Keys of `recipes` with texts that people read."""
LISTED = {"blurb/ncbi-disease", "mimic", "conll", "terms", "clinical", "joint.v1", 'use = "units"'}
"""Names of a listing that are compared, so that one more does not change a golden file."""
LISTINGS = ("recipes", "sources", "annotators", "segmenters", "strategies", "picks")


class Inputs(dict[str, object]):
    """The inputs of calls, each made when a call first names it."""

    def __init__(self, home: Path) -> None:
        super().__init__(vocab=SAMPLE / "vocab.txt", concepts=SAMPLE / "concepts.csv")
        self.home = home

    def __missing__(self, name: str) -> object:
        path = self.home / name
        made = getattr(self, f"make_{name}")(path)
        self[name] = path if made is None else made
        return self[name]

    def build(self, *words: object) -> None:
        done = run("build", *words)
        assert done.code == 0, done.err

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def make_ncbi(self, path: Path) -> None:
        self.build("--source", "blurb/ncbi-disease", "--sample", "--out", path)

    def make_chem(self, path: Path) -> None:
        self.build("--source", "blurb/bc5cdr-chem", "--sample", "--out", path)

    def make_mimic(self, path: Path) -> None:
        self.build("--source", "mimic", "--sample", "--out", path)

    def make_texted(self, path: Path) -> None:
        words = ("--source", "blurb/ncbi-disease", "--sample", "--set", "encode.keep_text=true")
        self.build(*words, "--out", path)

    def make_anchored(self, path: Path) -> None:
        self.make_ncbi(path)
        words = ("vocab", "anchors", path, "--general", self["counts"], "--min-count", 2)
        assert run(*words).code == 0

    def make_with_others(self, path: Path) -> None:
        """A folder with a file that no build wrote."""
        self.make_ncbi(path)
        (path / "mine.csv").write_text("a,b\n", encoding="utf-8")

    def make_damaged(self, path: Path) -> None:
        """Such a folder without a shard."""
        self.make_with_others(path)
        next(path.glob("test/*.arrow")).unlink()

    def make_flawed(self, path: Path) -> None:
        """Two files of words, some with tags that no reader accepts as they are."""
        train = "".join(
            f"Patient\tO\n{number}\tO\nhas\tO\nasthma\tB-Disease\nattacks\tI-Disease\n\n"
            for number in range(30)
        )
        train += "Gout\tI-Disease\n\n" + "word\tO\n" * 40 + "\n"
        self.write("flawed/train.tsv", train)
        self.write("flawed/test.tsv", "No\tO\nasthma\tB-Disease\n\nA\tO\n\n")
        self.write("flawed/notes.md", "# Not read\n")

    def make_counts(self, path: Path) -> Path:
        return self.write("counts.tsv", "the\t1000\nof\t900\nwas\t500\npatient\t3\n")

    def make_rates(self, path: Path) -> Path:
        """A table with a line that cannot be used."""
        return self.write("rates.tsv", "word\trate\nthe\t0.5\nof\t0.25\npatient\t2\n")

    def make_notes(self, path: Path) -> Path:
        texts = ["No heart failure. Aspirin was given.", "Asthma, and aspirin twice daily."]
        rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
        return self.write("notes.jsonl", "\n".join(map(json.dumps, rows)))

    def make_terms(self, path: Path) -> Path:
        lines = ["name,label", "heart failure,Disease", "asthma,Disease", "aspirin,Treatment"]
        return self.write("terms.csv", "\n".join(lines) + "\n")

    def make_fewer_terms(self, path: Path) -> Path:
        return self.write("fewer.csv", "name,label\nasthma,Disease\naspirin,Treatment\n")

    def make_weak_toml(self, path: Path) -> Path:
        """A pipeline of two annotators, which agree on some mentions."""
        lines = [
            'name = "weak"',
            "[source]",
            'use = "jsonl"',
            "[annotate]",
            'use = "ensemble"',
            'combine = "union"',
            'priority = ["all", "some"]',
            'labels = ["Disease", "Treatment"]',
            "[annotate.annotators.all]",
            'use = "terms"',
            f"table = {json.dumps(str(self['terms']))}",
            "[annotate.annotators.some]",
            'use = "terms"',
            f"table = {json.dumps(str(self['fewer_terms']))}",
        ]
        return self.write("weak.toml", "\n".join(lines))

    def make_weak(self, path: Path) -> None:
        inputs = ("--input", self["notes"], "--tokenizer", self["vocab"])
        self.build("--source", self["weak_toml"], *inputs, "--out", path)

    def make_gold(self, path: Path) -> Path:
        """Gold mentions: two exact matches, a partial one, a missed one and a document without."""
        first = "Asthma and severe heart failure."
        second = "Heart failure without gout; aspirin."
        rows = [
            {"id": "a", "text": first, "entities": [[0, 6, "DIS"], [11, 31, "DIS"]]},
            {"id": "b", "text": second, "entities": [[0, 13, "DIS"], [22, 26, "DIS"]]},
            {"id": "c", "text": "Asthma was ruled out."},
        ]
        return self.write("gold.jsonl", "\n".join(map(json.dumps, rows)))

    def make_gold_toml(self, path: Path) -> Path:
        return self.write("gold.toml", '[source]\nuse = "jsonl"\n[annotate]\nlabels = ["DIS"]\n')

    def make_texts(self, path: Path) -> None:
        self.write("texts/a.txt", "Asthma and heart failure.")
        self.write("texts/b.txt", "No disease.")

    def make_encoder(self, path: Path) -> None:
        saved(path, vocab=sample_vocab())

    def make_tagger(self, path: Path) -> None:
        labels = {0: "O", 1: "B-Disease", 2: "I-Disease"}
        kind = "BertForTokenClassification"
        saved(path, kind, vocab=sample_vocab(), id2label=labels, num_labels=3)


def p_true(rows: list[list[int]], keys: list[int]) -> list[float]:
    """A task model: the longer a row, the surer."""
    return [1 - 1 / (1 + len(row)) for row in rows]


class Hub:
    """Accepts any upload."""

    def create_repo(self, repo: str, **_: object) -> Any:
        return mock.Mock(repo_id=repo, __str__=lambda _: f"https://hub.example/datasets/{repo}")

    def repo_info(self, repo: str, **_: object) -> Any:
        return mock.Mock(private=False)

    def upload_folder(self, **_: object) -> None:
        pass


# Without what differs between machines ------------------------------------------------------------


def normalised(report: Any, home: Path) -> Any:
    """Replace digests, paths and the version, and round numbers."""
    text = json.dumps(report, ensure_ascii=False)
    text = text.replace(str(home), "HOME").replace(str(SAMPLE), "SAMPLE")
    text = text.replace(f'"{__version__}"', '"VERSION"')
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text)
    return json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))


def without_prose(report: Any) -> Any:
    """Replace texts that people read; of a listing, keep some names."""
    if not isinstance(report, dict):
        return report
    kept = {}
    for key, value in report.items():
        if key in LISTINGS and isinstance(value, dict):
            kept[key] = {name: without_prose(value[name]) for name in value if name in LISTED}
        elif key in LISTINGS:
            kept[key] = [name for name in value if name in LISTED]
        elif key in PROSE:
            kept[key] = type(value).__name__
        else:
            kept[key] = without_prose(value)
    return kept


def without_machine(report: dict[str, Any]) -> dict[str, Any]:
    """Keep the types of what `doctor` says of this machine."""
    for key in ("python", "platform"):
        report[key] = type(report[key]).__name__
    for packages in (report["packages"], *report["extras"].values()):
        packages.update(dict.fromkeys(packages, "str"))
    report["cpus"] = dict.fromkeys(report["cpus"], "number")
    report["cache"]["folder"] = "str"
    report["plugins"] = []
    return report


def without_bytes(report: dict[str, Any]) -> dict[str, Any]:
    """Keep the type of the sizes of exported files, which hold the versions of libraries."""
    for split in report["splits"].values():
        split["bytes"] = type(split["bytes"]).__name__
    return report


CHANGES: dict[str, Callable[[Any], Any]] = {
    "recipes": without_prose,
    "doctor": without_machine,
    "export": without_bytes,
}
"""Command -> what is replaced in its answers besides."""


# The runner ---------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """Exit code of a command, and the JSON object that it prints."""

    code: int
    json: Any


def answers(command: str, inputs: Inputs) -> Iterator[tuple[str, Answer]]:
    """Run the calls of a command. Yield each with its answer."""
    change = CHANGES.get(command, lambda report: report)
    inputs["out"] = inputs.home / "out" / file_of(command).stem
    for words in CALLS[command]:
        done = run(*shlex.split(words.format_map(inputs)), "--json")
        assert done.out, f"{words}: {done.err}"
        yield words, Answer(done.code, change(normalised(done.json, inputs.home)))


def read(command: str) -> dict[str, Answer]:
    """Read the golden file of a command."""
    answered = json.loads(file_of(command).read_text(encoding="utf-8"))
    return {words: Answer(**answer) for words, answer in answered.items()}


def write(command: str, inputs: Inputs) -> None:
    """Write the golden file of a command."""
    answered = {words: answer._asdict() for words, answer in answers(command, inputs)}
    text = json.dumps(answered, indent=2, ensure_ascii=False)
    file_of(command).write_text(f"{text}\n", encoding="utf-8")


def file_of(command: str) -> Path:
    return FOLDER / f"{command.replace(' ', '-')}.json"


def differences(given: Any, golden: Any, path: str = "") -> list[str]:
    """Return the paths at which a JSON object differs from a golden one, with both values."""
    if isinstance(given, dict) and isinstance(golden, dict):
        missing = "nothing"
        children = [
            (key, given.get(key, missing), golden.get(key, missing)) for key in {**given, **golden}
        ]
    elif isinstance(given, list) and isinstance(golden, list) and len(given) == len(golden):
        children = list(zip(range(len(given)), given, golden, strict=True))
    elif isinstance(given, float) and given == pytest.approx(golden, rel=1e-4):
        return []
    else:
        is_equal = type(given) is type(golden) and given == golden
        return [] if is_equal else [f"{path}: got {given}, golden {golden}"]
    return [
        difference
        for key, child, golden_child in children
        for difference in differences(child, golden_child, f"{path}/{key}")
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("golden"))


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest.importorskip("huggingface_hub"), "HfApi", lambda **_: Hub())


@pytest.mark.parametrize("command", CALLS)
def test_json__is_that_of_the_golden_file(command: str, inputs: Inputs) -> None:
    golden = read(command)
    assert list(golden) == CALLS[command]

    for words, answer in answers(command, inputs):
        assert answer.code == golden[words].code, words
        assert differences(answer.json, golden[words].json) == [], words


def test_golden__each_command_has_calls() -> None:
    commands = {name for name in COMMANDS if name not in {"vocab", *WITHOUT_JSON}}
    commands |= {f"vocab {name}" for name in VOCAB if name != "scores"}
    commands |= {f"vocab scores {name}" for name in SCORES}

    assert commands == {*CALLS}
    assert {file_of(command) for command in CALLS} == {*FOLDER.iterdir()}


if __name__ == "__main__":
    import huggingface_hub

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(huggingface_hub, "HfApi", return_value=Hub()),
    ):
        made = Inputs(Path(folder))
        for name in sys.argv[1:] or CALLS:
            write(name, made)
