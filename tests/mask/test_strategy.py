from __future__ import annotations

import math
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.errors import PipelineError
from mslm_data.lexicon.artefacts import LEXICON, MAKERS, ArtefactKind
from mslm_data.mask.artefacts import iter_artefacts, with_artefacts
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.file import read_table
from mslm_data.mask.pick import Pick
from mslm_data.mask.recipes.mslm import joint
from mslm_data.mask.rng import RowRng, stream_number
from mslm_data.mask.span_picks import GrowSpans, PlaceSpans
from mslm_data.mask.strategy import Mixture, Recipe
from mslm_data.mask.table import NO_MASKS, STRATEGIES, parse_strategy, varied
from tests import made as made_folders
from tests.generate import IDS, examples_of, fixed_examples, random_examples, row_of, rows_of
from tests.mask.contract import OPTIONS, corrupting, made, options_of
from tests.reference import picks as twins

FILE = """
[mask]
corruption = "80-10-10"

[[mask.picks]]
units = "mentions"
budget = { rate = 0.4 }
kind = "entity"

[[mask.picks]]
units = "words"
budget = { rate = 0.12 }

[[mask.picks]]
units = "tokens"
order = { by = "bernoulli" }
budget = { rate = { shape = "linear", start = 0.3, stop = 0.1, over = 4 } }
"""
PART = {"use": "blm", "blm": 0.5}


def keys_of(made, **options):
    """Return the random numbers of some examples for a mixture's choice."""
    return RowRng(keys=made.keys, **{"seed": 0, "epoch": 0} | options)


@given(random_examples(), st.integers(0, 99), st.integers(0, 99))
def test_picks__joint_in_other_words(examples, seed, epoch):
    tables = [
        {
            "units": "mentions",
            "budget": {"rate": 0.5},
            "eligible": {"unknown": True},
            "kind": "entity",
        },
        {"units": "tokens", "budget": {"rate": 0.3, "counts": "tokens"}},
    ]
    spelled = md.strategy("picks", picks=tables)

    plan = spelled.plan(examples, seed=seed, epoch=epoch)
    expected = md.strategy("joint", elm=0.5, blm=0.3).plan(examples, seed=seed, epoch=epoch)
    assert plan.kinds.tolist() == expected.kinds.tolist()


def test_strategy__is_what_its_function_returns():
    assert md.strategy("joint", elm=1, blm=np.float64(0.3)) == joint(elm=1.0, blm=0.3)


def test_strategy__in_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    strategy = md.strategy(str(path))

    assert [pick.units for pick in strategy.picks] == ["mentions", "words", "tokens"]
    assert strategy.picks[2].budget.rate.stop == 0.1
    assert strategy.corruption.shares == "80-10-10"
    assert md.strategy(str(path), corruption="mask").corruption.shares == "mask"


@given(st.data(), st.sampled_from([*OPTIONS]))
def test_repr__reads_to_the_same_strategy_for_any_options(data, name):
    strategy = made((name, data.draw(options_of(name))), fixed_examples())
    table = tomllib.loads(repr(strategy))["mask"]

    assert parse_strategy(table, where="here") == strategy


@pytest.mark.parametrize("name", OPTIONS)
def test_repr__is_a_file_that_gives_the_same_strategy(name, tmp_path):
    strategy = made((name, {}), fixed_examples())
    path = tmp_path / "printed.toml"
    path.write_text(repr(strategy))

    assert md.strategy(str(path)) == strategy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "file not found; expected TOML with a table [mask]"),
        ("[mask", "expected TOML: "),
        ("[mask]\nrate = 1\n", 'expected use = "NAME", or a list of picks, got neither'),
        ("mask = 3\n", "expected a table [mask] with 'use' or 'picks', got none"),
        ("[mask]\nuse = 3\n", "expected the name of a strategy as 'use', got 3"),
        ('[mask]\nuse = "jont"\n', "unknown strategy 'jont'; did you mean 'joint'?"),
        ('[mask]\nuse = "joint"\nelmo = 1\n', "unknown option 'elmo'; did you mean 'elm'?"),
        (
            '[mask]\npicks = [{ units = "words", budget = { rate = 2 } }]\n',
            "expected `float` <= 1.0 for option 'picks[0].budget.rate'",
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


def test_read_table__a_file_that_is_not_text(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(PipelineError, match="expected TOML"):
        read_table(tmp_path / "x.toml")


OF_MIXTURES = [
    name
    for name in OPTIONS
    if name not in ("causal.v1", "t5.v1", "salient-t5.v1", "curriculum.v1", "ccm.v1")
]


@pytest.mark.parametrize(
    "name", [name for name in OF_MIXTURES if name not in ("mixture.v1", "lim.v1", "ernie.v1")]
)
def test_mixture__a_row_is_masked_as_by_the_strategy_it_falls_to(name):
    examples = fixed_examples()
    by_unit = corrupting(made((name, {}), examples), Corruption("30-40-30", by="unit"))
    parts = (joint(blm=0.5, corruption="80-10-10"), by_unit)
    mixture = Mixture(parts, (0.3, 0.5))
    plan = mixture.plan(examples, seed=1, epoch=2)
    ids = mixture.corrupt(examples, plan, seed=1, epoch=2)

    ways = mixture.ways(keys_of(examples, seed=1, epoch=2))
    for way, part in enumerate([*parts, md.strategy("unmasked")]):
        alone = part.plan(examples, seed=1, epoch=2)
        alone_ids = part.corrupt(examples, alone, seed=1, epoch=2)
        for row in np.flatnonzero(ways == way):
            assert plan.kinds[row].tolist() == alone.kinds[row].tolist()
            assert plan.unspent[row] == alone.unspent[row]
            assert ids[row].tolist() == alone_ids[row].tolist()


def likely_range(share, rows):
    """Return the range of a count with a probability of 0.9999."""
    return share * rows - 4 * np.sqrt(rows), share * rows + 4 * np.sqrt(rows)


def test_mixture__within_mixtures_takes_all_of_its_branches():
    """Rates of 0.1, 0.5 and 0.9 identify the strategy of a row of ten tokens."""
    rows = 20_000
    examples = examples_of([row_of([1] * 10, key=key) for key in range(rows)])
    inner = {
        "use": "mixture",
        "chances": [0.5, 0.5],
        "parts": [{"use": "blm", "blm": 0.1}, {"use": "blm", "blm": 0.5}],
    }
    outer = md.strategy("mixture", chances=[0.5, 0.5], parts=[inner, {"use": "blm", "blm": 0.9}])
    masked = np.diff(
        np.append(0, np.cumsum(outer.plan(examples).kinds.values > 0))[examples.input_ids.offsets]
    )

    counts = np.bincount(masked, minlength=10)
    for count, share in ((counts[1], 0.25), (counts[5], 0.25), (counts[9], 0.5)):
        low, high = likely_range(share, rows)
        assert low < count < high
    assert counts[[1, 5, 9]].sum() == rows


@given(random_examples(), st.integers(0, 99))
def test_mixture__within_mixtures_equals_twin(examples, seed):
    parts = [{"use": "mixture", "chances": [0.5, 0.3], "parts": [PART, {"use": "elm"}]}, PART]
    mixture = md.strategy("mixture", chances=[0.6, 0.3], parts=parts)
    kinds = mixture.plan(examples, seed=seed, epoch=2).kinds.tolist()

    assert kinds == [
        twins.mixture(row, seed=seed, epoch=2, chances=[0.6, 0.3], parts=parts)
        for row in rows_of(examples)
    ]


@pytest.mark.parametrize(
    ("unit", "lengths", "times"),
    [
        ("epoch", {"epochs": [2, 1]}, [0, 1, 2, 3, 99]),
        ("step", {"steps": [20, 10]}, [0, 19, 20, 30, 2**40]),
        (
            "tokens",
            {"tokens": [2 * 10**9, 10**9]},
            [0, 2 * 10**9 - 1, 2 * 10**9, 3 * 10**9, 10**12],
        ),
    ],
)
def test_curriculum__each_for_its_epochs_steps_or_tokens(unit, lengths, times):
    examples = fixed_examples()
    corrupted = {"use": "blm", "corruption": "80-10-10"}
    curriculum = md.strategy(
        "curriculum", **lengths, parts=[{"use": "elm"}, corrupted, {"use": "joint"}]
    )

    assert curriculum.follows_training == (unit != "epoch")
    for now, alone in zip(times, ["elm", "elm", "blm", "joint", "joint"], strict=True):
        part = md.strategy(alone, **({"corruption": "80-10-10"} if alone == "blm" else {}))
        when = {"epoch": now if unit == "epoch" else 7}
        training = {} if unit == "epoch" else {unit: now}
        plan = curriculum.plan(examples, **when, **training)

        assert plan.part == ["elm", "blm", "joint"].index(alone)
        assert plan.kinds.tolist() == part.plan(examples, **when).kinds.tolist()
        # The plan knows its part, so corrupting needs no step.
        ids = curriculum.corrupt(examples, plan, **when)
        assert ids.tolist() == part.corrupt(examples, plan, **when).tolist()


@pytest.mark.parametrize("unit", ["steps", "tokens"])
def test_curriculum__a_batch_belongs_to_one_part(unit, tmp_path):
    """The first batches of two epochs are unmasked, and none after a resume in a third."""
    made_folders.built(tmp_path / "one")
    train = md.load(tmp_path / "one")["train"]
    size = -(-len(train) // 9)
    rows = next(iter(md.Batches(train, "unmasked", batch_size=size, seed=0)))
    begins = 3 if unit == "steps" else int(rows["attention_mask"].sum()) + 1
    parts = [{"use": "unmasked"}, {"use": "token", "rate": 1.0}]
    curriculum = md.strategy("curriculum", parts=parts, **{unit: [begins]})

    batches = md.Batches(train, curriculum, batch_size=size, seed=0)
    resumed = md.Batches(train, curriculum, batch_size=size, seed=0)
    is_masked = []
    for batch in [*batches, *batches]:
        masked = batch["mask_kinds"][batch["attention_mask"] > 0] > 0
        is_masked.append(bool(masked.any()))
        # Special tokens and `[UNK]` stay.
        assert not masked.any() or masked.mean() > 0.5
    next(iter(batches))
    resumed.load_state_dict(batches.state_dict())

    begun = 3 if unit == "steps" else 2
    assert is_masked == [number >= begun for number in range(len(is_masked))]
    assert len(is_masked) > 10
    assert all((batch["mask_kinds"] > 0).any() for batch in resumed)


def test_curriculum__by_steps_must_be_told_the_step():
    curriculum = md.strategy("curriculum", steps=[9], parts=[{"use": "elm"}, {"use": "blm"}])

    with pytest.raises(ValueError, match=r"^step: the masks depend on it; pass plan"):
        curriculum.plan(fixed_examples(2))


STEP = {"shape": "linear", "start": 0.5, "stop": 0.1, "over": 10, "per": "step"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("blm", {"blm": STEP}),
        ("picks", {"picks": [{"units": "tokens", "budget": {"rate": STEP}}]}),
        ("mixture", {"chances": [1], "parts": [{"use": "blm", "blm": STEP}]}),
        ("curriculum", {"parts": [{"use": "blm", "blm": STEP}]}),
    ],
)
def test_follows_training__a_rate_that_follows_the_step_must_be_told_it(name, options):
    examples = examples_of([row_of([1] * 10)])
    strategy = md.strategy(name, **options)

    assert strategy.follows_training
    counts = [strategy.plan(examples, step=step).counts()[1] for step in (0, 5, 10, 99)]
    assert counts == [5, 3, 1, 1]
    with pytest.raises(ValueError, match=r"^step: the masks depend on it"):
        strategy.plan(examples)
    with pytest.raises(ValueError, match=r"^step: expected an integer in"):
        strategy.plan(examples, step=-1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mixture", {"parts": [{"use": "elm"}]}, "expected the option 'chances', got none"),
        (
            "mixture",
            {"parts": [{"elm": 1}], "chances": [1]},
            'parts[0]: expected use = "NAME", or a list of picks, got neither',
        ),
        (
            "mixture",
            {"parts": [{"use": "elm"}] * 2, "chances": [0.7, 0.7]},
            "chances: expected numbers in [0, 1] with a sum of at most 1, got a sum of 1.4",
        ),
        (
            "mixture",
            {"parts": [{"use": "elm"}] * 2, "chances": [0.5, math.nan]},
            "chances: expected numbers in [0, 1] with a sum of at most 1, got a sum of nan",
        ),
        (
            "mixture",
            {"parts": [{"use": "elm"}], "chances": [0.5, 0.5]},
            "parts: expected one or more, with a chance each, got 1 and 2 chances",
        ),
        (
            "mixture",
            {"parts": [{"use": "elmo"}], "chances": [0.5]},
            "unknown strategy 'elmo'; did you mean 'elm'?",
        ),
        (
            "mixture",
            {"parts": ["elm"], "chances": [0.5]},
            "parts[0]: expected a strategy or its table, got str",
        ),
        ("curriculum", {"parts": []}, "parts: expected one strategy or more, got none"),
        (
            "curriculum",
            {"parts": [{"use": "elm"}, {"use": "blm"}]},
            "for each strategy but the last, got [[], [], []] for 2",
        ),
        (
            "curriculum",
            {"parts": [{"use": "elm"}, {"use": "blm"}], "epochs": [0]},
            "epochs, steps, tokens: expected one of them, with 1 or more for each strategy but the "
            "last, got [[0], [], []] for 2",
        ),
        (
            "curriculum",
            {"parts": [{"use": "elm"}, {"use": "blm"}], "epochs": [1], "steps": [1]},
            "expected one of them",
        ),
        (
            "curriculum",
            {"parts": [{"use": "ccm"}]},
            "parts: expected no curriculum within another strategy; list its parts in one",
        ),
        (
            "mixture",
            {"parts": [{"use": "curriculum", "parts": [{"use": "elm"}]}], "chances": [1]},
            "parts: expected no curriculum within another strategy; list its parts in one",
        ),
    ],
)
def test_combinations__refuse(name, options, message):
    with pytest.raises(ValueError) as error:
        md.strategy(name, **options)

    assert message in str(error.value)


def test_needs__of_a_pick_that_is_switched_off():
    assert joint(elm=0.0).needs == set()
    assert joint(blm=0.0).needs == {"mentions"}
    assert joint(pool="generic_only", elm=0.0).needs == {"mentions"}


def test_needs__of_a_score_by_word_and_a_corruption_by_word():
    flagged = {"by": "bernoulli", "score": {"lexicon": "x.arrow", "transform": "flag"}}
    tokens = {"units": "tokens", "budget": {"rate": 1}, "order": flagged}
    by_word = {"shares": "80-10-10", "by": "word"}
    plain = {"units": "tokens", "budget": {"rate": 1}}

    assert md.strategy("picks", picks=[tokens]).needs == {"word_ids"}
    assert md.strategy("picks", picks=[plain], corruption=by_word).needs == {"word_ids"}
    assert md.strategy("picks", picks=[plain]).needs == set()


def test_with_artefacts__finds_every_name():
    score = {"by": "weighted", "score": {"lexicon": "words.arrow"}}
    tables = [
        {"units": "words", "budget": {"rate": 0.1}, "order": score},
        {"units": {"lexicon": "grams.arrow"}, "budget": {"rate": 0.1}},
        {"use": "occurrences", "rate": 1},
    ]
    corruption = {"shares": "80-10-10", "unigrams": "counts.arrow"}
    mixture = md.strategy(
        "mixture", chances=[1], parts=[{"picks": tables, "corruption": corruption}]
    )
    kinds = []

    def found(name: str, kind: ArtefactKind) -> str:
        kinds.append(kind)
        return f"/there/{name}"

    rooted = with_artefacts(mixture, found)

    names = ["words.arrow", "grams.arrow", "concepts.arrow", "counts.arrow"]
    assert kinds == [LEXICON] * 4
    assert list(iter_artefacts(mixture)) == names
    assert list(iter_artefacts(rooted)) == [f"/there/{name}" for name in names]
    assert rooted.parts[0].picks[1].units.lexicon == "/there/grams.arrow"


def test_makers__know_the_default_artefacts_of_all_strategies():
    defaults = set()
    for name in STRATEGIES.names():
        if name not in ("picks.v1", "mixture.v1", "curriculum.v1"):
            defaults |= set(iter_artefacts(md.strategy(name)))

    assert defaults <= set(MAKERS)
    assert "pmi.arrow" in defaults


@pytest.mark.parametrize("name", NO_MASKS)
def test_strategy__a_system_that_is_not_a_mask_names_the_nearest_one(name):
    with pytest.raises(ValueError, match=f"^'{name}' is not a text-masking strategy: it ") as error:
        md.strategy(name)

    bare = {full.rsplit(".v", 1)[0] for full in STRATEGIES.names()}
    assert any(f"'{near}'" in str(error.value) for near in bare)


@given(
    st.sets(
        st.tuples(st.lists(st.integers(0, 2**40), max_size=7).map(tuple), st.integers(0, 20)),
        max_size=50,
    )
)
def test_stream_number__no_two_paths_share_a_number(paths):
    numbers = {stream_number(path, purpose) for path, purpose in paths}

    assert len(numbers) == len(paths)
    assert all(0 <= number < 2**63 for number in numbers)


def test_origin__says_how_a_strategy_was_made():
    strategy = md.strategy("joint", elm=0.5)

    assert strategy.origin.name == "joint.v1"
    assert strategy.origin.options == {
        "elm": 0.5,
        "blm": 0.15,
        "count": "fixed",
        "pool": "all",
        "corruption": "mask",
    }
    assert strategy == joint(elm=0.5)
    assert joint(elm=0.5).origin is None


def test_varied__changes_some_options_and_keeps_the_others():
    assert varied(md.strategy("joint", elm=0.5), blm=0.3) == joint(elm=0.5, blm=0.3)
    with pytest.raises(ValueError, match=r"^strategy: expected one made by name"):
        varied(joint(), blm=0.3)
    with pytest.raises(ValueError, match="unknown option 'bml'"):
        varied(md.strategy("joint"), bml=0.3)


def test_pick__is_equal_by_value():
    assert (
        Pick("words", md.strategy("random-word").picks[0].budget)
        == md.strategy("random-word").picks[0]
    )


def test_random_rows__hold_what_the_tests_above_need():
    rows = rows_of(fixed_examples())

    assert any(row.mentions for row in rows)
    assert any(IDS.unk in row.ids for row in rows)


@pytest.mark.parametrize(
    "pick",
    [
        PlaceSpans(rate=0.2, shortest=1, longest=3),
        GrowSpans(rate=0.2, chance=0.5, longest=3),
    ],
    ids=["place-spans", "grow-spans"],
)
def test_recipe__refuses_a_corruption_by_units_where_a_pick_has_none(pick):
    assert Recipe((pick,), Corruption("80-10-10", by="run"))

    with pytest.raises(
        ValueError, match=r"^corruption: by = 'unit' needs picks of units, .* by = 'run'"
    ):
        Recipe((pick,), Corruption("80-10-10", by="unit"))
