"""The configuration of an `MslmModel`, saved beside its weights."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from mslm_data import _optional
from mslm_data.data.bio import tag_names
from mslm_data.torch.model.heads import VECTOR_SIZE
from mslm_data.torch.model.loss import check_name, check_weights
from mslm_data.torch.model.steps import BALANCES, NORMALISERS

if TYPE_CHECKING:
    from transformers import AutoConfig, PreTrainedConfig
else:
    _optional.load("transformers", wanted_by="MslmModel")
    from transformers import AutoConfig, PreTrainedConfig


class MslmConfig(PreTrainedConfig):
    """Configure a masked language model with MSLM's loss and heads.

    Attributes:
        masked_lm: Configuration of the masked language model.
        labels: Entity types, in the order of the shards' manifest. Without any the model has no
            heads.
        w_elm: Weight of entity tokens in Eq. 6.
        w_blm: Weight of other masked tokens in Eq. 6.
        balance: How Eq. 12 weighs its three parts. "means": each is divided by its own count, Eq. 6
            by masked tokens, Eq. 8 by tagged tokens, Eq. 11 by mentions. "sums": the paper's sums,
            all divided by the masked tokens.
        per_rate: Whether Eq. 6 divides each masked token's loss by the rate of its row, as masked
            diffusion does; batches then need `mask_rates`, as `md.strategy("diffusion")` gives. A
            rate below 0.001 counts as 0.001.
        normaliser: With `per_rate`, what Eq. 6 is divided by in place of masked tokens: "tokens",
            all that are not special, so that the loss is a bound in nats a token; "masked"; or
            "rows".
        two_views: Whether the heads read rows as they were before masking, in a second pass of
            the encoder; True by default where there are labels. The paper has them read masked rows
            (False), and a head that sees hidden mentions alone finds none in text.
        detection_size: k of Eq. 7.
        classification_size: d of Eq. 10.
        dropout: Of the heads.
        special_ids: Ids that are in no mention, such as `[CLS] [SEP] [PAD]` (not `[UNK]`). None
            takes those that the configuration of the masked language model names.
        protected: Whether the model learns from patients' text, as `shards.manifest.protected`
            says; then it is not uploaded. A Trainer with `MaskEpochCallback`, as `MslmTrainer` has,
            sets it where its rows are such text.
    """

    model_type = "mslm"
    sub_configs: ClassVar[dict[str, Any]] = {"masked_lm": AutoConfig}
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        "mslm_loss",
        "detection_loss",
        "classification_loss",
        "span_logits",
    ]
    has_no_defaults_at_init = True

    def __init__(
        self,
        masked_lm: PreTrainedConfig | dict[str, Any] | None = None,
        *,
        labels: Sequence[str] = (),
        w_elm: float = 0.5,
        w_blm: float = 0.5,
        balance: str = "means",
        per_rate: bool = False,
        normaliser: str = "tokens",
        two_views: bool | None = None,
        detection_size: int = VECTOR_SIZE,
        classification_size: int = VECTOR_SIZE,
        dropout: float = 0.1,
        special_ids: Sequence[int] | None = None,
        protected: bool = False,
        **others: Any,
    ) -> None:
        """Take the attributes above, and what every Hugging Face configuration takes.

        Raises:
            ValueError: There is no masked language model, a weight is negative, the balance or the
                normaliser is not known, or there are two views without labels.
        """
        if masked_lm is None:
            raise ValueError(
                "MslmConfig: the configuration of a masked language model is missing; use "
                "MslmModel.wrap to make an MslmModel from a plain model or its folder"
            )
        if isinstance(labels, str) or len(set(labels)) < len(labels):
            raise ValueError(
                "MslmConfig: expected labels as a list of unique names, got a string or a "
                "duplicate name"
            )
        check_weights("MslmConfig", w_elm, w_blm)
        check_name("MslmConfig", "balance", balance, BALANCES)
        check_name("MslmConfig", "normaliser", normaliser, NORMALISERS)
        if two_views and not labels:
            raise ValueError(
                "MslmConfig: two_views=True needs labels; the second view is for the heads, which "
                "a model without labels lacks"
            )

        # Before `masked_lm` is set: transformers would reset the attention implementation that it
        # has.
        super().__init__(**others)

        if isinstance(masked_lm, dict):
            options = dict(masked_lm)
            masked_lm = AutoConfig.for_model(options.pop("model_type"), **options)
        if special_ids is None:
            special_ids = _named_ids(masked_lm)

        self.masked_lm = masked_lm
        self.labels = list(labels)
        self.w_elm = float(w_elm)
        self.w_blm = float(w_blm)
        self.balance = balance
        self.per_rate = per_rate
        self.normaliser = normaliser if per_rate else "masked"
        self.two_views = bool(labels) if two_views is None else two_views
        self.detection_size = detection_size
        self.classification_size = classification_size
        self.dropout = dropout
        self.special_ids = sorted(set(special_ids))
        self.protected = protected

    @classmethod
    def options(cls) -> list[str]:
        """Return the names of the options of an `MslmModel`; see the attributes above."""
        named = inspect.signature(cls.__init__).parameters.values()
        return [one.name for one in named if one.kind is one.KEYWORD_ONLY]

    @property
    def tags(self) -> list[str]:
        """Tag names, in the order of `bio`."""
        return tag_names(self.labels)


def _named_ids(config: PreTrainedConfig) -> list[int]:
    """Return the ids of special tokens that a configuration names.

    Configurations have None, or -1, for what a model lacks.
    """
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    ids = [getattr(config, name, None) for name in names]
    return [id_ for id_ in ids if isinstance(id_, int) and id_ >= 0]
