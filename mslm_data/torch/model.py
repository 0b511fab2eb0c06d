"""A Hugging Face masked language model with MSLM's loss and heads (Abaho et al. 2024, Eq. 6 to 12).

Dimensions: B sequences, L tokens, S mentions (padded).
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mslm_data import _optional
from mslm_data.errors import PushError
from mslm_data.kernels.pad import IGNORED
from mslm_data.torch.config import MslmConfig
from mslm_data.torch.families import FAMILIES, decoder_of
from mslm_data.torch.heads import EntityClassificationHead, EntityDetectionHead, VectorHead
from mslm_data.torch.loss import MaskSpecificLoss
from mslm_data.torch.output import MslmOutput, Prediction
from mslm_data.torch.spans import NO_SPAN, decode_spans
from mslm_data.torch.steps import divisors, share

if TYPE_CHECKING:
    import transformers
    from transformers import PreTrainedModel, initialization
else:
    transformers = _optional.load("transformers", wanted_by="MslmModel")
    from transformers import PreTrainedModel, initialization


class MslmModel(PreTrainedModel):
    """A masked language model, trained by Eq. 12; saves, loads and pushes as any Hugging Face model.

    One that learns from patients' text (`config.protected`) is not pushed.

    Attributes:
        masked_lm: The model that was wrapped; `masked_lm.save_pretrained` saves it as it was, adapted.
        detection: Eq. 7, None without labels.
        classification: Eq. 10, None without labels.
    """

    config_class = MslmConfig
    config: MslmConfig
    base_model_prefix = "masked_lm"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = (
        True  # so that the Trainer gives num_items_in_batch and does not divide once more
    )
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, config: MslmConfig, masked_lm: PreTrainedModel | None = None) -> None:
        """Make a model; `wrap` and `from_pretrained` are the ways to one with trained weights.

        Args:
            config: What it is.
            masked_lm: The model to wrap; None makes one with random weights.
        """
        super().__init__(config)
        self.masked_lm: Any = (
            transformers.AutoModelForMaskedLM.from_config(config.masked_lm)
            if masked_lm is None
            else masked_lm
        )
        self.config.masked_lm = self.masked_lm.config
        width, types = self.masked_lm.config.hidden_size, len(config.labels)
        self.detection = self.classification = None
        if types:
            k, d, dropout = config.detection_size, config.classification_size, config.dropout
            self.detection = EntityDetectionHead(
                width, len(config.tags), vector_size=k, dropout=dropout
            )
            self.classification = EntityClassificationHead(
                width, types, vector_size=d, dropout=dropout
            )
        self.mask_specific_loss = MaskSpecificLoss(
            config.w_elm, config.w_blm, reduction=config.reduction
        )
        if decoder_of(self.masked_lm) is None:
            warnings.warn(
                f"MslmModel: the head of model type '{config.masked_lm.model_type}' is not known here, so all "
                f"positions are projected to the vocabulary, not only masked ones; known: {', '.join(FAMILIES)}",
                stacklevel=2,
            )
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def wrap(cls, masked_lm: PreTrainedModel | str | os.PathLike[str], **options: Any) -> MslmModel:
        """Wrap a masked language model; the result is in training or evaluation as the model is.

        Args:
            masked_lm: A model (with its embeddings at their final size), or a folder or hub name of one.
            options: What `MslmConfig` takes: labels, w_elm, w_blm, reduction, protected, …
        """
        model: Any = masked_lm
        if not isinstance(masked_lm, PreTrainedModel):
            model = transformers.AutoModelForMaskedLM.from_pretrained(masked_lm)
        for module in model.modules():  # not to be initialised again with the heads
            module._is_hf_initialized = True
        wrapped = cls(MslmConfig(model.config, **options), model)
        wrapped.train(model.training)
        return wrapped

    def encoder(self) -> PreTrainedModel:
        """Return the adapted plain encoder (the same weights, no copy), to be saved and loaded by `AutoModel`.

        It is a plain model, which nobody keeps from being pushed.
        """
        base: PreTrainedModel = self.masked_lm.base_model
        return base

    def push_to_hub(self, repo_id: str, *, share_protected: bool = False, **options: Any) -> Any:  # type: ignore[override] # theirs is no function
        """Upload the model, as every Hugging Face model does.

        Args:
            repo_id: `OWNER/NAME` on the hub.
            share_protected: Upload a model of patients' text too. Data use agreements forbid it as a rule: who says so
                answers for it.
            **options: See transformers.

        Raises:
            PushError: It learns from patients' text.
        """
        self._refuse_protected(share_protected)
        upload: Any = super().push_to_hub
        return upload(repo_id, **options)

    def save_pretrained(self, *args: Any, share_protected: bool = False, **options: Any) -> None:
        """Save the model; with `push_to_hub=True` it is uploaded too, see there."""
        self._refuse_protected(share_protected or not options.get("push_to_hub"))
        super().save_pretrained(*args, **options)

    def _refuse_protected(self, may: bool) -> None:
        if self.config.protected and not may:
            raise PushError(
                "MslmModel: expected a model that may be shared, got one that learns from patients' text, of which it "
                "may hold pieces; data use agreements forbid to share it; pass share_protected=True if yours does not"
            )

    def get_input_embeddings(self) -> Any:
        """Return the encoder's token embeddings."""
        return self.masked_lm.get_input_embeddings()

    def resize_token_embeddings(self, *args: Any, **options: Any) -> Any:
        """Resize the masked language model's embeddings and head, so that its own configuration knows."""
        return self.masked_lm.resize_token_embeddings(*args, **options)

    def _init_weights(self, module: Any) -> None:
        super()._init_weights(module)  # type: ignore[no-untyped-call]
        if isinstance(module, VectorHead):
            initialization.normal_(module.vector, std=0.02)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        mask_kinds: Tensor | None = None,
        bio: Tensor | None = None,
        span_starts: Tensor | None = None,
        span_ends: Tensor | None = None,
        span_labels: Tensor | None = None,
        keys: Tensor | None = None,  # noqa: ARG002
        num_items_in_batch: Tensor | int | None = None,
        **encoder_inputs: Any,
    ) -> MslmOutput:
        """Encode a batch and compute the losses it has labels for.

        Args:
            input_ids: int64 `[B, L]`.
            attention_mask: `[B, L]`.
            labels: int64 `[B, L]`, -100 where nothing is predicted.
            mask_kinds: uint8 `[B, L]`; must be there if labels are.
            bio: int64 `[B, L]`, -100 on special tokens and padding.
            span_starts: int64 `[B, S]`, gold mentions, padded with -1.
            span_ends: Likewise, half open.
            span_labels: Likewise.
            keys: Not used; a batch has them.
            num_items_in_batch: Of all batches of a step: the number of masked tokens, as the Trainer has it, or the
                counts of `CountedSteps`. With the first, each batch's losses have the share of its masked tokens, so
                that Eq. 6 as a mean is exact; with the second everything is.
            encoder_inputs: What else the encoder takes.

        Raises:
            ValueError: Labels without mask kinds.
        """
        if labels is not None and mask_kinds is None:
            raise ValueError(
                "MslmModel: expected mask_kinds beside labels, got labels alone, which would train without weights; "
                "make batches with MaskedDataset or MaskingCollator"
            )
        hidden, logits = self._encode(
            input_ids, attention_mask, encoder_inputs, for_mslm=labels is not None
        )
        of_mslm, of_detection, of_classification = divisors(
            num_items_in_batch, self.config.reduction
        )
        reduction = self.config.reduction
        losses: dict[str, Tensor] = {}
        tag_logits = span_logits = None
        if labels is not None and mask_kinds is not None:
            losses["mslm_loss"] = self._mslm_loss(hidden, logits, labels, mask_kinds, of_mslm)
        if self.detection is not None:
            tag_logits = self.detection(hidden)
            if bio is not None:
                losses["detection_loss"] = self.detection.loss(
                    tag_logits, bio, reduction=reduction, num_items=of_detection
                )
        if self.classification is not None and span_starts is not None and span_ends is not None:
            span_logits = self.classification(hidden, span_starts, span_ends)
            if span_labels is not None:
                losses["classification_loss"] = self.classification.loss(
                    span_logits, span_labels, reduction=reduction, num_items=of_classification
                )
        loss = (
            torch.stack(list(losses.values())).sum() * share(num_items_in_batch, labels)
            if losses
            else None
        )
        return MslmOutput(loss=loss, tag_logits=tag_logits, span_logits=span_logits, **losses)

    def _encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        others: dict[str, Any],
        *,
        for_mslm: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the last hidden states, and all logits where Eq. 6 needs them: if the head is not known."""
        encoder = self.masked_lm.base_model
        if not for_mslm or decoder_of(self.masked_lm) is not None:
            return encoder(input_ids, attention_mask=attention_mask, **others)[0], None
        seen: list[Tensor] = []
        watch = encoder.register_forward_hook(lambda *call: seen.append(call[-1][0]))
        try:
            logits = self.masked_lm(input_ids, attention_mask=attention_mask, **others).logits
        finally:
            watch.remove()
        return seen[-1], logits

    def _mslm_loss(
        self,
        hidden: Tensor,
        logits: Tensor | None,
        labels: Tensor,
        mask_kinds: Tensor,
        num_items: Tensor | None,
    ) -> Tensor:
        decoder = decoder_of(self.masked_lm)
        if decoder is not None:
            return self.mask_specific_loss.from_hidden(
                hidden, decoder, labels, mask_kinds, num_items=num_items
            )
        loss: Tensor = self.mask_specific_loss(logits, labels, mask_kinds, num_items=num_items)
        return loss

    @torch.no_grad()
    def predict(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        special_tokens_mask: Tensor | None = None,
        **encoder_inputs: Any,
    ) -> Prediction:
        """Find the entities of unmasked text, without dropout.

        Args:
            input_ids: int64 `[B, L]`.
            attention_mask: `[B, L]`; None is all ones.
            special_tokens_mask: `[B, L]`, as tokenizers give it: 1 on tokens that are in no mention; None: those of
                the configuration's `special_ids`.
            encoder_inputs: What else the encoder takes.

        Raises:
            ValueError: The model has no labels.
        """
        if self.detection is None or self.classification is None:
            raise ValueError(
                "MslmModel.predict: expected a model with labels, got one with none; wrap it with labels="
            )
        training = self.training
        self.train(False)
        try:
            hidden, _ = self._encode(input_ids, attention_mask, encoder_inputs, for_mslm=False)
            none = self._in_no_mention(input_ids, attention_mask, special_tokens_mask)
            tags = self.detection(hidden).argmax(-1).masked_fill(none, IGNORED)
            starts, ends, _ = decode_spans(tags)
            types = (
                self.classification(hidden, starts, ends)
                .argmax(-1)
                .masked_fill(starts == NO_SPAN, NO_SPAN)
            )
        finally:
            self.train(training)
        return Prediction(tags, starts, ends, types, tuple(self.config.labels))

    def _in_no_mention(
        self, input_ids: Tensor, attention_mask: Tensor | None, special: Tensor | None
    ) -> Tensor:
        """Return where special tokens and padding are, bool `[B, L]`."""
        if special is None:
            special = torch.isin(
                input_ids, torch.tensor(self.config.special_ids, device=input_ids.device)
            )
        return special.bool() if attention_mask is None else special.bool() | (attention_mask == 0)


transformers.AutoConfig.register("mslm", MslmConfig, exist_ok=True)
transformers.AutoModel.register(MslmConfig, MslmModel, exist_ok=True)
