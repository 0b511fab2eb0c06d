from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

import mslm_data as md
from mslm_data.annotate import ANNOTATORS
from mslm_data.api.building import read_named
from mslm_data.cli import COMMANDS
from mslm_data.io import resources
from mslm_data.registry import Registry, from_options, list_options
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES
from tests.cli.running import run
from tests.made import SAMPLE


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    run("build", "--source", "blurb/bc5cdr-chem", "--sample", "--out", out)
    return out


VOCABULARY = str(SAMPLE / "vocab.txt")
HEAVY = (
    "numpy",
    "numba",
    "pyarrow",
    "tokenizers",
    "rich",
    "datasets",
    "torch",
    "spacy",
    "requests",
    "fsspec",
)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
)
def test_help__imports_nothing_heavy(words: list[str]) -> None:
    script = f"import sys; from mslm_data.cli import main; main({words!r}); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout
    assert not set(HEAVY) & set(done.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        ["mask-stats", ""],
        ["inspect", ""],
        ["export", "", "--out", "o"],
        ["build", "--source", "conll", "--tokenizer", "v", "--input", "corpus", "--out", ""],
        ["build", "--source", "conll", "--tokenizer", VOCABULARY, "--input", "", "--out", "o"],
        ["vocab", "anchors", "d", "--general", ""],
        ["vocab", "scores", "attention", "d", "--encoder", ""],
    ],
)
def test_main__unset_variable_does_not_mean_the_current_folder(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = run(*words)

    assert done.code in (1, 2)
    assert "is a shell variable unset?" in " ".join(done.err.split())
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("mslm-data ver", "plain,verify"),
        ("mslm-data mask-stats --swee", "plain,--sweep"),
        ("mslm-data vocab pm", "plain,pmi"),
    ],
)
def test_main__completes_shell_words(
    line: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = line.split()
    monkeypatch.setenv("_MSLM_DATA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))

    done = run()

    assert (done.code, done.out, done.err) == (0, f"{answer}\n", "")


def test_import_package__imports_nothing_heavy() -> None:
    script = "import sys, mslm_data; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert not set(HEAVY) & set(done.stdout.split())


def test_help__lists_all_commands() -> None:
    done = run("--help")

    assert done.code == 0
    assert all(command in done.out for command in COMMANDS)


def test_recipes__lists_and_prints_pipelines() -> None:
    listed = run("recipes")
    printed = run("recipes", "blurb/bc2gm")

    assert listed.out.split() == resources.pipeline_names()
    assert printed.out == resources.path("pipelines", "blurb/bc2gm.toml").read_text(
        encoding="utf-8"
    )
    assert run("recipes", "--json").json["recipes"] == resources.pipeline_names()
    assert "did you mean 'blurb/bc2gm'?" in run("recipes", "blurb/bc2").err


@pytest.mark.parametrize("name", resources.pipeline_names())
def test_recipes__commands_of_a_pipeline_list_their_requirements(name: str) -> None:
    lines = run("recipes", name).out.splitlines()
    commands = [line for line in lines if line.startswith("#     mslm-data build")]

    assert commands
    assert all("--tokenizer " in command or "--sample " in command for command in commands)


def test_recipes__lists_sources_with_their_files() -> None:
    listed = run("recipes", "--sources")
    sources = run("recipes", "--sources", "--json").json["sources"]

    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == SOURCES.names()
    assert list(sources) == SOURCES.names()
    assert sources["conllu"]["files"] == [".conllu", ".conllup"]
    assert sources["conllu"]["reads"] in listed.out


@pytest.mark.parametrize("name", SOURCES.names())
def test_recipes__prints_a_source_as_a_pipeline_file(name: str, tmp_path: Path) -> None:
    text = run("recipes", "--sources", name).out
    options = run("recipes", "--sources", name, "--json").json["options"]

    given = read_named(name)
    file = tmp_path / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    assert read_named(file) == given

    # The same pipeline with the commented options at their defaults.
    file.write_text(re.sub(r"(?m)^# (\w+ = \S.*)$", r"\1", text), encoding="utf-8")
    pipeline = read_named(file)
    with_options = pipeline.source
    shared = {"max_loss", "duplicates", "duplicate_similarity", "decontaminate", "on_crash"}
    assert msgspec.structs.replace(pipeline, source=given.source) == given
    is_set = {option for option, about in options.items() if about["default"] is not None}
    assert {*with_options.options, *shared} == is_set
    assert from_options(SOURCES.load(name), with_options.options, where="") == SOURCES.load(name)()


@pytest.mark.parametrize(
    ("option", "stage", "registry", "shared"),
    [
        (
            "--annotators",
            "annotate",
            ANNOTATORS,
            {"labels", "rename", "context", "leave_out_context"},
        ),
        ("--segmenters", "segment", SEGMENTERS, set()),
    ],
)
def test_recipes__lists_and_prints_annotators_and_segmenters(
    option: str, stage: str, registry: Registry, shared: set[str]
) -> None:
    listed = run("recipes", option).out.splitlines()[1:]

    assert [line.split()[0] for line in listed] == registry.names()
    for name in registry.names():
        text = run("recipes", option, name).out
        with_defaults = re.sub(r"(?m)^# (\w+ = \S.*)$", r"\1", text)
        declared = {option.name: option.default for option in list_options(registry.load(name))}
        about = run("recipes", option, name, "--json").json

        assert tomllib.loads(text) == {stage: {"use": name}}
        table = tomllib.loads(with_defaults)[stage]
        set_by_default = {option for option, default in declared.items() if default is not None}
        assert table.keys() == {"use", *set_by_default, *shared}
        assert about[registry.kind] == name
        assert about["options"].keys() == {*declared, *shared}
        assert all(described["help"] for described in about["options"].values())
        assert registry.load(name).__doc__.partition("\n")[0] in about["text"]


def test_recipes__rejects_sources_and_strategies_together() -> None:
    assert run("recipes", "--sources", "--strategies").code == 2
    assert run("recipes", "--sources", "jsonl", "--input", "x").code == 2
    assert "expected `recipes --sources doccano`" in run("recipes", "doccano").err
    assert "expected `recipes --strategies joint`" in run("recipes", "joint").err
    assert "expected `recipes --annotators terms`" in run("recipes", "terms").err
    assert "expected `recipes --segmenters whole`" in run("recipes", "whole").err
    assert "did you mean 'doccano'?" in run("recipes", "--sources", "docano").err


def test_recipes__lists_strategies_with_their_papers() -> None:
    done = run("recipes", "--strategies")
    listed = run("recipes", "--strategies", "--json").json["strategies"]

    for name, summary in md.strategies().items():
        (line,) = [line for line in done.out.splitlines() if line.split()[0] == name]
        assert all(part in line for part in summary)
    assert listed == {
        name: {"hides": summary.masks, "status": summary.status, "source": summary.source}
        for name, summary in md.strategies().items()
    }


@pytest.mark.parametrize("name", md.strategies())
def test_recipes__prints_a_strategy_as_a_file(name: str, tmp_path: Path) -> None:
    done = run("recipes", "--strategies", name)
    file = tmp_path / "mask.toml"
    file.write_text(done.out, encoding="utf-8")

    assert done.code == 0
    assert done.out.startswith(f"# {name}: ")
    assert "<factory>" not in done.out
    assert (
        repr(md.strategy(str(file))) == run("recipes", "--strategies", name, "--json").json["toml"]
    )


def test_recipes__comments_give_the_strategy_by_name() -> None:
    text = run("recipes", "--strategies", "selective").out

    commented = text.partition("# [mask]\n")[2].partition("#\n")[0]
    lines = [line.removeprefix("# ") for line in commented.splitlines()]
    table = tomllib.loads("\n".join(lines))
    assert table.pop("use") == "selective.v1"
    assert repr(md.strategy("selective", **table)) == repr(md.strategy("selective"))


def test_recipes__explains_a_system_without_masking() -> None:
    done = run("recipes", "--strategies", "ptw")

    assert done.code == 1
    assert "'ptw' is not a text-masking strategy" in done.err


def test_verify__detects_a_flipped_bit(built: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(built, damaged)
    shard = next((damaged / "train").glob("*.arrow"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.write_bytes(data)

    whole, broken = run("verify", built, "--json"), run("verify", damaged, "--json")

    assert (whole.code, whole.json["ok"], whole.json["problems"]) == (0, True, [])
    assert broken.code == 1
    assert not broken.json["ok"]
    assert "train/data-00000-of-00001.arrow" in broken.json["problems"][0]["place"]
    assert ": 1 problem\n" in run("verify", damaged).out


def test_inspect__marks_mentions_and_masks(built: Path) -> None:
    done = run(
        "inspect", built, "--start", "6", "--rows", "1", "--strategy", "joint", "--strategy", "elm"
    )

    assert done.code == 0
    assert "{[[baclofen]]}Chemical" in done.out
    assert done.out.count("joint:") == done.out.count("elm:") == 1
    assert (
        "{mention}label   [[masked as a term (ELM)]]   <masked as another word (BLM)>" in done.out
    )
    assert "agreement" not in done.out


def test_inspect__shows_ids_as_they_are(tmp_path: Path) -> None:
    entity = {"start": 2, "end": 6, "label": "Disease"}
    # :x: is the name of an emoji.
    documents = [{"id": "note:x:1", "text": "a cold", "entities": [entity]}]
    md.build(documents=documents, tokenizer=VOCABULARY, out=tmp_path / "out", workers=1)

    assert "train 0  note:x:1\n" in run("inspect", tmp_path / "out").out


def test_inspect__json_has_tokens_mentions_and_kinds(built: Path) -> None:
    row = run("inspect", built, "--start", "6", "--rows", "1", "--json").json["rows"][0]

    (mention,) = row["mentions"]
    assert row["tokens"][0] == "[CLS]"
    assert set(row["masks"]["joint"][mention["start"] : mention["end"]]) == {2}
    assert len(row["masks"]["joint"]) == len(row["tokens"])


def test_inspect__reports_rates_beside_the_masked_shares_of_the_rows(built: Path) -> None:
    """The expected shares follow from the kinds and mentions of two rows."""
    words = ("inspect", built, "--rows", "2", "--start", "6", "--elm", "0.1", "--blm", "0.3")
    found = run(*words, "--json").json
    shown = " ".join(run(*words).out.split())

    whole = tokens = base = 0
    for row in found["rows"]:
        kinds = row["masks"]["joint"]
        mentions = [kinds[mention["start"] : mention["end"]] for mention in row["mentions"]]
        whole += sum(set(of) == {2} for of in mentions)
        tokens += len(kinds) - 2
        base += kinds.count(1)
    mentions = sum(len(row["mentions"]) for row in found["rows"])
    assert found["rates"] == {
        "joint": [
            {"name": "elm", "asked": 0.1, "masked": whole / mentions, "of": "mentions"},
            {"name": "blm", "asked": 0.3, "masked": base / tokens, "of": "tokens"},
        ]
    }
    assert f"joint ELM 10.00% {whole / mentions:.2%} of the mentions" in shown
    assert f"joint BLM 30.00% {base / tokens:.2%} of the tokens" in shown


def test_inspect__warns_when_all_tokens_are_masked(built: Path) -> None:
    done = run("inspect", built, "--rows", "2", "--elm", "1", "--blm", "1")

    assert (done.code, done.out[:5]) == (0, "train")
    assert done.err.startswith(
        "warning: joint: every token is masked, so the model sees no context"
    )
    assert run("inspect", built, "--rows", "2").err == ""


def test_inspect__rejects_an_epoch_out_of_range(built: Path) -> None:
    done = run("inspect", built, "--epoch", 2**63)

    assert done.code == 2
    assert "--epoch" in done.err


def test_inspect__rejects_a_start_past_the_end(built: Path) -> None:
    rows = len(md.load(built)["train"])

    done = run("inspect", built, "--start", rows)

    assert done.code == 2
    assert (
        f"--start: expected a row below {rows}, the number of rows of 'train', got {rows}"
        in done.err
    )
    assert run("inspect", built, "--start", rows - 1).out


@pytest.mark.parametrize("words", [("inspect",), ("mask-stats", "--top-words", "3")])
def test_load_tokenizer__commands_name_an_unreadable_tokenizer(
    words: tuple[str, ...], built: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(built, folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()

    done = run(words[0], folder, *words[1:])

    assert done.code == 1
    assert f"{folder / 'tokenizer.json'}: Is a directory" in done.err


def test_inspect__requires_a_flag_for_patients_text(built: Path, tmp_path: Path) -> None:
    words = (
        "build",
        "--source",
        "blurb/bc5cdr-chem",
        "--sample",
        "--out",
        tmp_path,
        "--set",
        "about.protected=true",
    )
    run(*words)

    refused = run("inspect", tmp_path, "--start", "6", "--rows", "1")
    shown = run("inspect", tmp_path, "--start", "6", "--rows", "1", "--show-text")

    assert refused.code == 1
    assert "--show-text" in refused.err
    assert "baclofen" not in refused.out + refused.err
    assert "baclofen" in shown.out
    assert "Patients' text" in (tmp_path / "README.md").read_text()


def test_main__unexpected_error_shows_no_text(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    from mslm_data.builds import verify

    def fails(_: Path) -> None:
        raise KeyError("Zebulonkanarie")

    monkeypatch.setattr(verify, "verify", fails)

    done = run("verify", built)

    assert done.code == 1
    assert "KeyError in" in done.err
    assert "Zebulonkanarie" not in done.err
    with pytest.raises(KeyError):
        run("--debug", "verify", built)
