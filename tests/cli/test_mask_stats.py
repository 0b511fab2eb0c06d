from __future__ import annotations

import functools
import json
import math
import shutil
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
import tokenizers

import mslm_data as md
from mslm_data.io import resources
from mslm_data.mask.table import default_options
from mslm_data.stats import released_weights
from mslm_data.stats.counts import MaskStats
from tests.cli.running import run

KEYS = {
    "split", "strategy", "elm", "blm", "seed", "epochs", "sequences", "tokens", "maskable_tokens", "mentions",
    "mention_tokens", "masked_mentions", "n_elm", "n_blm", "w_elm_raw", "w_blm_raw", "w_elm_clipped", "w_blm_clipped",
    "w_elm", "w_blm",
}  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    run("build", "--source", "blurb/jnlpba", "--sample", "--out", out)
    return out


def test_mask_stats__json_has_the_documented_keys(built: Path) -> None:
    done = run("mask-stats", built, "--json")

    assert done.code == 0
    assert set(done.json) >= KEYS
    assert (done.json["split"], done.json["strategy"], done.json["elm"], done.json["blm"]) == (
        "train",
        "joint",
        0.5,
        0.15,
    )


def test_help__lists_the_default_rates_of_joint() -> None:
    shown = " ".join(run("mask-stats", "--help").out.split())

    for name in ("elm", "blm"):
        assert f"[default: the strategy's; joint: {default_options('joint')[name]}]" in shown


def test_mask_stats__shows_each_label_and_both_length_groups(built: Path) -> None:
    done = run("mask-stats", built)

    for word in (
        "protein",
        "DNA",
        "RNA",
        "cell_line",
        "cell_type",
        "shorter than",
        "longer than",
        "Eq. 5",
    ):
        assert word in done.out


def test_mask_stats__warns_about_weights_without_information(built: Path) -> None:
    saturated = run("mask-stats", built, "--strategy", "joint-paper", "--json")
    other = run("mask-stats", built, "--elm", "0.25", "--blm", "0.225", "--json")

    assert saturated.json["saturated"]
    assert (saturated.json["w_elm"], saturated.json["w_blm"]) == (0.5, 0.5)
    assert "warning" in saturated.err
    assert not other.json["saturated"]
    assert other.err == ""


def test_mask_stats__shows_effective_shares_beside_the_rates(built: Path) -> None:
    words = ("mask-stats", built, "--elm", "0.1", "--blm", "0.15", "--epochs", "2")
    stats = run(*words, "--json").json
    shown = " ".join(run(*words).out.split())

    # At least one mention of each row is masked, and most rows have few mentions.
    elm = stats["masked_mentions"] / (2 * stats["mentions"])
    blm = stats["n_blm"] / (2 * stats["maskable_tokens"])
    assert (stats["realised_elm"], stats["effective_blm"]) == (elm, blm)
    assert elm > 0.2
    assert f"ELM 10.00% {elm:.2%} of the mentions BLM 15.00% {blm:.2%} of the tokens" in shown
    assert "each row's budget is rounded up" in shown
    assert stats["rates"] == [
        {"name": "elm", "asked": 0.1, "masked": elm, "of": "mentions"},
        {"name": "blm", "asked": 0.15, "masked": blm, "of": "tokens"},
    ]
    assert "rounded up" not in run("mask-stats", built, "--elm", "1", "--blm", "0").out
    assert "of the mentions" not in run("mask-stats", built, "--strategy", "span").out


def test_mask_stats__shows_effective_share_beside_any_rate(built: Path) -> None:
    varying = '{shape = "uniform", start = 0.1, stop = 0.3}'
    token = run("mask-stats", built, "--strategy", "token", "--set", "rate=0.2")
    varies = run("mask-stats", built, "--strategy", "token", "--set", f"rate={varying}")
    elm = run("mask-stats", built, "--strategy", "elm", "--elm", "0.5", "--json").json
    stats = run("mask-stats", built, "--strategy", "token", "--set", "rate=0.2", "--json").json

    masked = stats["masked_tokens"] / stats["maskable_tokens"]
    assert token.out.startswith("train, strategy token: rate 0.2, seed 0, epochs 1\n")
    assert f"rate 20.00% {masked:.2%} of the tokens" in " ".join(token.out.split())
    assert "rate varies" in " ".join(varies.out.split())
    assert [(rate["name"], rate["asked"]) for rate in elm["rates"]] == [("elm", 0.5)]


def test_mask_stats__warns_when_there_are_no_mentions_to_mask(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("Aspirin helps with a headache.\n")
    md.build(
        "text",
        input=tmp_path / "train.txt",
        tokenizer=resources.path("vocab", "sample") / "vocab.txt",
        out=tmp_path / "out",
    )

    joint = run("mask-stats", tmp_path / "out", "--json")
    token = run("mask-stats", tmp_path / "out", "--strategy", "token")

    assert joint.json["mentions"] == 0
    assert "warning: the strategy masks mentions, but no row has a mention" in joint.err
    assert token.err == ""


def test_mask_stats__warns_when_all_tokens_are_masked(built: Path) -> None:
    done = run("mask-stats", built, "--elm", "1", "--blm", "1")
    other = run("mask-stats", built, "--elm", "1", "--blm", "0.9")

    assert "warning: every token is masked" in done.err
    assert "every token" not in other.err


def test_mask_stats__warns_when_a_limit_keeps_rows_below_the_rate(built: Path) -> None:
    bert = ("mask-stats", built, "--strategy", "bert")
    limited = run(*bert, "--set", "max_masked=2")
    unlimited = run(*bert, "--set", "max_masked=0")
    usual = run(*bert)

    assert "rows reach the limit of 2 masked tokens, so" in limited.err
    assert "instead of 15.00%" in limited.err
    assert unlimited.err == usual.err == ""


def test_mask_stats__reports_the_rates_of_other_strategies(built: Path) -> None:
    elm = run("mask-stats", built, "--strategy", "elm", "--elm", "0.5", "--json").json
    blm = run(
        "mask-stats",
        built,
        "--strategy",
        "blm",
        "--blm",
        "0.2",
        "--set",
        "count=bernoulli",
        "--json",
    ).json

    assert (elm["elm"], elm["blm"], elm["n_blm"]) == (0.5, 0.0, 0)
    assert (blm["elm"], blm["blm"], blm["n_elm"]) == (0.0, 0.2, 0)


WRONG = [
    (["--strategy", "jont"], "did you mean 'joint'?"),
    (["--set", "elm=1.5"], "expected `float` <= 1.0 for option"),
    (["--split", "dev"], "no split 'dev'"),
    (["--set", "cont=1"], "did you mean 'count'?"),
    (["--strategy", "elm", "--blm", "0.1"], "unknown option 'blm'"),
]


@pytest.mark.parametrize(("words", "expected"), WRONG)
def test_mask_stats__invalid_options_exit_with_1(
    built: Path, words: list[str], expected: str
) -> None:
    done = run("mask-stats", built, *words)

    assert done.code == 1
    assert expected in done.err


def test_mask_stats__rejects_a_folder_that_is_not_built(tmp_path: Path) -> None:
    done = run("mask-stats", tmp_path)

    assert done.code == 1
    assert f"{tmp_path}: no manifest.json found" in done.err


NEW_KEYS = {
    "saturated", "masked_tokens", "realised_rate", "realised_elm", "effective_blm", "rows_under_budget", "rows_without_mask", "share_in_mentions",
    "mentions_whole", "mentions_partly", "mentions_untouched", "mean_run_length", "run_lengths", "masked_per_row",
    "owing_per_row", "rate_per_row", "masked_words", "masked_word_types", "masked_word_entropy", "digest", "weights",
    "chosen_weights", "labels", "lengths", "mean_words", "rates",
}  # fmt: skip


def test_mask_stats__json_has_totals_of_masked_tokens(built: Path) -> None:
    stats = run("mask-stats", built, "--elm", "1", "--epochs", "2", "--json").json

    assert set(stats) == KEYS | NEW_KEYS
    assert {field.name for field in fields(MaskStats)} - {"shorter", "longer"} <= set(stats)
    assert stats["masked_tokens"] == stats["n_elm"] + stats["n_blm"]
    assert stats["realised_rate"] == pytest.approx(
        stats["masked_tokens"] / stats["maskable_tokens"] / 2
    )
    assert sum(stats["masked_per_row"]) == 2 * stats["sequences"]
    assert stats["mentions_whole"] == 2 * stats["mentions"]
    assert len(stats["digest"]) == 64


def test_mask_stats__prints_all_weights_and_marks_the_selected_one(built: Path) -> None:
    stats = run("mask-stats", built, "--weights", "released", "--json").json
    shown = run("mask-stats", built, "--weights", "released")

    assert list(stats["weights"]) == ["paper", "released"]
    assert stats["weights"]["paper"] == {"w_elm": stats["w_elm"], "w_blm": stats["w_blm"]}
    assert stats["chosen_weights"] == {"scheme": "released", **stats["weights"]["released"]}
    assert "released *" in shown.out


def test_mask_stats__sweep_uses_the_grid_of_the_paper(built: Path) -> None:
    done = run("mask-stats", built, "--strategy", "joint-paper", "--sweep", "--json")
    shown = run("mask-stats", built, "--sweep")
    points = done.json["sweep"]

    assert [(point["elm"], point["blm"]) for point in points] == [
        (elm, blm) for elm in (0.25, 0.5, 0.75, 1) for blm in (0, 0.075, 0.15, 0.225)
    ]
    (headline,) = [point for point in points if (point["elm"], point["blm"]) == (1, 0.075)]
    for key in (
        "n_elm", "n_blm", "w_elm", "w_blm", "realised_rate", "realised_elm", "effective_blm",
        "saturated",
    ):  # fmt: skip
        assert headline[key] == done.json[key]
    for side in ("shorter", "longer"):
        assert headline[side].items() >= done.json["lengths"][side].items()
    assert all(point["saturated"] for point in points if point["blm"] == 0)
    clipped = sum(point["saturated"] for point in points)
    assert f"at {clipped} of 16 pairs of rates both clips of Eq. 3 fire" in shown.out


def test_mask_stats__sweep_uses_the_given_weights(built: Path) -> None:
    points = run("mask-stats", built, "--sweep", "--weights", "released", "--json").json["sweep"]

    for point in points[1:4]:
        weights = released_weights(point["n_elm"], point["n_blm"])
        assert (point["w_elm"], point["w_blm"]) == weights


def test_mask_stats__lists_top_words(built: Path) -> None:
    done = run("mask-stats", built, "--top-words", "3", "--json")
    shown = run("mask-stats", built, "--top-words", "3")
    words = done.json["top_words"]

    assert len(words) == 3
    assert words[0]["masked"] >= words[1]["masked"] >= words[2]["masked"] > 0
    assert all(word["masked"] <= word["occurrences"] for word in words)
    assert all(word["word"] in shown.out for word in words)
    assert "occurrences" not in run("mask-stats", built).out


def test_mask_stats__shows_patients_text_only_on_request(notes: Path) -> None:
    words = ("mask-stats", notes, "--top-words", "5")
    refused = run(*words)

    assert refused.code == 1
    assert "holds patients' text, which --top-words shows; pass --show-text to see" in refused.err
    assert refused.out == ""
    assert run(*words, "--show-text").code == 0
    assert run("mask-stats", notes).code == 0


@pytest.fixture(scope="module")
def notes(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder, marked as patients' text."""
    out = tmp_path_factory.mktemp("notes") / "built"
    shutil.copytree(built, out)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["about"]["protected"] = True
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


WRONG_CALLS = [
    (
        ["--strategy", "joint", "--strategy", "elm"],
        "--strategy: expected one, got 2; `mslm-data look` shows several",
    ),
    (["--weights", "fixed"], "'fixed' is not one of 'paper', 'released'"),
    (
        ["--strategy", "blm", "--sweep"],
        "--sweep: expected a strategy with the options elm and blm, got 'blm'",
    ),
    (["--elm", "1.5"], "Invalid value for '--elm': 1.5 is not in the range 0<=x<=1"),
    (["--elm", "0.5", "--set", "elm=0.3"], "--set elm: cannot be combined with --elm"),
    (["--seed", str(2**63)], "9223372036854775808 is not in the range"),
    (["--set", "jont.elm=0.5"], "got one of 'jont'; did you mean 'joint'?"),
    (
        ["--set", "corruption.by=word"],
        "--set: expected an option of joint, got one of 'corruption'",
    ),
]


@pytest.mark.parametrize(("words", "expected"), WRONG_CALLS)
def test_mask_stats__invalid_calls_exit_with_2(
    built: Path, words: list[str], expected: str
) -> None:
    done = run("mask-stats", built, *words)

    assert done.code == 2
    assert expected in done.err


@pytest.mark.parametrize("command", ["mask-stats", "inspect"])
@pytest.mark.parametrize(
    "words",
    [
        ("blm", "blm={shape = 'linear', start = 0.3, stop = 0.1, over = 10, per = 'step'}"),
        ("blm", "blm={shape = 'linear', start = 0.3, stop = 0.1, over = 10, per = 'tokens'}"),
        ("curriculum", "steps=[5]", "parts=[{use = 'elm'}, {use = 'blm'}]"),
        ("curriculum", "tokens=[5]", "parts=[{use = 'elm'}, {use = 'blm'}]"),
    ],
)
def test_mask_stats__rejects_masks_that_depend_on_the_training_step(
    built: Path, command: str, words: tuple[str, ...]
) -> None:
    name, *sets = words
    done = run(command, built, "--strategy", name, *(w for s in sets for w in ("--set", s)))

    assert done.code == 1
    assert (
        f"strategy '{name}': its masks depend on the training step or on the tokens seen, which a "
        "command does not know; set a rate to a number"
    ) in done.err


class Row(NamedTuple):
    """A sentence of a corpus, counted from its file with the tokenizer alone."""

    tokens: int
    mentions: int
    mention_tokens: int


@pytest.mark.parametrize("corpus", ["NCBI-disease", "BC2GM", "BC5CDR-chem", "BC5CDR-disease"])
@pytest.mark.parametrize(("elm", "blm"), [("1.0", "0.075"), ("0.25", "0.15")])
def test_mask_stats__equals_an_independent_count(
    corpus: str, elm: str, blm: str, real: Path, real_builds: Path
) -> None:
    """The reference counts masked tokens from the corpus file, without their positions."""
    words = ("mask-stats", real_builds / corpus.lower(), "--elm", elm, "--blm", blm, "--json")
    stats = run(*words).json

    rows = _rows_of_file(real, corpus)
    expected = {
        "sequences": len(rows),
        "maskable_tokens": sum(row.tokens for row in rows),
        "mentions": sum(row.mentions for row in rows),
        "mention_tokens": sum(row.mention_tokens for row in rows),
        "masked_mentions": sum(math.ceil(Fraction(elm) * row.mentions) for row in rows),
    }
    assert {name: stats[name] for name in expected} == expected
    assert stats["tokens"] == expected["maskable_tokens"] + 2 * expected["sequences"]
    if elm == "1.0":
        n_blm = sum(
            min(math.ceil(Fraction(blm) * row.tokens), row.tokens - row.mention_tokens)
            for row in rows
        )
        assert (stats["n_elm"], stats["n_blm"]) == (expected["mention_tokens"], n_blm)


@functools.cache
def _rows_of_file(real: Path, corpus: str) -> list[Row]:
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece.from_file(str(_vocab(real)), unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    pieces = functools.cache(lambda word: len(tokenizer.encode(word).ids))

    file = real / "blurb" / f"{corpus}-IOB" / "train.tsv"
    text = file.read_text(encoding="utf-8").replace("\r", "").strip("\n")
    rows = []
    for sentence in text.split("\n\n"):
        lines = [line.split("\t") for line in sentence.strip("\n").split("\n")]
        rows.append(
            Row(
                tokens=sum(pieces(word) for word, _ in lines),
                mentions=sum(tag.startswith("B") for _, tag in lines),
                mention_tokens=sum(pieces(word) for word, tag in lines if tag != "O"),
            )
        )
    return rows


def _vocab(real: Path) -> Path:
    return real / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt"


@pytest.fixture(scope="module")
def real_builds(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("real")
    for corpus in ("NCBI-disease", "BC2GM", "BC5CDR-chem", "BC5CDR-disease"):
        done = run(
            "build", "--source", f"blurb/{corpus.lower()}", "--input", real / "blurb" / f"{corpus}-IOB" / "train.tsv",
            "--tokenizer", _vocab(real), "--out", out / corpus.lower(),
        )  # fmt: skip
        assert done.code == 0
    return out
