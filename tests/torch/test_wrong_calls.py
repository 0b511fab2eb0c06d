"""Wrong arguments raise errors that name the argument and the expectation: torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


import mslm_data as md  # noqa: E402
from mslm_data.torch import (  # noqa: E402
    MaskedDataset,
    MaskingCollator,
    MslmModel,
    evaluate,
    mention_confidence,
    perplexity,
)
from tests import made  # noqa: E402
from tests.torch.families import masked_lm  # noqa: E402
from tests.torch.shards import JOINT  # noqa: E402


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return md.load(out)


@pytest.fixture(scope="module")
def model() -> Any:
    return MslmModel.wrap(masked_lm(), labels=["Disease"])


def loader(split: Any, **options: Any) -> Any:
    return MaskedDataset(split, JOINT).loader(batch_size=4, **options)


WRONG: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "workers": (
        lambda model, split: loader(split, num_workers=2),
        r"loader\(\) got an unexpected keyword argument 'num_workers'",
    ),
    "one column": (
        lambda model, split: loader(split, columns="input_ids"),
        r"^columns: expected a list of names, got one; pass \['input_ids'\]$",
    ),
    "one tag": (
        lambda model, split: MaskingCollator("joint", split, tags="O"),
        r"^tags: expected a list of names, got one; pass \['O'\]$",
    ),
    "perplexity of a dataset": (
        lambda model, split: perplexity(model, MaskedDataset(split, JOINT)),
        r"^batches: expected batches, such as MaskedDataset\(.*, got MaskedDataset, which yields rows$",
    ),
    "perplexity of a split": (
        perplexity,
        r"^batches: expected batches, such as MaskedDataset\(.*, got Split, which yields rows$",
    ),
    "a folder to evaluate": (
        lambda model, split: evaluate(model, "shards/ncbi", labels=["Disease"]),  # type: ignore[arg-type]
        r"^rows: expected a split, such as md\.load\(folder\)\['test'\], or a subset of one, got str$",
    ),
    "one label to evaluate": (
        lambda model, split: evaluate(model, split, labels="Disease"),
        r"^labels: expected a list of names, got one; pass \['Disease'\]$",
    ),
    "confidence in a whole split": (
        mention_confidence,
        r"^examples: expected rows, as split\.examples\(0, 100\) gives, got Split$",
    ),
    "batches of NumPy": (
        lambda model, split: model(**next(iter(md.Batches(split, JOINT, batch_size=2)))),
        r"^input_ids: expected a tensor .*, got ndarray; MaskedDataset\(split, strategy\)\.loader",
    ),
    "text to predict": (
        lambda model, split: model.predict("a text"),
        r"^input_ids: expected a tensor \[B, L\] of the tokenizer's ids, got str; .* annotate",
    ),
    "a module that is no model": (
        lambda model, split: MslmModel.wrap(torch.nn.Linear(2, 2)),
        r"^MslmModel: expected a masked language model, .*, got Linear, which has no language",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_calls__name_arguments_of_a_wrong_type(what: str, model: Any, shards: Any) -> None:
    call, message = WRONG[what]

    with pytest.raises(TypeError, match=message):
        call(model, shards["train"])
