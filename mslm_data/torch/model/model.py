"""A Hugging Face masked language model with MSLM's loss and heads (Abaho et al. 2024, Eq. 6 to 12).

Dimensions: B rows, L tokens, S mentions (padded), H hidden size, V vocabulary size, C tags, E
entity types.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mslm_data import _optional
from mslm_data.batches.collate import FLAT_COLUMNS
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_starts import WordStarts
from mslm_data.errors import PushError, TokenizerError
from mslm_data.io.files import make_folder
from mslm_data.kernels.pad import IGNORED
from mslm_data.registry import did_you_mean
from mslm_data.torch.model import saved
from mslm_data.torch.model.checks import check_tokenizer
from mslm_data.torch.model.config import MslmConfig
from mslm_data.torch.model.families import check_decoder, find_decoder
from mslm_data.torch.model.flat import encoder_inputs, use_flat_attention
from mslm_data.torch.model.forward import check_numbers, evaluating, unmasked
from mslm_data.torch.model.heads import EntityClassificationHead, EntityDetectionHead
from mslm_data.torch.model.loss import MaskSpecificLoss, check_weights
from mslm_data.torch.model.output import MslmOutput, Prediction
from mslm_data.torch.model.ranges import NO_SPAN, decode_spans, take_first_tags
from mslm_data.torch.model.steps import count_tokens
from mslm_data.torch.predict.tagger import BATCH_SIZE, Tagger, TextMention

if TYPE_CHECKING:
    import transformers
    from transformers import PreTrainedModel
else:
    transformers = _optional.load("transformers", wanted_by="MslmModel")
    from transformers import PreTrainedModel


_NOT_ENCODED = ("keys", "doc_labels")
"""Columns of a batch that neither the encoder nor the losses read.

They are no parameters of `forward`, as the Trainer would then expect `doc_labels` in every batch,
like all arguments with "label" in their names.
"""


class MslmModel(PreTrainedModel):
    """A masked language model trained with Eq. 12, the sum of Eq. 6, Eq. 8 and Eq. 11.

    It is saved, loaded and pushed like any Hugging Face model. A model trained on patients' text
    (`config.protected`) is not pushed.

    **Loss.** The losses are sums over masked tokens (Eq. 6), tagged tokens (Eq. 8) and mentions
    (Eq. 11), added with constant weights and divided once, by the number of non-special tokens of
    the optimizer step. The default weights are 1, which keeps the proportions of the paper's plain
    sums. There are many more tagged tokens than masked tokens and mentions; `loss_weights` counts
    the weights with which the parts are about means over their own items.

    **Two views.** By default, a model with labels encodes each row twice: masked for Eq. 6, and
    unmasked for Eq. 7 to 11. The paper encodes only masked rows; use `two_views=False` for that.

    Attributes:
        masked_lm: The wrapped model. `masked_lm.save_pretrained` saves it in its own architecture.
            Its `sdpa` attention is replaced by `mslm_flat`, which takes flat rows too.
        detection: Head of Eq. 7; None without labels.
        classification: Head of Eq. 10; None without labels.
        tokenizer: Tokenizer of the rows, saved beside the weights; None if unknown.
    """

    config_class = MslmConfig
    config: MslmConfig
    base_model_prefix = "masked_lm"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    # Trainer would pass the number of masked tokens; `MslmTrainer` counts all tokens.
    accepts_loss_kwargs = False
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True

    def __init__(self, config: MslmConfig, masked_lm: PreTrainedModel | None = None) -> None:
        """Create a model. To start from trained weights, use `wrap` or `from_pretrained`.

        Args:
            config: The configuration.
            masked_lm: The model to wrap. Default: a new model with random weights.
        """
        super().__init__(config)
        if masked_lm is None:
            masked_lm = transformers.AutoModelForMaskedLM.from_config(config.masked_lm)
        self.masked_lm: Any = masked_lm
        use_flat_attention(self.masked_lm)
        self.config.masked_lm = self.masked_lm.config
        self.tokenizer: Tokenizer | None = None
        self._word_starts: tuple[Tokenizer, WordStarts] | None = None

        self.mask_specific_loss = MaskSpecificLoss(
            config.w_elm, config.w_blm, per_rate=config.per_rate
        )
        self.detection: EntityDetectionHead | None = None
        self.classification: EntityClassificationHead | None = None
        if config.labels:
            width = self.masked_lm.config.hidden_size
            self.detection = EntityDetectionHead(width, len(config.tags), dropout=config.dropout)
            self.classification = EntityClassificationHead(
                width, len(config.labels), dropout=config.dropout
            )
            # The wrapped model may be in half precision, or on a GPU through `device_map`.
            for head in (self.detection, self.classification):
                head.to(self.masked_lm.device, self.masked_lm.dtype)

        self.post_init()

    @classmethod
    def wrap(
        cls,
        masked_lm: PreTrainedModel | str | os.PathLike[str],
        *,
        tokenizer: Any = None,
        **options: Any,
    ) -> MslmModel:
        """Add MSLM's loss and heads to a masked language model.

        The heads get the model's dtype and device. Training or evaluation mode stays as it is:
        transformers loads models in evaluation mode, so call `train()` before your own training
        loop.

        Args:
            masked_lm: A model with resized embeddings, if any were added; or its folder or hub
                name.
            tokenizer: Tokenizer of the rows: `shards.tokenizer`, a path, a hub name, or a fast
                tokenizer of transformers. Default: the tokenizer in the model's folder, if there is
                one.
            options: Options of `MslmConfig`: labels, two_views, w_elm, w_blm, per_rate, …

        Raises:
            TypeError: `masked_lm` has no language modeling head.
            TokenizerError: The tokenizer cannot be loaded.
            ValueError: The tokenizer does not match the model, the model family is not supported,
                an option is unknown, or `masked_lm` is an `MslmModel`.
        """
        known = MslmConfig.options()
        unknown = [name for name in options if name not in known]
        if unknown:
            hint = did_you_mean(unknown[0], known)
            raise ValueError(f"MslmModel.wrap: unknown option '{unknown[0]}'{hint}")
        if isinstance(masked_lm, MslmModel):
            raise ValueError(
                "MslmModel.wrap: expected a masked language model, got an MslmModel; wrap its "
                "masked_lm"
            )

        if isinstance(masked_lm, str | Path):
            model: Any = transformers.AutoModelForMaskedLM.from_pretrained(masked_lm)
            folder = str(masked_lm)
        else:
            model = masked_lm
            # Loaded from a folder, it may have its tokenizer there.
            name = getattr(model, "name_or_path", "")
            folder = name if Path(name).is_dir() else ""
        check_decoder(model)

        # The tokenizer of the rows decides which ids are special, and must be the model's.
        own = None
        if tokenizer is None or Path(folder).is_dir():
            own = saved.find_tokenizer(folder)
        rows_tokenizer = own if tokenizer is None else saved.as_tokenizer(tokenizer)
        if rows_tokenizer is not None:
            options.setdefault("special_ids", saved.special_ids(rows_tokenizer))

        # Keep the trained weights: `post_init` initialises all modules without this flag.
        for module in model.modules():
            module._is_hf_initialized = True

        wrapped = cls(MslmConfig(model.config, **options), model)
        wrapped.train(model.training)
        wrapped.tokenizer = own
        if rows_tokenizer is not None:
            check_tokenizer("MslmModel.wrap", wrapped, rows_tokenizer.ids)
        wrapped.tokenizer = rows_tokenizer
        return wrapped

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *args: Any,
        tokenizer: Any = None,
        **options: Any,
    ) -> Any:
        """Load a saved model with its tokenizer, like any Hugging Face model.

        Args:
            pretrained_model_name_or_path: A folder or hub name.
            *args: Passed to transformers.
            tokenizer: See `wrap`. Default: the saved tokenizer.
            **options: Passed to transformers.

        Raises:
            TokenizerError: The tokenizer cannot be loaded.
            ValueError: The tokenizer does not match the model.
        """
        load: Any = super().from_pretrained
        loaded = load(pretrained_model_name_or_path, *args, **options)
        # With `output_loading_info=True`, transformers returns a tuple.
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if tokenizer is None:
            model.tokenizer = saved.find_tokenizer(pretrained_model_name_or_path)
        else:
            rows_tokenizer = saved.as_tokenizer(tokenizer)
            check_tokenizer("MslmModel.from_pretrained", model, rows_tokenizer.ids)
            model.tokenizer = rows_tokenizer
        return loaded

    def encoder(self) -> PreTrainedModel:
        """Return the adapted encoder as a plain model, for saving and `AutoModel`.

        Its weights are shared, not copied. As a plain model it can be pushed even if
        `config.protected`.
        """
        base: PreTrainedModel = self.masked_lm.base_model
        return base

    def save_encoder(self, folder: str | os.PathLike[str]) -> None:
        """Save the plain encoder with its tokenizer, for `AutoModel` and `AutoTokenizer`."""
        folder = Path(folder)
        make_folder(folder)
        self.encoder().save_pretrained(folder)
        self._finish(folder)

    def push_to_hub(self, *args: Any, **options: Any) -> Any:
        """Upload the model with its tokenizer, like any Hugging Face model.

        Raises:
            PushError: The model is trained on patients' text.
        """
        self._check_shareable()
        return super().push_to_hub(*args, **options)

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        push_to_hub: bool = False,
        **options: Any,
    ) -> None:
        """Save the model with its tokenizer and a model card, in files that only their owner reads.

        Args:
            save_directory: The folder. Created if missing.
            is_main_process: Whether this process writes the files.
            state_dict: Weights to save instead of the model's own.
            push_to_hub: Whether to upload weights and configuration too. The method `push_to_hub`
                also uploads the tokenizer.
            **options: Options of transformers.

        Raises:
            PushError: With `push_to_hub`, the model is trained on patients' text.
        """
        if push_to_hub:
            self._check_shareable()
        folder = Path(save_directory)
        make_folder(folder)
        super().save_pretrained(folder, is_main_process, state_dict, push_to_hub, **options)
        if is_main_process:
            self._finish(folder)
            saved.write_card(folder, self.config)

    def _finish(self, folder: Path) -> None:
        """Make saved files private, and write the tokenizer beside them."""
        saved.make_private(folder)
        if self.tokenizer is not None:
            saved.write_tokenizer(folder, self.tokenizer, self)

    def _check_shareable(self) -> None:
        if self.config.protected:
            raise PushError(
                "MslmModel: the model is trained on patients' text, which it may have memorised; "
                "data use agreements forbid sharing it; if yours does not, set "
                "model.config.protected = False"
            )

    def get_input_embeddings(self) -> Any:
        """Return the token embeddings of the encoder."""
        return self.masked_lm.get_input_embeddings()

    def resize_token_embeddings(self, *args: Any, **options: Any) -> Any:
        """Resize the masked language model's embeddings and head, and update its configuration."""
        return self.masked_lm.resize_token_embeddings(*args, **options)

    def set_loss_weights(
        self, *, w_elm: float, w_blm: float, w_mslm: float = 1.0, w_classification: float = 1.0
    ) -> None:
        """Set the weights of the loss, for example when a part of a curriculum begins.

        Raises:
            ValueError: A weight is negative or not finite.
        """
        weights = {
            "w_elm": w_elm,
            "w_blm": w_blm,
            "w_mslm": w_mslm,
            "w_classification": w_classification,
        }
        check_weights("MslmModel.set_loss_weights", **weights)
        self.config.update(weights)
        self.mask_specific_loss.w_elm = w_elm
        self.mask_specific_loss.w_blm = w_blm

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        mask_kinds: Tensor | None = None,
        mask_rates: Tensor | None = None,
        bio: Tensor | None = None,
        span_starts: Tensor | None = None,
        span_ends: Tensor | None = None,
        span_labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **others: Any,
    ) -> MslmOutput:
        """Encode a batch, and compute the losses of Eq. 12 for which the batch has labels.

        Eq. 12 is the sum of the three losses, with their weights, divided by the number of
        non-special tokens of the optimizer step. Without `num_items_in_batch`, the step is this
        batch. With `torch.distributed`, all ranks must then call this together in training mode:
        they sum their tokens, so that averaged gradients equal those of one large batch. With
        gradient accumulation, pass `num_items_in_batch`.

        Args:
            input_ids: int64 `[B, L]`.
            attention_mask: `[B, L]`.
            labels: int64 `[B, L]`, original ids of masked tokens, -100 elsewhere.
            mask_kinds: uint8 `[B, L]`. Required with labels.
            mask_rates: float32 `[B]` or `[B, L]`. Required with labels and `per_rate`.
            bio: int64 `[B, L]`, -100 on special tokens and padding, whose other elements are also
                the tokens that are counted.
            span_starts: int64 `[B, S]`, first token of each gold mention, padded with -1.
            span_ends: int64 `[B, S]`, token after the last, padded with -1.
            span_labels: int64 `[B, S]`, entity types, padded with -1.
            num_items_in_batch: Number of non-special tokens of the optimizer step, over all batches
                and ranks, from `count_tokens` or `MslmTrainer`. Default: those of this batch.
            others: Passed to the encoder, except `keys` and `doc_labels`. Columns of flat rows are
                converted to the encoder's arguments, see `encoder_inputs`.

        Returns:
            `loss` is the sum of `mslm_loss`, `detection_loss` and `classification_loss`, which are
            None without labels for them. With two views, logits are those of the unmasked rows if
            the batch has tags or mentions.

        Raises:
            TypeError: The batch has NumPy arrays, such as those of `md.Batches`.
            ValueError: `mask_kinds` or `mask_rates` is missing, shapes differ, the batch has
                neither `bio` nor `num_items_in_batch`, the encoder cannot separate flat rows, the
                batch has another objective than masked tokens, or it has `loss_weights`.
        """
        _check_tensor(input_ids, "MaskedDataset(split, strategy).loader(...) makes tensors")
        if "objective" in others:
            raise ValueError(
                "MslmModel: expected batches with masked tokens, got those of another objective "
                "(such as 'causal'), which a model with that head learns from"
            )
        if "loss_weights" in others:
            raise ValueError(
                "MslmModel: expected batches without loss_weights, since it weighs kinds of masks "
                "itself, by w_elm and w_blm; leave out weights=..., or train a model of "
                "transformers with weighted_loss"
            )
        if labels is not None and mask_kinds is None:
            raise ValueError(
                "MslmModel: labels need mask_kinds, or the loss would have no weights; make "
                "batches with MaskedDataset or MaskingCollator"
            )

        hidden_BLH = self._encode(input_ids, attention_mask, others)
        sums: dict[str, Tensor] = {}
        tag_logits = None
        span_logits = None

        # Eq. 6: predict masked tokens.
        if labels is not None and mask_kinds is not None:
            decoder = find_decoder(self.masked_lm)
            mslm = self.mask_specific_loss.from_hidden(
                hidden_BLH, decoder, labels, mask_kinds, mask_rates
            )
            sums["mslm_loss"] = self.config.w_mslm * mslm

        # Two views: the heads read the original ids. Whether the batch has masks is not asked: a
        # GPU would have to finish its work to answer, and ranks could disagree.
        has_tags = bio is not None or span_starts is not None
        if labels is not None and has_tags and self.config.two_views:
            plain_ids = unmasked(input_ids, labels)
            hidden_BLH = self._encode(plain_ids, attention_mask, others)

        # Eq. 7 and 8: tag each token.
        if self.detection is not None:
            tag_logits = self.detection(hidden_BLH)
            if bio is not None:
                sums["detection_loss"] = self.detection.loss(tag_logits, bio)

        # Eq. 9 to 11: classify each mention.
        if self.classification is not None and span_starts is not None and span_ends is not None:
            span_logits = self.classification(hidden_BLH, span_starts, span_ends)
            if span_labels is not None:
                mention_loss = self.classification.loss(span_logits, span_labels)
                sums["classification_loss"] = self.config.w_classification * mention_loss

        if not sums:
            return MslmOutput(logits=tag_logits, span_logits=span_logits)

        # Eq. 12: divide once, then add.
        if num_items_in_batch is None:
            trains = self.training and torch.is_grad_enabled()
            tokens = count_tokens([{"bio": bio}], over_ranks=trains)
        else:
            tokens = torch.as_tensor(num_items_in_batch, device=input_ids.device).flatten()[0]
        parts = {name: sums[name] / tokens for name in sums}
        loss = torch.stack(list(parts.values())).sum()
        return MslmOutput(loss=loss, logits=tag_logits, span_logits=span_logits, **parts)

    def _encode(
        self, input_ids: Tensor, attention_mask: Tensor | None, others: dict[str, Any]
    ) -> Tensor:
        """Return the last hidden states, `[B, L, H]`."""
        others = {name: value for name, value in others.items() if name not in _NOT_ENCODED}
        others |= {"input_ids": input_ids, "attention_mask": attention_mask}

        if "sequence_ids" in others:
            flat = encoder_inputs(others, self.masked_lm)
            others = {name: x for name, x in others.items() if name not in FLAT_COLUMNS} | flat
        hidden_BLH: Tensor = self.masked_lm.base_model(**others)[0]
        return hidden_BLH

    @torch.no_grad()
    def predict(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        special_tokens_mask: Tensor | None = None,
        word_ids: Tensor | None = None,
        **others: Any,
    ) -> Prediction:
        """Predict the entities of unmasked text, without dropout.

        All tokens of a word get the tag of its first token, so entities begin and end at word
        boundaries.

        Args:
            input_ids: int64 `[B, L]`.
            attention_mask: `[B, L]`. Default: all ones.
            special_tokens_mask: `[B, L]`, 1 on tokens outside of all mentions, as returned by
                tokenizers. Default: `config.special_ids`.
            word_ids: int64 `[B, L]`, word number of each token, -1 on special tokens; for
                pre-tokenised text. Default: runs of letters and digits, found with the model's
                tokenizer; without a tokenizer, each token is a word.
            others: See `forward`.

        Raises:
            TypeError: `input_ids` is not a tensor.
            ValueError: The model has no labels.
            AnnotateError: The model's scores are NaN.
        """
        _check_tensor(input_ids, "`mslm-data annotate` reads text")
        if self.detection is None or self.classification is None:
            raise ValueError("MslmModel.predict: the model has no labels; wrap it with labels=...")

        with evaluating(self):
            hidden_BLH = self._encode(input_ids, attention_mask, others)
            sequence_ids = others.get("sequence_ids")
            outside_BL = self._find_untagged(input_ids, attention_mask, special_tokens_mask)
            tag_logits_BLC = self.detection(hidden_BLH)
            _check_numbers(tag_logits_BLC[~outside_BL])
            tags_BL = tag_logits_BLC.argmax(-1).masked_fill(outside_BL, IGNORED)

            # Extend the tag of each word's first token to the whole word.
            first_BL = self._find_first_tokens(input_ids, word_ids)
            if first_BL is not None:
                tags_BL = take_first_tags(tags_BL, first_BL).masked_fill(outside_BL, IGNORED)
            starts_BS, ends_BS, _ = decode_spans(tags_BL, sequence_ids)

            # The classification head decides the types, see `Prediction`.
            span_logits_BSE = self.classification(hidden_BLH, starts_BS, ends_BS)
            _check_numbers(span_logits_BSE[starts_BS != NO_SPAN])
            types_BS = span_logits_BSE.argmax(-1).masked_fill(starts_BS == NO_SPAN, NO_SPAN)
        return Prediction(
            tags_BL, starts_BS, ends_BS, types_BS, tuple(self.config.labels), sequence_ids
        )

    def annotate(
        self, texts: Sequence[str], *, batch_size: int = BATCH_SIZE
    ) -> list[list[TextMention]]:
        """Find the entities of texts of any length; see `mslm_data.torch.predict.tagger`.

        Args:
            texts: The texts.
            batch_size: Maximum number of windows of full length in a batch, or of shorter rows with
                as many tokens. Does not change the results.

        Returns:
            For each text, its entities in order: start and end in characters, label and score.

        Raises:
            AnnotateError: The model has no labels, or its scores are NaN.
            TokenizerError: The model has no tokenizer.
        """
        if self.tokenizer is None:
            raise TokenizerError(
                "MslmModel.annotate: the model has no tokenizer; pass "
                "tokenizer=shards.tokenizer to wrap or from_pretrained"
            )
        return Tagger(self, self.tokenizer).annotate(texts, batch_size=batch_size)

    def _find_first_tokens(self, input_ids: Tensor, word_ids: Tensor | None) -> Tensor | None:
        """Find the tokens that begin a word, bool `[B, L]`; None if words are unknown."""
        if word_ids is not None:
            first_BL = torch.ones_like(word_ids, dtype=torch.bool)
            first_BL[:, 1:] = (word_ids[:, 1:] != word_ids[:, :-1]) | (word_ids[:, 1:] < 0)
            return first_BL
        if self.tokenizer is None:
            return None

        # Cached by tokenizer: the attribute may be replaced.
        if self._word_starts is None or self._word_starts[0] is not self.tokenizer:
            self._word_starts = (self.tokenizer, WordStarts.from_tokenizer(self.tokenizer))
        is_first = self._word_starts[1].find_first_tokens(input_ids.cpu().numpy())
        return torch.from_numpy(is_first).to(input_ids.device)

    def _find_untagged(
        self, input_ids: Tensor, attention_mask: Tensor | None, special: Tensor | None
    ) -> Tensor:
        """Find special tokens and padding, bool `[B, L]`."""
        if special is None:
            ids = torch.tensor(self.config.special_ids, device=input_ids.device)
            special = torch.isin(input_ids, ids)
        if attention_mask is None:
            return special.bool()
        return special.bool() | (attention_mask == 0)


def _check_numbers(logits: Tensor) -> None:
    check_numbers(logits.float().softmax(-1).cpu().numpy())


transformers.AutoConfig.register("mslm", MslmConfig, exist_ok=True)
transformers.AutoModel.register(MslmConfig, MslmModel, exist_ok=True)


def _check_tensor(input_ids: object, advice: str) -> None:
    if not isinstance(input_ids, Tensor):
        raise TypeError(
            "input_ids: expected a tensor [B, L] of the tokenizer's ids, got "
            f"{type(input_ids).__name__}; {advice}"
        )
