"""Masking: strategies decide which tokens are to be predicted and why, then what stands in their place.

The table below is the whole registry. A name's version means its numbers: other masks for the same seed are a `.v2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mslm_data.errors import PipelineError
from mslm_data.registry import Registry

if TYPE_CHECKING:
    from mslm_data.data.examples import Examples
    from mslm_data.data.ragged import Ragged
    from mslm_data.mask.plan import MaskPlan


class Strategy(Protocol):
    """What every strategy does; see `stages.Staged` for the laws it keeps."""

    @property
    def by_step(self) -> bool:
        """Whether `plan` must be told the step."""
        ...

    def plan(
        self, examples: Examples, *, seed: int = 0, epoch: int = 0, step: int | None = None
    ) -> MaskPlan:
        """Decide which tokens are to be predicted."""
        ...

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """Return the ids with the planned tokens replaced."""
        ...

    def targets(self, examples: Examples, plan: MaskPlan) -> Ragged | None:
        """Return what is to be written, where that is a sequence of its own."""
        ...


STRATEGIES = Registry(
    "strategy",
    {
        "joint.v1": "mslm_data.mask.joint:Joint",
        "elm.v1": "mslm_data.mask.joint:Elm",
        "blm.v1": "mslm_data.mask.joint:Blm",
        "joint-released.v1": "mslm_data.mask.joint:JointReleased",
        "bert.v1": "mslm_data.mask.tokens:Bert",
        "token.v1": "mslm_data.mask.tokens:Token",
        "roberta.v1": "mslm_data.mask.tokens:Roberta",
        "wettig.v1": "mslm_data.mask.tokens:Wettig",
        "modernbert.v1": "mslm_data.mask.tokens:ModernBert",
        "electra.v1": "mslm_data.mask.tokens:Electra",
        "whole-word.v1": "mslm_data.mask.whole_words:WholeWord",
        "whole-word-hf.v1": "mslm_data.mask.whole_words:WholeWordHf",
        "whole-word-roberta.v1": "mslm_data.mask.whole_words:WholeWordRoberta",
        "random-word.v1": "mslm_data.mask.whole_words:RandomWord",
        "pmi.v1": "mslm_data.mask.pmi:Pmi",
        "pmi-released.v1": "mslm_data.mask.pmi:PmiReleased",
        "pmi-levine.v1": "mslm_data.mask.pmi:PmiLevine",
        "ernie.v1": "mslm_data.mask.ernie:Ernie",
        "entitybert.v1": "mslm_data.mask.entities:EntityBert",
        "entitybert-difference.v1": "mslm_data.mask.entities:EntityBertDifference",
        "salient.v1": "mslm_data.mask.entities:Salient",
        "lim.v1": "mslm_data.mask.entities:Lim",
        "difference.v1": "mslm_data.mask.difference:Difference",
        "difference-released.v1": "mslm_data.mask.difference:DifferenceReleased",
        "selective-task.v1": "mslm_data.mask.scored:SelectiveTask",
        "selective.v1": "mslm_data.mask.scored:Selective",
        "attention-high.v1": "mslm_data.mask.attention:AttentionHigh",
        "attention-hints.v1": "mslm_data.mask.attention:AttentionHints",
        "attention-low.v1": "mslm_data.mask.attention:AttentionLow",
        "mst.v1": "mslm_data.mask.attention:Mst",
        "informask.v1": "mslm_data.mask.scored:InforMask",
        "keywords.v1": "mslm_data.mask.scored:Keywords",
        "span.v1": "mslm_data.mask.spans:Span",
        "span-released.v1": "mslm_data.mask.spans:SpanReleased",
        "spanbert.v1": "mslm_data.mask.spans:SpanBert",
        "spanbert-ner.v1": "mslm_data.mask.spans:SpanBertNer",
        "t5.v1": "mslm_data.mask.sequences:T5",
        "ul2.v1": "mslm_data.mask.sequences:Ul2",
        "salient-t5.v1": "mslm_data.mask.sequences:SalientT5",
        "bart.v1": "mslm_data.mask.infill:Bart",
        "ccm.v1": "mslm_data.mask.concepts:Ccm",
        "stages.v1": "mslm_data.mask.combined:Stages",
        "mixture.v1": "mslm_data.mask.combined:Mixture",
        "curriculum.v1": "mslm_data.mask.combined:Curriculum",
    },
)


NO_MASKS = {
    "dga": "scales the gradients of heads and layers by their importance (Ke et al. 2022); its input is masked as by "
    "'token', so that is the honest control",
    "difference-video": "masks patches of images by boxes of persons (Difference-Masking on TVQA and Social-IQ); for "
    "text 'difference' is the same idea, and 'stages' the same chain",
    "ptw": "weighs words by the running loss of their part of speech (Yang et al. 2023), which only the trainer knows; "
    "'difference' with a table of one's own is nearest",
    "entropy": "chooses tokens by the entropy of the model that is trained; 'selective' with a score column of a "
    "frozen model is nearest",
}
"""Systems that are compared with masks and are none of text, or need the model in training; and the nearest that is."""


def strategy(name: str, **options: Any) -> Strategy:
    """Make a strategy: `strategy("joint", elm=1.0, blm=0.075)`.

    Args:
        name: A registered name; without a version, the newest. Or a TOML file that says one (`mask/combined.py`).
        **options: The strategy's options; `help(type(strategy(name)))` tells them. They win over a file's.

    Raises:
        ValueError: No such name or option, or an option it refuses. (Where a pipeline file says so, `STRATEGIES.make`
            raises PipelineError.)
    """
    plain = {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in options.items()
    }
    try:
        return make(name, plain)
    except PipelineError as error:
        raise ValueError(str(error)) from None


def make(name: str, options: Mapping[str, Any]) -> Strategy:
    """Make a strategy from a name or a file, and options; as `strategy`, for commands.

    Raises:
        PipelineError: No such name, file or option, or an option it refuses.
    """
    if name in NO_MASKS:
        raise PipelineError(f"'{name}' is no mask of text: it {NO_MASKS[name]}")
    where = f"strategy '{name}'"
    if name.endswith(".toml"):
        from mslm_data.mask.file import read_strategy

        where = f"{name}, [mask]"
        name, said = read_strategy(Path(name))
        options = said | dict(options)
    made: Strategy = STRATEGIES.make(name, options, where=where)
    return made


def strategies() -> dict[str, str]:
    """Return every registered name, sorted, with one line that says what it hides.

    Not among them, as they are no masks of text or need the model that is being trained: `NO_MASKS`, such as DGA, which
    acts on gradients, and Difference-Masking of images; asking for one tells the nearest that is.
    """
    return {name: STRATEGIES.load(name).__doc__.splitlines()[0] for name in STRATEGIES.names()}
