from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filelock import FileLock

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from experiments import encoder, jobs, lines, masks, plan, run, scores, training  # noqa: E402
from experiments.lines import Run  # noqa: E402
from experiments.plan import Step  # noqa: E402
from experiments.queue import Queue  # noqa: E402
from mslm_data.torch import MslmModel, evaluate  # noqa: E402
from tests.torch.second_device import second_device  # noqa: E402

pytestmark = pytest.mark.long


if TYPE_CHECKING:
    from experiments.corpora import Cache

QUICK = {"epochs": 1, "batch_size": 16, "rate": 1e-3}


def ner(arm: str = "plain", *, seed: int = 0, **options: Any) -> Run:
    about = {"views": "plain", "adapted": "", "scored": "test", **QUICK, **options}
    return Run(task="ner", corpus="NCBI-disease", arm=arm, seed=seed, options=about)


TWO = ner("two", views="two", masks="joint", weights=[0.5, 0.5])
ADAPTED = ner("adapted", adapted="joint")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train heads and adaptations for one epoch."""
    monkeypatch.setattr(encoder, "TOGETHER", training.Schedule(epochs=1, batch_size=32, rate=1e-3))
    monkeypatch.setattr(plan, "ADAPTATION", {**QUICK, "dropout": False})
    monkeypatch.setitem(plan.CLASSIFIER, "ACL-ARC", QUICK)


@pytest.mark.long
def test_main__resumes_without_repeating_runs(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    steps = [Step(run=one) for one in (ner(), TWO, ner(), ADAPTED)]
    options = ["joint", "--cache", str(cache.folder), "--encoder", str(cache.encoder)]
    options += ["--results", str(tmp_path)]

    monkeypatch.setitem(run.QUESTIONS, "joint", lambda _: iter(steps[:1]))
    assert run.main(options) == 0
    first = (tmp_path / "ner.jsonl").read_text()
    monkeypatch.setitem(run.QUESTIONS, "joint", lambda _: iter(steps))
    assert run.main(options) == 0
    whole = (tmp_path / "ner.jsonl").read_text()
    monkeypatch.setattr(jobs, "do", None)  # a call raises
    assert run.main(options) == 0

    assert whole.startswith(first)
    assert (tmp_path / "ner.jsonl").read_text() == whole
    made = [json.loads(line) for line in whole.splitlines()]
    assert [line["run"]["arm"] for line in made] == ["plain", "two", "adapted"]
    assert len({line["start"] for line in made}) == 1
    assert all(line["about"]["data"].startswith("the shipped samples") for line in made)
    assert str(tmp_path) not in whole
    assert run.main([*options, "--list"]) == 0
    assert "3 of 3 runs are done" in capsys.readouterr().out


def queue(
    steps: list[Step], folder: Path, monkeypatch: pytest.MonkeyPatch, *, start: str = "a"
) -> Queue:
    monkeypatch.setitem(run.QUESTIONS, "joint", lambda _: iter(steps))
    return Queue(
        names=["joint"],
        questions=run.QUESTIONS,
        wanted=lambda _: True,
        results=folder,
        start=start,
        locks=folder / "locks",
    )


def test_queue__gives_each_run_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = queue([Step(run=ner()), Step(run=TWO, against=(ner(),))], tmp_path, monkeypatch)

    first, second = works.take(), works.take()
    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == (ner(), TWO)
    assert works.take() is None

    with first[1]:
        pass  # ends without a line, like a killed process
    again = works.take()
    assert again is not None
    assert again[0] == ner()
    lines.append(ner(), {"scores": {}, "start": "a"}, tmp_path)
    with again[1], second[1]:
        pass
    third = works.take()
    assert third is not None
    assert third[0] == TWO
    assert not works.done()
    lines.append(TWO, {"scores": {}, "start": "a"}, tmp_path)
    assert works.done()
    with third[1]:
        assert works.take() is None


def test_queue__gives_needed_runs_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = ner(scored="validation")
    works = queue([Step(run=tried), Step(run=TWO, needs=(tried,))], tmp_path, monkeypatch)

    first = works.take()
    assert first is not None
    assert first[0] == tried
    assert works.take() is None
    lines.append(tried, {"scores": {}, "start": "a"}, tmp_path)
    second = works.take()
    assert second is not None
    assert second[0] == TWO


def test_queue__skips_a_run_that_ends_during_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = queue([Step(run=ner()), Step(run=TWO)], tmp_path, monkeypatch)
    acquire = FileLock.acquire

    def ended(lock: FileLock, **options: Any) -> Any:
        if not lines.read(tmp_path):
            lines.append(ner(), {"scores": {}, "start": "a"}, tmp_path)
        return acquire(lock, **options)

    monkeypatch.setattr(FileLock, "acquire", ended)

    taken = works.take()
    assert taken is not None
    assert taken[0] == TWO


def test_main__waits_for_runs_of_another_process(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = queue([Step(run=ner())], tmp_path, monkeypatch)
    locks = cache.folder / "locks"
    start = encoder.digest(encoder.with_head(cache))
    taken = replace(other, locks=locks, start=start).take()
    assert taken is not None

    def end(seconds: float) -> None:
        assert seconds == run.WAIT_S
        lines.append(ner(), {"scores": {}, "start": start}, tmp_path)

    monkeypatch.setattr(run.time, "sleep", end)
    options = ["joint", "--cache", str(cache.folder), "--encoder", str(cache.encoder)]
    with taken[1]:
        assert run.main([*options, "--results", str(tmp_path)]) == 0

    assert len(lines.read(tmp_path)) == 1


def test_main__stops_before_a_run_that_would_end_late(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    steps = [Step(run=ner(seed=seed)) for seed in (1, 2)]
    monkeypatch.setitem(run.QUESTIONS, "joint", lambda _: iter(steps))
    options = ["joint", "--cache", str(cache.folder), "--encoder", str(cache.encoder)]

    # The first run has no previous time to judge by; the second would take as long as the first.
    assert run.main([*options, "--results", str(tmp_path), "--hours", "0.0000001"]) == 0

    assert len(lines.read(tmp_path)) <= 1
    assert "would not end in time" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["jiont"], "got jiont"),
        (["joint", "--corpora", "NCBI"], "--corpora: expected NCBI-disease, BC5CDR-chem, BC2GM, "),
        (["--seeds", "0"], "--seeds: expected a number of 1 or more, got '0'"),
        (["--seeds", "two"], "--seeds: expected a number of 1 or more, got 'two'"),
        (["--hours", "0"], "--hours: expected hours above 0, got '0'"),
        (["--hours", "soon"], "--hours: expected hours above 0, got 'soon'"),
        (["--encoder", "nowhere"], "--encoder: expected the folder of an encoder, with its config"),
    ],
)
def test_main__rejects_unknown_names_and_bad_values(
    options: list[str], expected: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        run.main([*options, "--list"])

    assert expected in capsys.readouterr().err


def test_main__rejects_weights_outside_safetensors(
    encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Their digest is that of no file, so all such encoders would share a head."""
    shutil.copyfile(encoder_folder / "config.json", tmp_path / "config.json")
    (tmp_path / "pytorch_model.bin").touch()

    with pytest.raises(SystemExit):
        run.main(["--encoder", str(tmp_path), "--list"])

    assert "--encoder: expected weights as .safetensors, found none" in capsys.readouterr().err


@pytest.fixture
def own(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the options of a small comparison on a user's folder."""
    arms = {name: replace(plan.JOINT[name], epochs=1) for name in ("plain", "two views, joint")}
    monkeypatch.setitem(plan.ARMS, "joint", arms)
    monkeypatch.setattr(plan, "RATES", (1e-3,))
    monkeypatch.setattr(plan, "TRIED_SEEDS", (100,))
    folders = {
        "--shards": cache.ner("NCBI-disease").folder,
        "--encoder": cache.encoder,
        "--cache": tmp_path / "cache",
        "--results": tmp_path / "lines",
    }
    return [str(word) for option in folders.items() for word in option]


def test_main__compares_arms_on_a_users_corpus(
    own: list[str], cache: Cache, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = Path(str(cache.ner("NCBI-disease").folder))
    before = sorted(path.name for path in folder.parent.iterdir())

    assert run.main(["joint", "--seeds", "1", *own, "--list"]) == 0
    assert "no two arms can be compared yet" in capsys.readouterr().out
    assert run.main(["joint", "--seeds", "1", *own]) == 0

    said = capsys.readouterr().out
    assert "| two views, joint | 1 |" in said
    assert "*two views, joint* cannot be judged yet against plain fine-tuning" in said
    made = lines.read(tmp_path / "lines")
    assert [line["run"]["options"]["scored"] for line in made] == ["validation", "test"] * 2
    assert {line["run"]["options"]["build"] for line in made} == {
        cache.ner("NCBI-disease").manifest.plan[:16]
    }
    assert sorted(path.name for path in folder.parent.iterdir()) == before

    assert run.main(["joint", "--seeds", "1", *own, "--list"]) == 0
    again = capsys.readouterr().out
    assert "4 of 4 runs are done" in again
    assert said[said.index("## joint") :] in again


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["tasks"], "expected joint, weights, rates, got tasks"),
        (["--corpora", "NCBI-disease"], "--corpora: expected none with --shards"),
        (["--results", str(lines.RESULTS)], "--results: expected a folder for the lines of your"),
        (["--shards", "nowhere"], "nowhere"),
    ],
)
def test_main__rejects_wrong_options_with_a_users_corpus(
    own: list[str], options: list[str], expected: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        run.main([*own, *options])

    assert expected in capsys.readouterr().err


def test_main__rejects_other_tokenizers_and_missing_splits(
    own: list[str], tmp_path: Path, cache: Cache, capsys: pytest.CaptureFixture
) -> None:
    other = tmp_path / "other"
    shutil.copytree(cache.encoder, other)
    text = (cache.encoder / "vocab.txt").read_text(encoding="utf-8")
    (other / "vocab.txt").write_text(text + "more\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        run.main([*own, "--encoder", str(other)])
    assert "the encoder whose tokenizer the shards were built with" in capsys.readouterr().err

    with pytest.raises(SystemExit):
        run.main([*own, "--shards", str(cache.domain().folder)])
    assert "the splits train, validation and test, got train" in capsys.readouterr().err


def test_with_head__returns_an_encoder_with_a_head_unchanged(cache: Cache, tmp_path: Path) -> None:
    encoder.save(encoder.masked_lm(cache.encoder), tmp_path / "whole", tokenizer=cache.encoder)

    assert encoder.with_head(replace(cache, encoder=tmp_path / "whole")) == tmp_path / "whole"


@pytest.mark.parametrize("one", [ner(), TWO], ids=["plain", "two views"])
def test_do__is_deterministic(cache: Cache, one: Run) -> None:
    first, second = (jobs.do(one, cache) for _ in range(2))

    assert first.pop("hours") >= 0
    second.pop("hours")
    assert first == second
    assert first["steps"] > 1


def test_do__two_views_read_each_row_twice(cache: Cache) -> None:
    once = jobs.do(ner(), cache)
    twice = jobs.do(TWO, cache)

    assert (once["hidden"], once["tokens"] * 2) == (0.0, twice["tokens"])
    assert twice["hidden"] > 0.1


def test_do__adapts_once_and_measures(cache: Cache) -> None:
    before = jobs.do(Run(task="adaptation", corpus="domain", arm="", seed=0), cache)
    after = jobs.do(plan.adaptation("token", 0), cache)

    assert set(before["scores"]) == {"NCBI-disease", "BC5CDR-chem", "BC2GM"}
    # The masks are fixed: only their prediction may differ.
    for corpus, kinds in before["scores"].items():
        mentions, same = (one["scores"][corpus].pop("mentions") for one in (before, after))
        assert same["groups"]["mentions"] == mentions["groups"]["mentions"]
        assert 0 < same["confidence"] != mentions["confidence"]
        for kind, found in kinds.items():
            same = after["scores"][corpus][kind]
            assert same["groups"]["tokens"] == found["groups"]["tokens"]
            assert same["groups"]["loss"] != found["groups"]["loss"]
    start = encoder.with_head(cache)
    folder = jobs.adapted(plan.adaptation("token", 0), cache, start)
    assert encoder.digest(folder) != encoder.digest(start)


def test_adapt__disables_dropout_for_the_adaptation_only(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = encoder.with_head(cache)
    trained = []
    monkeypatch.setattr(encoder, "save", lambda model, *_, **__: trained.append(model))
    jobs._adapt(plan.adaptation("token", 1), cache, start)

    (model,) = trained
    shares = {part.p for part in model.modules() if isinstance(part, torch.nn.Dropout)}
    assert shares == {0.0}
    # Fine-tuning reads the dropout from the config.
    assert model.config.hidden_dropout_prob > 0


def test_with_head__is_deterministic(cache: Cache, tmp_path: Path) -> None:
    from experiments.corpora import Cache

    again = Cache(folder=tmp_path, encoder=cache.encoder)
    (tmp_path / "corpora").symlink_to(cache.folder / "corpora")

    assert encoder.digest(encoder.with_head(again)) == encoder.digest(encoder.with_head(cache))


def test_mention_scores__equal_evaluate(cache: Cache) -> None:
    shards = cache.ner("NCBI-disease")
    torch.manual_seed(3)
    model = MslmModel.wrap(encoder.masked_lm(cache.encoder), labels=shards.labels)

    found = scores.mention_scores(model, shards["test"])

    with torch.autocast("cpu", torch.bfloat16):
        whole = evaluate(model, shards["test"], labels=shards.labels)
    assert whole["predicted"] > 0
    for name in ("hits", "gold", "predicted"):
        assert sum(found["groups"][name]) == whole[name]
        assert len(found["groups"][name]) == scores.GROUPS
        for length in ("shorter", "longer"):
            assert found[length][name] == whole[length][name]
    assert found["f1"] == pytest.approx(whole["micro_f1"])


@pytest.mark.parametrize("name", sorted({*plan.ADAPTED, "entitybert"} - {"difference", "pmi"}))
def test_masks__mask_as_many_tokens_as_joint(cache: Cache, name: str) -> None:
    shards = cache.domain()
    target = masks.count_masked(masks.make_joint(shards), shards, seed=0).realised_rate

    _, stats = masks.masks(name, shards, encoder=cache.encoder, seed=0)

    if name == "salient":
        assert 0 < stats.realised_rate < target
    else:
        assert stats.realised_rate == pytest.approx(target, abs=0.01)


def test_do__masks_equally_many_tokens_with_weak_mentions(cache: Cache) -> None:
    gold = jobs.do(plan.adaptation("joint", 0), cache)
    weak = jobs.do(plan.adaptation(masks.WEAK, 0), cache)

    assert weak["hidden"] == pytest.approx(gold["hidden"], abs=0.02)
    assert weak["n_elm"] != gold["n_elm"]
    assert cache.weak_domain()["train"].tokens == cache.domain()["train"].tokens


def test_masks__makes_the_pmi_lexicon(cache: Cache) -> None:
    _, stats = masks.masks("pmi", cache.domain(), encoder=cache.encoder, seed=0)

    assert stats.masked_tokens > 0
    assert (Path(str(cache.domain().folder)) / "vocab" / "pmi.arrow").is_file()


def test_rate_at__rises_then_falls_to_0() -> None:
    rates = [training.rate_at(step, 100) for step in range(100)]

    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert rates[10] == 1.0
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    assert 0 < rates[-1] < 0.02


def test_masks__in_test_text_reveal_most_mentions(cache: Cache) -> None:
    """More than half of the runs of masked tokens are exactly a mention."""
    import mslm_data as md

    test = cache.ner("NCBI-disease")["test"].examples()
    plan_of_test = md.strategy("joint", **masks.HEADLINE).plan(test, seed=0, epoch=0)
    hits = mentions = 0
    for row, (start, end) in enumerate(itertools.pairwise(test.input_ids.offsets)):
        masked = np.diff(np.pad(plan_of_test.kinds.values[start:end] > 0, 1).astype(int))
        runs = set(zip(np.flatnonzero(masked > 0), np.flatnonzero(masked < 0), strict=True))
        true = set(zip(test.span_starts[row], test.span_ends[row], strict=True))
        hits += len(runs & true)
        mentions += len(true)

    assert hits > 0.5 * mentions > 0


def test_unmasked__returns_the_original_ids(cache: Cache) -> None:
    import mslm_data as md

    train = cache.ner("NCBI-disease")["train"]
    batch = next(iter(md.Batches(train, "joint", batch_size=4, shuffle=False)))

    ids = training.unmasked(batch)

    assert (ids != batch["input_ids"]).any()
    for row, example in enumerate(train[i] for i in range(4)):
        assert ids[row][batch["attention_mask"][row] == 1].tolist() == list(example["input_ids"])


def test_plan__tries_rates_first_and_uses_the_best() -> None:
    tries = plan.BLURB.tries("plain", "NCBI-disease")
    by_seed = ((0.3, 0.1, 0.5, 0.2), (0.3, 0.4, 0.4, 0.2), (0.3, 0.4, 0.1, 0.2))
    done = [
        {"run": one.__dict__, "start": "a", "scores": {"f1": f1}}
        for one, f1 in zip(tries, itertools.chain(*by_seed), strict=True)
    ]

    first, mean = ([step.run for step in plan.plan(["joint"], some)] for some in (done[:5], done))

    assert mean[: len(tries)] == tries
    assert mean[len(tries)].options["scored"] == "test"
    assert mean[len(tries)].options["rate"] == plan.RATES[2]
    assert plan.chosen_rate(tries, done) == plan.RATES[2]
    # Only seeds that have tried all rates count.
    assert first[len(tries)].options["rate"] == plan.RATES[2]
    assert plan.chosen_rate(tries, done[4:]) == plan.RATES[1]
    assert plan.chosen_rate(tries, done[:3]) is None


def test_plan__without_tries_uses_rates_of_another_corpus() -> None:
    done = [
        {"run": one.__dict__, "start": "a", "scores": {"f1": one.options["rate"]}}
        for one in plan.BLURB.tries("plain", "NCBI-disease")
    ]

    runs = [step.run for step in plan.plan(["joint", "elsewhere"], done)]

    rates = {one.options["rate"] for one in runs if one.arm == "plain" and one.seed == 0}
    assert rates == {plan.RATES[-1], plan.RATES[1]}
    own = {
        one.corpus
        for one in runs
        if one.arm == "plain" and one.options["rate"] == plan.RATES[1] and one.seed == 0
    }
    assert own == {"WNUT17"}


def test_current__excludes_runs_at_rates_not_chosen() -> None:
    tries = [
        {"run": one.__dict__, "scores": {"f1": one.options["rate"]}}
        for one in plan.BLURB.tries("plain", "BC2GM")
    ]
    runs = [
        {"run": {**one.__dict__, "options": plan.JOINT["plain"].options(rate)}, "scores": {}}
        for one in (step.run for step in plan.plan(["joint"], []))
        if one.arm == "plain" and one.seed == 0 and one.corpus == "BC2GM"
        for rate in plan.RATES
    ]

    kept = plan.current([*tries, *runs], {"joint": plan.QUESTIONS["joint"]})

    assert kept == [*tries, runs[-1]]


def test_plan__completes_pairs_of_a_seed_first() -> None:
    steps = plan.plan(["joint"], [])
    runs = [step.run for step in steps if step.run.seed not in plan.TRIED_SEEDS]

    arms = len(plan.JOINT)
    assert [one.seed for one in runs[: 2 * arms]] == [0] * arms + [1] * arms
    assert {one.arm for one in runs[:arms]} == set(plan.JOINT)


def test_plan__an_encoder_is_adapted_before_it_is_used() -> None:
    made = set()
    for one in (step.run for step in plan.plan(["adaptation"], [])):
        if one.task == "adaptation":
            made.add((one.arm, one.seed))
        elif one.options["adapted"]:
            assert (one.options["adapted"], one.seed) in made


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ({}, ["plain", "two"]),
        ({"plain": "a"}, ["plain", "two"]),
        ({"plain": "ab"}, ["two"]),
        ({"plain": "a", "two": "a"}, []),
        ({"plain": "ab", "two": "ac"}, []),
        ({"plain": "a", "two": "b"}, ["plain"]),
        ({"plain": "b", "two": "a"}, ["two"]),
    ],
)
def test_step__is_done_if_a_pair_has_equal_starts(
    starts: dict[str, str], expected: list[str]
) -> None:
    step = Step(run=TWO, against=(ner(),))
    known = {ner(arm).key if arm == "plain" else TWO.key: set(of) for arm, of in starts.items()}

    assert [one.arm for one in step.open_runs(known, start="b")] == expected


def test_step__waits_for_needed_runs() -> None:
    step = Step(run=TWO, needs=(ner(),))

    assert step.open_runs({}, start="a") == []
    assert step.open_runs({ner().key: {"b"}}, start="a") == [TWO]
    assert not step.done({ner().key: {"b"}})


@pytest.mark.parametrize("question", list(plan.QUESTIONS))
def test_plan__contains_the_runs_it_compares_with(question: str) -> None:
    steps = list(plan.plan([question], []))
    runs = {step.run.key for step in steps}

    for step in steps:
        assert {one.key for one in (*step.against, *step.needs)} <= runs
        assert all(one.seed == step.run.seed or one.arm == "" for one in step.against)
    assert any(step.against for step in steps) or question == "learning-rates"


def test_plan__trains_nothing_twice_under_two_names() -> None:
    names: dict[str, set[str]] = {}
    for step in plan.plan(list(plan.QUESTIONS), []):
        if step.run.task == "ner":
            same = replace(step.run, arm="").key
            names.setdefault(same, set()).add(step.run.arm)

    assert {key: arms for key, arms in names.items() if len(arms) > 1} == {}


def test_lines__skip_a_truncated_line(tmp_path: Path) -> None:
    lines.append(ner(seed=1), {"scores": {}, "start": "a"}, tmp_path)
    path = tmp_path / "ner.jsonl"
    path.write_text(path.read_text() + '{"run": ')

    lines.append(ner(seed=2), {"scores": {}, "start": "a"}, tmp_path)
    lines.append(ner(seed=2), {"scores": {}, "start": "b"}, tmp_path)

    found = lines.read(tmp_path)
    assert [line["run"]["seed"] for line in found] == [1, 2, 2]
    assert lines.starts(found) == {ner(seed=1).key: {"a"}, ner(seed=2).key: {"a", "b"}}
    assert lines.read(tmp_path / "none") == []


def test_packaged__names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "PACKAGE", "no_such_encoder")

    with pytest.raises(SystemExit, match="--encoder: expected a folder, got none; or"):
        encoder.packaged()


def test_both__keeps_the_first_of_overlapping_annotations() -> None:
    from experiments.corpora import both

    first = [[("a", "B"), ("b", "O"), ("c", "O")], [("d", "O")]]
    second = [[("a", "O"), ("b", "B"), ("c", "I")], [("other", "B")]]

    assert both(first, second) == [[("a", "B"), ("b", "B"), ("c", "I")], [("d", "O")]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("masks", "guard"), [("", ""), ("token", ""), ("token", "gradients"), ("mst", "updates")]
)
def test_do__classification(task: Cache, masks: str, guard: str) -> None:
    result = jobs.do(classification(masks, guard), task)

    scores = result["scores"]
    assert len(scores["gold"]) == len(scores["predicted"]) == 12
    assert set(scores["gold"]) == {"0", "1"}
    assert (
        scores["micro_f1"]
        == sum(a == b for a, b in zip(scores["gold"], scores["predicted"], strict=True)) / 12
    )
    assert bool(masks) == ("adapted" in result)
    if masks:
        assert result["hidden"] == pytest.approx(0.15, abs=0.05)


@pytest.mark.long
def test_do__selective_masking_uses_a_task_model(task: Cache) -> None:
    result = jobs.do(classification("selective", ""), task)

    assert result["hidden"] > 0
    assert (Path(str(task.task("ACL-ARC").folder)) / "vocab" / "confidence").is_dir()


def classification(masks: str, guard: str) -> Run:
    options: dict[str, Any] = {**QUICK, "scored": "test", "masks": masks}
    if masks:
        options |= {"adaptation": QUICK, "hidden": 0.15, "guard": guard}
    return Run(task="classification", corpus="ACL-ARC", arm="any", seed=0, options=options)


@pytest.fixture(scope="module")
def task(cache: Cache, tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """A cache with a small task of two alternating classes."""
    from experiments.corpora import Cache

    root = tmp_path_factory.mktemp("task")
    folder = root / "data" / "tasks" / "acl_arc"
    folder.mkdir(parents=True)
    texts = ["the gene of the patient was studied", "tumor cells of the colon were treated"]
    for split, rows in (("train", 24), ("dev", 12), ("test", 12)):
        objects = [
            {"text": f"{texts[row % 2]} in sample {row}", "label": "ab"[row % 2]}
            for row in range(rows)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(json.dumps(one) for one in objects))

    made = Cache(folder=root / "cache", encoder=cache.encoder)
    (made.folder / "corpora").mkdir(parents=True)
    (cache.folder / "encoders").mkdir(exist_ok=True)  # missing in the first test of a process
    (made.folder / "encoders").symlink_to(cache.folder / "encoders")
    (made.folder / "corpora" / "everything").symlink_to(cache.folder / "corpora" / "everything")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MSLM_DATA_REAL", str(root / "data"))
        made.task("ACL-ARC")
    return made


def test_main__rejects_a_missing_device(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        run.main(["--device", "meta", "--list"])

    assert "expected a device that torch can use, got 'meta'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:CUDA is not available")  # autocast says so
def test_main__records_the_device(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(run.QUESTIONS, "joint", lambda _: iter([Step(run=ner())]))
    options = ["joint", "--cache", str(cache.folder), "--encoder", str(cache.encoder)]

    with second_device():
        assert run.main([*options, "--results", str(tmp_path), "--device", "cuda"]) == 0

    (line,) = lines.read(tmp_path)
    assert line["about"]["device"] == "cuda"
    assert line["start"] != encoder.digest(encoder.with_head(cache))


@pytest.mark.filterwarnings("ignore:CUDA is not available")  # autocast says so
@pytest.mark.parametrize(
    "one",
    [TWO, ADAPTED, plan.adaptation("token", 2), classification("token", "updates")],
    ids=["two views", "adapted", "adaptation", "classification"],
)
def test_do__trains_on_the_gpu(task: Cache, one: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    here = jobs.do(one, task)
    trained: list[torch.device] = []
    optimise = training.optimise

    def look(model: Any, *args: Any, **options: Any) -> Any:
        trained.extend(parameter.device for parameter in model.parameters())
        return optimise(model, *args, **options)

    monkeypatch.setattr(training, "optimise", look)
    monkeypatch.setattr(encoder, "optimise", look)
    with second_device() as device:
        there = jobs.do(one, replace(task, device="cuda"))

    assert set(trained) == {device}
    assert there["start"] != here["start"]
    for name in ("hidden", "steps", "tokens"):
        assert there[name] == here[name]
    # Without bfloat16 and with other dropout, the loss differs.
    assert there["loss"] == pytest.approx(here["loss"], abs=0.2)


def test_elsewhere__tries_rates_on_corpora_with_validation_text() -> None:
    """Corpora without validation text use the rates of NCBI-disease."""
    steps = list(plan.plan(["elsewhere"], []))
    tried_on = {
        corpus: {need.corpus for step in steps if step.run.corpus == corpus for need in step.needs}
        for corpus in plan.ELSEWHERE
    }

    assert tried_on == {"SEC filings": {"NCBI-disease"}, "WNUT17": {"WNUT17"}}
    assert {need.options["epochs"] for step in steps for need in step.needs} == {3, 5}
    assert {
        (step.run.options["epochs"], need.options["epochs"])
        for step in steps
        if step.run.corpus == "WNUT17" and step.run.arm == "two views, joint"
        for need in step.needs
    } == {(5, 5)}
