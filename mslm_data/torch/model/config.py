"""The configuration of an `MslmModel`, saved beside its weights."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from mslm_data import _optional
from mslm_data.data.bio import tag_names
from mslm_data.torch.model.loss import check_weights
from mslm_data.torch.model.steps import PARTS

if TYPE_CHECKING:
    from transformers import AutoConfig, PreTrainedConfig
else:
    _optional.load("transformers", wanted_by="MslmModel")
    from transformers import AutoConfig, PreTrainedConfig


class MslmConfig(PreTrainedConfig):
    """Configure a masked language model with MSLM's loss and heads.

    Attributes:
        masked_lm: Configuration of the masked language model.
        labels: Entity types, in the order of the shards' manifest. A model without labels has no
            heads.
        w_elm: Weight of tokens masked by ELM in Eq. 6.
        w_blm: Weight of tokens masked by BLM in Eq. 6.
        w_mslm: Weight of Eq. 6 in Eq. 12. `loss_weights` counts it. Default: 1, as in the paper.
        w_classification: Weight of Eq. 11 in Eq. 12, likewise.
        per_rate: Whether Eq. 6 divides each token's loss by its row's masking rate, as masked
            diffusion does. Requires `mask_rates` in batches (`md.strategy("diffusion")`). Rates
            below 0.001 are raised to it. With weights of 1, the loss is a bound in nats per token.
        two_views: Whether the heads read unmasked rows, in a second pass of the encoder. Default:
            True for models with labels. With False, the heads read masked rows, as in the paper; if
            all mentions are masked, they then find few mentions in text.
        dropout: Dropout probability of the heads.
        special_ids: Ids of tokens outside of all mentions, such as `[CLS] [SEP] [PAD]` (not
            `[UNK]`). Default: the special ids in the configuration of the masked language model.
        protected: Whether the model is trained on patients' text (`shards.manifest.protected`) and
            must not be uploaded. `MslmTrainer` and `MaskEpochCallback` set it if the training rows
            are protected.
    """

    model_type = "mslm"
    sub_configs: ClassVar[dict[str, Any]] = {"masked_lm": AutoConfig}
    keys_to_ignore_at_inference: ClassVar[list[str]] = [*PARTS, "span_logits"]
    has_no_defaults_at_init = True

    def __init__(
        self,
        masked_lm: PreTrainedConfig | dict[str, Any] | None = None,
        *,
        labels: Sequence[str] = (),
        w_elm: float = 0.5,
        w_blm: float = 0.5,
        w_mslm: float = 1.0,
        w_classification: float = 1.0,
        per_rate: bool = False,
        two_views: bool | None = None,
        dropout: float = 0.1,
        special_ids: Sequence[int] | None = None,
        protected: bool = False,
        **others: Any,
    ) -> None:
        """Set the attributes; `others` are options of any Hugging Face configuration.

        Raises:
            ValueError: `masked_lm` is None, labels repeat, a weight is negative, or `two_views` is
                set without labels.
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
        check_weights(
            "MslmConfig",
            w_elm=w_elm,
            w_blm=w_blm,
            w_mslm=w_mslm,
            w_classification=w_classification,
        )
        if two_views and not labels:
            raise ValueError(
                "MslmConfig: two_views=True needs labels; the second view is for the heads, which "
                "a model without labels lacks"
            )

        # First, as `PreTrainedConfig.__init__` resets the attention implementation of
        # sub-configurations.
        super().__init__(**others)

        if isinstance(masked_lm, dict):
            options = dict(masked_lm)
            masked_lm = AutoConfig.for_model(options.pop("model_type"), **options)
        if special_ids is None:
            special_ids = _find_special_ids(masked_lm)

        self.masked_lm = masked_lm
        self.labels = list(labels)
        self.w_elm = float(w_elm)
        self.w_blm = float(w_blm)
        self.w_mslm = float(w_mslm)
        self.w_classification = float(w_classification)
        self.per_rate = per_rate
        self.two_views = bool(labels) if two_views is None else two_views
        self.dropout = dropout
        self.special_ids = sorted(set(special_ids))
        self.protected = protected

    @classmethod
    def options(cls) -> list[str]:
        """Return the names of the options of an `MslmModel`, which are keyword arguments here."""
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [option.name for option in parameters if option.kind is option.KEYWORD_ONLY]

    @property
    def tags(self) -> list[str]:
        """Tag names, in the numbering of `bio`."""
        return tag_names(self.labels)


def _find_special_ids(config: PreTrainedConfig) -> list[int]:
    """Return the ids of special tokens in a configuration, skipping None and -1."""
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    ids = [getattr(config, name, None) for name in names]
    return [id_ for id_ in ids if isinstance(id_, int) and id_ >= 0]
