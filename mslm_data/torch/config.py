"""What is saved beside the weights of an `MslmModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from mslm_data import _optional
from mslm_data.data.bio import tag_names
from mslm_data.torch.heads import VECTOR_SIZE
from mslm_data.torch.loss import check_reduction, check_weights

if TYPE_CHECKING:
    from transformers import AutoConfig, PreTrainedConfig
else:
    _optional.load("transformers", wanted_by="MslmModel")
    from transformers import AutoConfig, PreTrainedConfig


class MslmConfig(PreTrainedConfig):
    """The configuration of a masked language model with MSLM's loss and heads.

    Attributes:
        masked_lm: The masked language model's own configuration.
        labels: The entity types, in the order of the shards' manifest; none: no heads.
        w_elm: Weight of entity tokens in Eq. 6.
        w_blm: Weight of other masked tokens.
        reduction: "mean" or "sum", one for all three losses; see `MaskSpecificLoss`. The mean is the default, as a sum
            over sequences of many tokens meets the trainers' clipping of gradients.
        detection_size: k of Eq. 7.
        classification_size: d of Eq. 10.
        dropout: Of the heads.
        special_ids: Ids that are in no mention, such as `[CLS] [SEP] [PAD]` (not `[UNK]`); None: those that the masked
            language model's configuration names.
        protected: Whether it learns from patients' text, as `shards.manifest.protected` says; then it is not uploaded.
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
        reduction: str = "mean",
        detection_size: int = VECTOR_SIZE,
        classification_size: int = VECTOR_SIZE,
        dropout: float = 0.1,
        special_ids: Sequence[int] | None = None,
        protected: bool = False,
        **others: Any,
    ) -> None:
        """Make a configuration.

        Raises:
            ValueError: No masked language model, or a weight or reduction that the loss refuses.
        """
        if masked_lm is None:
            raise ValueError(
                "MslmConfig: expected the configuration of a masked language model, got none; "
                "MslmModel.wrap makes an MslmModel of a plain model or its folder"
            )
        check_weights("MslmConfig", w_elm, w_blm)
        super().__init__(
            **others
        )  # before masked_lm is there: it would undo its attention implementation
        if isinstance(masked_lm, dict):
            kind = masked_lm["model_type"]
            masked_lm = AutoConfig.for_model(
                kind, **{k: v for k, v in masked_lm.items() if k != "model_type"}
            )
        self.masked_lm = masked_lm
        self.labels = list(labels)
        self.w_elm, self.w_blm = float(w_elm), float(w_blm)
        self.reduction = check_reduction("MslmConfig", reduction)
        self.detection_size, self.classification_size = detection_size, classification_size
        self.dropout, self.protected = dropout, protected
        self.special_ids = sorted(
            set(_named_ids(masked_lm) if special_ids is None else special_ids)
        )

    @property
    def tags(self) -> list[str]:
        """The names of tags, in the order of `bio`."""
        return tag_names(self.labels)


def _named_ids(config: PreTrainedConfig) -> list[int]:
    """Return the ids of tokens that stand around a sequence, as far as a configuration names them."""
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    return [
        id_ for name in names if isinstance(id_ := getattr(config, name, None), int) and id_ >= 0
    ]
