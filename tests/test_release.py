"""The release recipe: its checks, and the steps that require --publish."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import release

ROOT = Path(__file__).parent.parent
WHEEL = "mslm_data-1.2-py3-none-any.whl"
OUTSIDE = ("tag", "push", "sign", "upload")


class Runs(list[tuple[str, ...]]):
    """Records the commands of a release without running them."""

    def take(self, *command: object, **_: str) -> None:
        self.append(tuple(map(str, command)))

    def are_outside(self) -> bool:
        return any(word in OUTSIDE for command in self for word in command)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Replace the slow steps of a release: programs, and the steps that need their output."""
    recorded = Runs()
    monkeypatch.setattr(release, "run", recorded.take)
    monkeypatch.setattr(
        release, "build_distributions", lambda into: [into / WHEEL, into / "mslm_data-1.2.tar.gz"]
    )
    monkeypatch.setattr(release, "check_contents", lambda _: None)
    monkeypatch.setattr(release, "write_bill", lambda wheel, extras, version, into: into)
    return recorded


# Checks and steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "is_right"),
    [
        ("1.2 (2030-01-31)", True),
        ("1.2", False),
        ("1.2 (unreleased)", False),
        ("1.20 (2030-01-31)", False),
        ("112 (2030-01-31)", False),
    ],
)
def test_heading_problem__requires_the_version_and_a_date(heading: str, is_right: bool) -> None:
    changelog = f"# Changelog\n\n## {heading}\n\n### Added\n\n## 1.2 (2029-01-31)\n"

    problems = release.changelog_problems(changelog, "1.2")

    assert (problems == []) == is_right
    assert is_right or f"got '## {heading}'" in problems[0]


@pytest.mark.parametrize(
    ("citation", "problems"),
    [
        ("version: 1.2\ndate-released: 2030-01-31\n", 0),
        ('version: 1.2\ndate-released: "2030-01-31"\n', 0),
        ("version: 1.2\n", 1),
        ("version: 1.20\ndate-released: 2030-01-31\n", 1),
        ("cff-version: 1.2\n", 2),
    ],
)
def test_citation_problem__requires_the_version_and_a_date(citation: str, problems: int) -> None:
    found = release.citation_problems(citation, "1.2")

    assert len(found) == problems
    assert all(problem.startswith("CITATION.cff: expected") for problem in found)


@pytest.mark.parametrize(
    ("readme", "found"),
    [
        ("[a](docs/a.md), ![b](b.svg), [c](https://example.org/c.md)", ["2 to files"]),
        ("[a][d]\n\n[d]: docs/a.md\n", ["1 to files"]),
        ("[a](https://example.org), [b](#b), [c][d]\n\n[d]: https://example.org", []),
    ],
)
def test_links_problem__counts_relative_links(readme: str, found: list[str]) -> None:
    problems = release.link_problems(readme)

    assert len(problems) == len(found)
    assert all(words in problem for words, problem in zip(found, problems, strict=True))


def test_version_of__reads_the_version_of_the_package() -> None:
    import mslm_data

    module = (ROOT / "mslm_data" / "_version.py").read_text(encoding="utf-8")

    assert release.parse_version(module) == mslm_data.__version__
    with pytest.raises(release.ReleaseError, match="expected __version__"):
        release.parse_version("version = 1")


def test_release__prints_publishing_commands_without_running_them(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "find_problems", lambda _: ["the tree has changes"])

    assert release.main([]) == 0

    said = capsys.readouterr().out
    assert runs[0] == ("make", "test")
    assert not runs.are_outside()
    assert "not ready: the tree has changes" in said
    assert all(re.search(rf"^(git|/\S+ -m \w+) {word}\b", said, re.MULTILINE) for word in OUTSIDE)


def test_release__publishes_only_when_ready(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "find_problems", lambda _: ["the tree has changes"])

    assert release.main(["--publish"]) == 1
    assert runs == []
    assert "expected a tree and a changelog that are ready" in capsys.readouterr().err


def test_release__publishes_after_the_checks_and_uploads_last(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "find_problems", lambda _: [])

    assert release.main(["--publish"]) == 0

    words = [next((word for word in command if word in OUTSIDE), "") for command in runs]
    assert words == ["", "", "tag", "push", "sign", "sign", "upload"]
    assert runs[-1][-1].endswith(".tar.gz.publish.attestation")


def test_release__requires_tests_before_publishing(runs: Runs) -> None:
    with pytest.raises(SystemExit) as caught:
        release.main(["--publish", "--skip-tests"])

    assert caught.value.code == 2
    assert runs == []


@pytest.mark.parametrize(
    ("added", "left_out", "named"),
    [
        ((), (), ""),
        (("tests/test_a.py",), (), "got these as well: ['tests/test_a.py']"),
        (("mslm_data/notes.csv",), (), "got these as well: ['mslm_data/notes.csv']"),
        (
            (),
            ("mslm_data/_shipped/vocab/a.txt",),
            "lacked these: ['mslm_data/_shipped/vocab/a.txt']",
        ),
    ],
)
def test_refuse_other_contents__lists_extra_and_missing_files_of_a_wheel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    added: tuple[str, ...],
    left_out: tuple[str, ...],
    named: str,
) -> None:
    tracked = ["README.md", "tests/test_a.py", "mslm_data/a.py", "vocab/a.txt"]
    monkeypatch.setattr(release, "output", lambda *_: "".join(f"{name}\0" for name in tracked))
    names = {f"mslm_data-1.2.dist-info/{name}" for name in release.METADATA}
    names |= {"mslm_data/a.py", "mslm_data/_shipped/vocab/a.txt", *added}
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        for name in names - set(left_out):
            archive.writestr(name, "")

    if not named:
        release.check_contents([tmp_path / WHEEL])
        return
    with pytest.raises(release.ReleaseError, match=re.escape(named)):
        release.check_contents([tmp_path / WHEEL])


# Bills of materials -------------------------------------------------------------------------------


def test_required__includes_extras_of_extras() -> None:
    stated = [
        "numpy>=2",
        'torch>=2; extra == "torch"',
        'mslm-data[torch]; extra == "all"',
        'old; python_version < "3"',
    ]

    assert [str(one) for one in release.required(stated, [])] == ["numpy>=2"]
    assert [one.name for one in release.required(stated, ["all"])] == ["numpy", "torch"]


@pytest.mark.parametrize(
    ("components", "wrong"),
    [
        ({"Numpy": "2.1", "pyarrow_x": "20"}, []),
        (
            {"Numpy": "2.1"},
            ["'pyarrow-x' is required, got nothing", "pyarrow-x 20 is not named"],
        ),
        (
            {"Numpy": "1.9", "pyarrow_x": "20"},
            ["'numpy>=2' is required, got 1.9", "numpy 2.1 is not named"],
        ),
        ({"Numpy": "2.1", "pyarrow_x": "20", "pip": "26"}, ["pip is not installed"]),
    ],
)
def test_differences__lists_the_missing_entries_of_a_bill(
    components: dict[str, str], wrong: list[str]
) -> None:
    bill = {
        "metadata": {"component": {"name": "mslm-data", "version": "1.2"}},
        "components": [{"name": name, "version": version} for name, version in components.items()],
    }
    installed = {"mslm-data": "1.2", "numpy": "2.1", "pyarrow-x": "20"}

    found = release.bill_problems(bill, installed, map(Requirement, ["numpy>=2", "pyarrow-x"]))

    assert found == wrong
