"""Static checks of the source code for forbidden calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mslm_data

FILES = sorted(Path(mslm_data.__file__).parent.rglob("*.py"))
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
}


def problems(code: str) -> Iterator[str]:
    """Yield the forbidden calls of a module: unpickling, running text or files, remote code."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (
                f"{node.lineno}: {name}"
                for name in names
                if name.split(".")[0] in FORBIDDEN_IMPORTS
            )
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            if (
                called in FORBIDDEN_CALLS
                or options.get("shell") == "True"
                or options.get("allow_pickle") == "True"
            ):
                yield f"{node.lineno}: {called}"
            if called in ("np.load", "numpy.load") and options.get("allow_pickle") != "False":
                yield f"{node.lineno}: {called} without allow_pickle=False"
            if called.endswith("torch.load") and options.get("weights_only") != "True":
                yield f"{node.lineno}: {called} without weights_only=True"
            if options.get("trust_remote_code", "False") != "False":
                yield f"{node.lineno}: {called} with trust_remote_code"
            if called.endswith("from_pretrained") and options.get("use_safetensors") == "False":
                yield f"{node.lineno}: {called} of pickled weights"


def test_problems__package_unpickles_nothing_and_runs_no_foreign_code() -> None:
    found = {path.name: list(problems(path.read_text(encoding="utf-8"))) for path in FILES}

    assert len(FILES) > 200
    assert not {name: of for name, of in found.items() if of}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "from pickle import loads as read",
        "import torch\ntorch.load(path)",
        "torch.load(path, weights_only=False)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=asked)",
        "AutoModel.from_pretrained(name, use_safetensors=False)",
        "np.load(path)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
        "np.memmap(path, allow_pickle=True)",
    ],
)
def test_problems__detects_each_forbidden_call(code: str) -> None:
    assert list(problems(code))


def test_problems__accepts_safe_calls() -> None:
    assert not list(
        problems(
            "torch.load(path, weights_only=True)\nnp.load(path, allow_pickle=False)\nf(trust_remote_code=False)\nre.compile('x')"
        )
    )


def test_problems__remote_code_is_only_named_to_be_rejected() -> None:
    said = [
        line
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "trust_remote" in line
    ]

    assert said
    assert all("trust_remote_code=False" in line for line in said)
