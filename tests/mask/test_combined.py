from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.mask import NO_MASKS, STRATEGIES
from mslm_data.mask.file import read_strategy, with_files
from tests.generate import IDS, examples_of, fixed_examples, random_examples, row_of, rows_of

SENTENCE = """
[mask]
use = "stages"
corruption = "80-10-10"
of = [
    { hide = "mentions", rate = 0.4, of = "units", kind = "entity" },
    { hide = "words", rate = 0.12, of = "units" },
    { hide = "tokens", rate = { shape = "linear", start = 0.3, stop = 0.1, over = 4 }, how = "each" },
]
"""


@given(random_examples(), st.integers(0, 99), st.integers(0, 99))
def test_stages__joint_in_other_words(examples, seed, epoch):
    words = [
        {"hide": "mentions", "rate": 0.5, "unknown": True, "kind": "entity"},
        {"hide": "tokens", "rate": 0.3, "of": "tokens"},
    ]
    made, joint = md.strategy("stages", of=words), md.strategy("joint", elm=0.5, blm=0.3)

    assert (
        made.plan(examples, seed=seed, epoch=epoch).kinds.tolist()
        == joint.plan(examples, seed=seed, epoch=epoch).kinds.tolist()
    )


def test_strategy__in_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SENTENCE)
    made = md.strategy(str(path))

    assert [stage.hide for stage in made.of] == ["mentions", "words", "tokens"]
    assert made.of[2].rate.stop == 0.1
    assert md.strategy(str(path), corruption="mask").corruption == "mask"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "expected a file with a table [mask], found none"),
        ("[mask", "expected TOML: "),
        ("[mask]\nrate = 1\n", 'expected a table [mask] with use = "NAME"'),
        ("mask = 3\n", 'expected a table [mask] with use = "NAME"'),
        ('[mask]\nuse = "jont"\n', "unknown strategy 'jont'; did you mean 'joint'?"),
        ('[mask]\nuse = "joint"\nelmo = 1\n', "unknown option 'elmo'; did you mean 'elm'?"),
        (
            '[mask]\nuse = "stages"\nof = [{ hide = "wrds", rate = 1 }]\n',
            "got 'wrds'",
        ),
        (
            '[mask]\nuse = "stages"\nof = [{ hide = "words", rate = 2 }]\n',
            "rate: expected a rate in [0, 1], got 2",
        ),
    ],
)
def test_strategy__a_file_that_is_wrong(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ValueError) as error:
        md.strategy(str(path))
    assert message in str(error.value)


def test_read_strategy__a_file_that_is_no_text(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(md.MslmDataError, match="expected TOML"):
        read_strategy(tmp_path / "x.toml")


@given(random_examples(), st.integers(0, 99))
def test_mixture__a_row_is_masked_as_by_the_strategy_it_falls_to(examples, seed):
    made = md.strategy(
        "mixture",
        of=[
            {"chance": 0.4, "use": "elm", "elm": 0.5},
            {"chance": 0.4, "use": "blm", "blm": 0.5, "corruption": "80-10-10"},
        ],
    )
    plan = made.plan(examples, seed=seed)
    ids = made.corrupt(examples, plan, seed=seed).tolist()

    for i, way in enumerate(made.ways(examples, seed, 0).tolist()):
        if way == 2:
            assert (plan.kinds[i] == 0).all()
            assert ids[i] == examples.input_ids[i].tolist()
        else:
            part = made.parts[way]
            alone = part.plan(examples, seed=seed)
            assert plan.kinds[i].tolist() == alone.kinds[i].tolist()
            assert ids[i] == part.corrupt(examples, alone, seed=seed)[i].tolist()


def test_mixture__keeps_its_chances():
    examples = examples_of([row_of([1], key=key) for key in range(4000)])
    made = md.strategy(
        "mixture", of=[{"chance": 0.25, "use": "blm"}, {"chance": 0.6, "use": "elm"}]
    )
    counts = np.bincount(made.ways(examples, 0, 0), minlength=3)

    assert all(
        abs(count - share * 4000) < 4 * np.sqrt(1000)
        for count, share in zip(counts, [0.25, 0.6, 0.15], strict=True)
    )
    assert (made.ways(examples, 0, 0) != made.ways(examples, 0, 1)).any()


def test_curriculum__each_for_its_epochs():
    examples = fixed_examples()
    made = md.strategy(
        "curriculum",
        of=[
            {"epochs": 2, "use": "elm"},
            {"epochs": 1, "use": "blm", "corruption": "80-10-10"},
            {"use": "joint"},
        ],
    )

    for epoch, alone in enumerate(["elm", "elm", "blm", "joint", "joint"]):
        part = md.strategy(alone, **({"corruption": "80-10-10"} if alone == "blm" else {}))
        plan = made.plan(examples, epoch=epoch)
        assert plan.kinds.tolist() == part.plan(examples, epoch=epoch).kinds.tolist()
        assert (
            made.corrupt(examples, plan, epoch=epoch).tolist()
            == part.corrupt(examples, plan, epoch=epoch).tolist()
        )


STEP = {"shape": "linear", "start": 0.5, "stop": 0.1, "over": 10, "per": "step"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("blm", {"blm": STEP}),
        ("stages", {"of": [{"rate": STEP}]}),
        ("mixture", {"of": [{"chance": 1, "use": "blm", "blm": STEP}]}),
        ("curriculum", {"of": [{"use": "blm", "blm": STEP}]}),
    ],
)
def test_by_step__a_rate_that_follows_the_step_must_be_told_it(name, options):
    examples = examples_of([row_of([1] * 10)])
    made = md.strategy(name, **options)

    assert made.by_step
    assert [made.plan(examples, step=step).counts()[1] for step in (0, 5, 10, 99)] == [5, 3, 1, 1]
    with pytest.raises(ValueError, match=r"^step: expected one, as a rate follows it"):
        made.plan(examples)
    with pytest.raises(ValueError, match=r"^step: expected an integer in"):
        made.plan(examples, step=-1)


@pytest.mark.parametrize(
    ("name", "of", "message"),
    [
        ("mixture", [{"use": "elm"}], "of: expected a number 'chance' in each table, got None"),
        (
            "mixture",
            [{"chance": 0.5}],
            "of: expected the name of a strategy as 'use' in each table",
        ),
        (
            "mixture",
            [{"chance": 0.7, "use": "elm"}] * 2,
            "expected chances in [0, 1] that sum to 1 at most, got 1.4",
        ),
        (
            "mixture",
            [{"chance": 0.5, "use": "elmo"}],
            "unknown strategy 'elmo'; did you mean 'elm'?",
        ),
        ("curriculum", [], "of: expected one strategy at least, got none"),
        (
            "curriculum",
            [{"use": "elm"}, {"use": "blm"}],
            "of: expected a number 'epochs' in each table, got None",
        ),
        (
            "curriculum",
            [{"epochs": 0, "use": "elm"}, {"use": "blm"}],
            "of: expected epochs of 1 or more",
        ),
    ],
)
def test_combined__refuses(name, of, message):
    with pytest.raises(ValueError) as error:
        md.strategy(name, of=of)

    assert message in str(error.value)


def test_with_files__finds_every_name_of_a_file():
    made = md.strategy(
        "stages", of=[{"rate": 0.1, "how": "weighted", "score": {"lexicon": "words.arrow"}}]
    )
    rooted = with_files(made, lambda name: f"/there/{name}")

    assert rooted.of[0].score.lexicon == "/there/words.arrow"
    assert rooted.ids == "words"
    mixed = with_files({"of": [{"scores": "a", "use": "b", "vocabularies": ["c", "d"]}]}, str.upper)
    assert mixed == {"of": ({"scores": "A", "use": "b", "vocabularies": ("C", "D")},)}


@pytest.mark.parametrize("name", NO_MASKS)
def test_strategy__what_is_no_mask_says_the_nearest_that_is(name):
    with pytest.raises(ValueError, match=f"^'{name}' is no mask of text: it ") as error:
        md.strategy(name)

    bare = {full.rsplit(".v", 1)[0] for full in STRATEGIES.names()}
    assert any(f"'{near}'" in str(error.value) for near in bare)


def test_random_rows__hold_what_the_tests_above_need():
    rows = rows_of(fixed_examples())

    assert any(row.mentions for row in rows)
    assert any(IDS.unk in row.ids for row in rows)
