from __future__ import annotations

import subprocess
import sys
import typing

import numpy as np

import mslm_data as md
from mslm_data.mask.table import SHIPPED, STRATEGIES, Status, default_options


def test_strategy__newest_version():
    assert md.strategy("joint.v1") == md.strategy("joint")


def test_strategies__one_line_status_and_source():
    lines = md.strategies()

    assert list(lines) == STRATEGIES.names()
    assert all(
        summary.masks.startswith(("Mask ", "Predict "))
        and summary.masks.endswith(".")
        and len(summary.masks) < 100
        for summary in lines.values()
    )
    assert lines["joint.v1"] == (
        "Mask whole mentions (ELM), then single tokens of the rest (BLM).",
        "paper",
        "Abaho et al. 2024, section 3",
    )


def test_shipped__says_what_it_follows():
    for shipped in SHIPPED.values():
        assert shipped.status in typing.get_args(Status)
        assert shipped.source


def test_strategy__a_rate_of_numpy_is_its_decimals():
    assert md.strategy("blm", blm=np.float32(0.15)) == md.strategy("blm", blm=0.15)
    assert md.strategy("blm", blm=np.int64(1)) == md.strategy("blm", blm=1.0)


def test_options_of__in_order_with_their_defaults():
    assert default_options("elm") == {"elm": 0.5, "corruption": "mask"}


def test_import__names_cost_no_compiler():
    code = "import sys, mslm_data.mask.table as t; assert 'numba' not in sys.modules; assert t.STRATEGIES.names()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
