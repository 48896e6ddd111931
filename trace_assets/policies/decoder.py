"""What a decoder is, and the one that works for every architecture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trace_assets.policies.lora import Weights


class Decoder(Protocol):
    """A model with the memory of many conversations, each in a slot of its own."""

    def open(self) -> int:
        """Return an empty slot."""
        ...

    def release(self, slot: int) -> None:
        """Forget what a slot holds."""
        ...

    def feed(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Read new tokens, at least one a slot.

        Args:
            slots: Distinct open slots.
            tokens: What each reads behind what it has already read.

        Returns:
            Logits behind the last token of each, shape [len(slots), vocabulary].
        """
        ...


class GenericDecoder:
    """Any causal model of Hugging Face, by its own forward and cache, one conversation at a time.

    Nothing is batched: a batch of ragged caches needs knowledge of the architecture. Right for every model,
    and slow; serve larger ones with vLLM.

    Args:
        model: Computes, with its own weights unless others are given.
        weights: What its weights shall be; those that are not among them stay.
        in_place: Put them into the model itself, instead of into a copy of it.
    """

    def __init__(
        self, model: PreTrainedModel, weights: Weights | None = None, *, in_place: bool = False
    ) -> None:
        import copy

        import torch

        if weights is not None:
            model = model if in_place else copy.deepcopy(model)
            with torch.no_grad():  # one weight after the other: merged ones are not all there at once
                for name, value in model.state_dict().items():
                    if (new := weights.get(name)) is not None:
                        value.copy_(new)
        self._model = model
        self._caches: dict[int, Any] = {}

    def open(self) -> int:
        """Return an empty slot."""
        slot = next(number for number in range(len(self._caches) + 1) if number not in self._caches)
        self._caches[slot] = None
        return slot

    def release(self, slot: int) -> None:
        """Forget what a slot holds."""
        self._caches.pop(slot, None)

    def feed(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Read new tokens, slot by slot; see `Decoder.feed`."""
        import torch

        rows: list[torch.Tensor] = []
        with torch.inference_mode():
            for slot, new in zip(slots, tokens, strict=True):
                output = self._model(
                    input_ids=torch.tensor([list(new)], device=self._model.device),
                    past_key_values=self._caches[slot],
                    use_cache=True,
                )
                self._caches[slot] = output.past_key_values
                rows.append(output.logits[0, -1])
        return torch.stack(rows)
