from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import mslm_data as md
from mslm_data.errors import PipelineError
from mslm_data.mask import STRATEGIES
from mslm_data.mask.joint import Joint


def test_strategy__newest_version_with_its_options():
    assert md.strategy("joint", elm=1, blm=np.float64(0.15)) == Joint(elm=1.0, blm=0.15)
    assert md.strategy("joint.v1") == Joint()


def test_strategies__name_and_one_line():
    lines = md.strategies()

    assert list(lines) == STRATEGIES.names()
    assert all(line.endswith(".") and len(line) < 100 for line in lines.values())
    assert lines["joint.v1"] == "Hide whole mentions (ELM), then single tokens of the rest (BLM)."


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("jont", {}, "unknown strategy 'jont'; did you mean 'joint'?"),
        ("joint", {"elmo": 1}, "strategy 'joint': unknown option 'elmo'; did you mean 'elm'?"),
        ("joint", {"elm": 1.5}, "strategy 'joint': elm: expected a rate in [0, 1], got 1.5"),
        ("joint", {"blm": -0.1}, "strategy 'joint': blm: expected a rate in [0, 1], got -0.1"),
        ("elm", {"elm": 2}, "strategy 'elm': elm: expected a rate in [0, 1], got 2.0"),
        ("blm", {"blm": 2}, "strategy 'blm': blm: expected a rate in [0, 1], got 2.0"),
        (
            "joint-released",
            {"blm": 2},
            "strategy 'joint-released': blm: expected a rate in [0, 1], got 2.0",
        ),
        (
            "joint",
            {"elm": "all"},
            "strategy 'joint': expected `float | object`, got `str` for option 'elm'",
        ),
        (
            "joint",
            {"count": "some"},
            "strategy 'joint': expected one of fixed, bernoulli for option 'count', got 'some'",
        ),
    ],
)
def test_strategy__wrong_call(name, options, message):
    with pytest.raises(ValueError) as error:
        md.strategy(name, **options)

    assert str(error.value) == message


def test_make__in_a_pipeline_file_it_is_the_pipeline_that_is_wrong():
    with pytest.raises(PipelineError, match=r"^pipeline 'x', \[mask\]: elm: expected a rate"):
        STRATEGIES.make("joint", {"elm": 2}, where="pipeline 'x', [mask]")


def test_import__names_cost_no_compiler():
    code = "import sys, mslm_data.mask; assert 'numba' not in sys.modules; assert mslm_data.mask.STRATEGIES.names()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
