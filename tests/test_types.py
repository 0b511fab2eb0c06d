"""The public API under a type checker: a script with planted errors, each of which mypy must find."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mslm_data as md

pytestmark = pytest.mark.long


ROOT = Path(md.__file__).parents[1]

CONFIG = """
[mypy]
strict = true
follow_imports = silent
mypy_path = {root}

# Types of other packages take most of a minute to read and are not what is tested here.
[mypy-torch.*,transformers.*,numba.*,pyarrow.*,datasets.*,tokenizers.*,fsspec.*]
follow_imports = skip
ignore_missing_imports = true
"""

RIGHT = """
from pathlib import Path

import mslm_data as md
from mslm_data.builds import Progress
from mslm_data.torch import MaskedDataset, MaskingCollator


def told(progress: Progress) -> None:
    print(progress.rows / max(progress.documents, 1), progress.total)


built: md.Shards = md.build(
    "blurb/ncbi-disease",
    input=[Path("train.tsv"), "test.tsv"],
    tokenizer=Path("vocab.txt"),
    out="shards/ncbi",
    workers=None,
    engine="local",
    options={"encode.keep_text": True},
    progress=told,
)
labels = md.build({"name": "mine", "source": {"use": "jsonl"}}, input="x", sample=False).labels
md.build_part(Path("my.toml"), part=(1, 8))


def rows(shards: md.Shards, name: str = "train") -> md.Split:
    return shards[name]


train = rows(md.load("shards/ncbi"))
joint: md.Strategy = md.strategy("joint", elm=1.0)
n_elm, n_blm = joint.plan(train.examples(0, 8), seed=1).counts()
w_elm, w_blm = md.mask_specific_weights(n_elm, n_blm)
for batch in md.Batches(train, joint, batch_size=32, bucketed=True):
    print(batch["input_ids"].shape, w_elm + w_blm)
dataset = MaskedDataset(train, "joint", seed=7)
loader = dataset.loader(batch_size=8, bucketed=True, rank=0, world=2)
collator = MaskingCollator(joint, train, multiple_of=8)
mixed = md.mix({"shards/ncbi": 0.7, Path("shards/notes"): 0.3}, split="train", by="rows")
of_sizes = md.mix([train, md.load("shards/notes")], temperature=2, epoch_size="longest")
print(md.Batches(mixed, joint), MaskedDataset(of_sizes, joint), mixed.splits[0].rows + 1)
"""

WRONG = [
    ("md.build(3)", "arg-type"),
    ("md.build('x', 'input')", "call-arg"),
    ("md.build('x', inputs='y')", "call-arg"),
    ("md.build('x', workers='2')", "arg-type"),
    ("md.build('x', options=['encode.keep_text'])", "arg-type"),
    ("md.build('x', part=(1, 2))", "call-arg"),
    ("md.build_part('x', part=2)", "arg-type"),
    ("md.build_part('x')", "call-arg"),
    ("md.build_part('x', part=(1, 2)).labels", "attr-defined"),
    ("md.build('x').rows", "attr-defined"),
    ("md.build('x', progress=lambda: None)", "arg-type"),
    ("md.build('x', progress=lambda p: p.words)", "attr-defined"),
    ("md.load(3)", "arg-type"),
    ("md.laod('x')", "attr-defined"),
    ("train[0:2]", "index"),
    ("train.takes", "attr-defined"),
    ("md.strategy(elm=1.0)", "call-arg"),
    ("joint.plan(train)", "arg-type"),
    ("joint.plan(train.examples(), sead=1)", "call-arg"),
    ("md.Batches(train, joint, batch_size='32')", "arg-type"),
    ("md.Batches(train, 3)", "arg-type"),
    ("md.Batches(md.load('x'), joint)", "arg-type"),
    ("md.mask_specific_weights('1', 2)", "arg-type"),
    ("md.strategies()['joint'] + 1", "operator"),
    ("MaskedDataset(md.load('x'), joint)", "arg-type"),
    ("MaskedDataset(train, joint, epochs=1)", "call-arg"),
    ("dataset.loader(workers=2)", "call-arg"),
    ("loader.sate_dict()", "attr-defined"),
    ("dataset.loader(rank='0')", "arg-type"),
    ("dataset.loader(batch_tokens='512')", "arg-type"),
    ("MaskingCollator(joint, train, multiple=8)", "call-arg"),
    ("md.mix({'shards/ncbi': '0.7'})", "dict-item"),
    ("md.mix([train], by='words')", "arg-type"),
    ("md.mix([train, 3])", "list-item"),
    ("md.mix([train], epoch_size='long')", "arg-type"),
    ("mixed.take(3)", "arg-type"),
    ("from mslm_data.torch import MaskedDataSet", "attr-defined"),
]
"""Statements with one error each, and mypy's error code."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Run mypy once on the valid and invalid lines. Return its error codes by line."""
    folder = tmp_path_factory.mktemp("types")
    wrong = [statement for statement, _ in WRONG]
    (folder / "user.py").write_text("\n".join([*RIGHT.splitlines(), *wrong, ""]))
    (folder / "mypy.ini").write_text(CONFIG.format(root=ROOT))

    command = [sys.executable, "-m", "mypy", "--config-file=mypy.ini", "--cache-dir=cache"]
    ended = subprocess.run(
        [*command, "user.py"], cwd=folder, capture_output=True, text=True, check=False
    )

    errors = re.findall(r"^user.py:(\d+): error: .*\[([\w-]+)\]$", ended.stdout, re.MULTILINE)
    assert errors, ended.stdout + ended.stderr
    return {int(line): code for line, code in errors}


def test_mypy__finds_every_planted_error(found: dict[int, str]) -> None:
    first = len(RIGHT.splitlines()) + 1

    assert {said: found.get(first + i) for i, (said, _) in enumerate(WRONG)} == dict(WRONG)


def test_mypy__accepts_a_valid_script(found: dict[int, str]) -> None:
    assert [line for line in found if line <= len(RIGHT.splitlines())] == []


@pytest.mark.parametrize("package", ["mslm_data", "mslm_data/torch"])
def test_public_names__are_the_same_for_python_and_type_checkers(package: str) -> None:
    tree = ast.parse((ROOT / package / "__init__.py").read_text())

    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        alias.name: node.module
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (lazy,) = [node.value for node in branch.orelse if isinstance(node, ast.Assign)]
    (names,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]

    assert typed == ast.literal_eval(lazy)
    assert set(ast.literal_eval(names)) - {"__version__"} == set(typed)


def test_public_names__exist() -> None:
    assert [name for name in md.__all__ if not hasattr(md, name)] == []
