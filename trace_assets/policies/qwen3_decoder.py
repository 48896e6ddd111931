"""Qwen3 (dense) by hand: many ragged conversations in one batch, keys and values kept between turns.

The arithmetic is that of `transformers.models.qwen3` on tensors that carry no padding: the tokens of all
conversations lie behind one another, only attention sees them as rows. At the size of the tiny agent the
framework's overhead an operation outweighs the arithmetic, hence the fused projections.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from trace_assets.policies.lora import Weights

_BLOCK = 64
"""The cache grows by this many positions, or by an eighth where that is more."""
_WHOLE = 1 << 27
"""Attention scores, in number, that may be there at one time."""


def is_dense_qwen3(config: Any) -> bool:
    """Tell whether `Qwen3Decoder` computes exactly what this configuration asks for."""
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type == "qwen3"
        and config.hidden_act == "silu"
        and not getattr(config, "use_sliding_window", False)
        and rope.get("rope_type", "default") == "default"
    )


@dataclass
class _Layer:
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    out_bias: torch.Tensor | None
    head_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    norm_in: torch.Tensor
    norm_mlp: torch.Tensor


class Qwen3Decoder:
    """See `trace_assets.policies.transformers_engine.Decoder`.

    Args:
        config: The model's.
        rotary: Its rotary embedding.
        weights: Its parameters by name, an adapter merged in where wanted; it computes where they are.
        dtype: The precision that it computes in.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        rotary: torch.nn.Module,
        weights: Weights,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._dtype = dtype
        self._heads: int = config.num_attention_heads
        self._kv: int = config.num_key_value_heads
        self._dim: int = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._eps: float = config.rms_norm_eps
        self._rotary = rotary
        self._cos = self._sin = torch.empty(0)
        self.load(weights, config.num_hidden_layers)
        self._length: list[int] = []
        self._free: list[int] = []
        # Keys and values, [2, slots, heads, positions, width] a layer: they grow one after the other, so that
        # only one of them is there twice.
        self._cache = [self._embed.new_empty(2, 0, self._kv, 0, self._dim) for _ in self._layers]

    def load(self, weights: Weights, n_layers: int) -> None:
        """Take other weights of the same shapes; what open slots have read stays as it was read."""

        def get(name: str) -> torch.Tensor | None:
            value = weights.get(name)
            return None if value is None else value.detach().to(self._dtype)

        def join(prefix: str, names: Sequence[str], leaf: str) -> torch.Tensor | None:
            parts = [get(f"{prefix}.{name}.{leaf}") for name in names]
            present = [part for part in parts if part is not None]
            return torch.cat(present) if present else None

        self._layers: list[_Layer] = []
        for number in range(n_layers):
            layer = f"model.layers.{number}"
            attention = f"{layer}.self_attn"
            q_norm, k_norm = get(f"{attention}.q_norm.weight"), get(f"{attention}.k_norm.weight")
            assert q_norm is not None and k_norm is not None
            parts = {
                "qkv": join(attention, ("q_proj", "k_proj", "v_proj"), "weight"),
                "out": get(f"{attention}.o_proj.weight"),
                "gate_up": join(f"{layer}.mlp", ("gate_proj", "up_proj"), "weight"),
                "down": get(f"{layer}.mlp.down_proj.weight"),
                "norm_in": get(f"{layer}.input_layernorm.weight"),
                "norm_mlp": get(f"{layer}.post_attention_layernorm.weight"),
            }
            self._layers.append(
                _Layer(
                    qkv_bias=join(attention, ("q_proj", "k_proj", "v_proj"), "bias"),
                    out_bias=get(f"{attention}.o_proj.bias"),
                    # Scores are scaled by way of the queries' norm: rotation does not change a factor. Never
                    # rounded: that would scale all scores a little otherwise.
                    head_norm=torch.cat(
                        (
                            q_norm.float().expand(self._heads, -1) * self._dim**-0.5,
                            k_norm.float().expand(self._kv, -1),
                        )
                    ),
                    **parts,  # type: ignore[arg-type]
                )
            )
        embed, norm = get("model.embed_tokens.weight"), get("model.norm.weight")
        assert embed is not None and norm is not None
        self._embed, self._norm = embed, norm
        head = get("lm_head.weight")
        self._head = embed if head is None else head

    def open(self) -> int:
        """Return an empty slot, the lowest that is free."""
        if self._free:
            slot = heapq.heappop(self._free)
        else:
            slot = len(self._length)
            self._length.append(0)
        self._length[slot] = 0
        return slot

    def release(self, slot: int) -> None:
        """Forget what a slot holds."""
        self._length[slot] = 0
        heapq.heappush(self._free, slot)

    @torch.inference_mode()
    def feed(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Read new tokens; see `Decoder.feed`."""
        counts = [len(new) for new in tokens]
        starts = [self._length[slot] for slot in slots]
        ends = [start + count for start, count in zip(starts, counts, strict=True)]
        self._reserve(max(slots) + 1, max(ends))
        read = _Batch(slots, starts, counts, max(ends), self._cos, self._sin, self._embed.device)
        # Behind the last layer only each row's last token is asked for, so only it takes part there.
        asked = (
            read
            if read.single
            else _Batch(
                slots,
                [end - 1 for end in ends],
                [1] * len(ends),
                max(ends),
                self._cos,
                self._sin,
                self._embed.device,
            )
        )
        flat = torch.tensor([token for new in tokens for token in new], device=self._embed.device)
        hidden = F.embedding(flat, self._embed)
        for number, layer in enumerate(self._layers):
            keys, values = self._cache[number]
            final = number == len(self._layers) - 1
            hidden = self._block(hidden, layer, keys, values, read, asked if final else read)
        for slot, end in zip(slots, ends, strict=True):
            self._length[slot] = end
        return F.linear(F.rms_norm(hidden, self._norm.shape, self._norm, self._eps), self._head)

    def _block(
        self,
        hidden: torch.Tensor,
        layer: _Layer,
        keys: torch.Tensor,
        values: torch.Tensor,
        read: _Batch,
        asked: _Batch,
    ) -> torch.Tensor:
        """Pass one layer: the tokens of `read` are put into the cache, those of `asked` go on."""
        heads, kv, dim = self._heads, self._kv, self._dim
        normed = F.rms_norm(hidden, layer.norm_in.shape, layer.norm_in, self._eps)
        mixed = F.linear(normed, layer.qkv, layer.qkv_bias).view(-1, heads + 2 * kv, dim)
        turned = F.rms_norm(mixed[:, : heads + kv].float(), (dim,), None, self._eps) * layer.head_norm
        turned = torch.addcmul(turned * read.cos, turned.roll(dim // 2, dims=-1), read.sin).to(self._dtype)
        keys[read.slot, :, read.position] = turned[:, heads:]
        values[read.slot, :, read.position] = mixed[:, heads + kv :]
        queries = turned[:, :heads]
        if asked is not read:
            hidden, queries = hidden[read.last], queries[read.last]
        seen = asked.attend(queries, keys, values)
        hidden = hidden + F.linear(seen.reshape(-1, heads * dim), layer.out, layer.out_bias)
        normed = F.rms_norm(hidden, layer.norm_mlp.shape, layer.norm_mlp, self._eps)
        gate, up = F.linear(normed, layer.gate_up).chunk(2, dim=-1)
        return hidden + F.linear(F.silu(gate) * up, layer.down)

    def _reserve(self, slots: int, positions: int) -> None:
        two, had_slots, kv, had_positions, dim = self._cache[0].shape
        if slots > had_slots or positions > had_positions:
            room = max(slots, had_slots if slots <= had_slots else 2 * had_slots)
            length = had_positions
            if positions > had_positions:
                length = -(-max(positions, had_positions + had_positions // 8) // _BLOCK) * _BLOCK
            for number, had in enumerate(self._cache):
                grown = had.new_zeros(two, room, kv, length, dim)
                grown[:, :had_slots, :, :had_positions] = had
                self._cache[number] = grown
        if self._cos.shape[0] < self._cache[0].shape[3]:
            where = torch.arange(self._cache[0].shape[3], device=self._embed.device)[None]
            # Rounded as the model rounds them.
            cos, sin = (table.float() for table in self._rotary(self._embed, where))
            # (-second half, first half) * sin is (second half, first half) * (-sin, sin).
            sign = torch.ones_like(sin[0, 0])
            sign[: self._dim // 2] = -1
            self._cos, self._sin = cos[0][:, None], (sin[0] * sign)[:, None]


class _Batch:
    """Where the tokens of one pass lie: flat for everything but attention, in rows for attention."""

    def __init__(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        counts: Sequence[int],
        length: int,
        cos: torch.Tensor,
        sin: torch.Tensor,
        device: torch.device,
    ) -> None:
        self.single = max(counts) == 1
        self.fresh = not self.single and not any(starts)
        self.length = length
        n, most = len(slots), max(counts)
        slot_rows = torch.tensor(slots, device=device)
        if self.single:
            self.slot, self.position = slot_rows, torch.tensor(starts, device=device)
            bound = self.position[:, None]
        else:
            count = torch.tensor(counts, device=device)
            row = torch.repeat_interleave(torch.arange(n, device=device), count)
            ends = count.cumsum(0)
            column = torch.arange(row.shape[0], device=device) - (ends - count)[row]
            self.slot, self.position = slot_rows[row], torch.tensor(starts, device=device)[row] + column
            self.last = ends - 1
            self.cell = row * most + column
            self.cells = n * most
            bound = torch.zeros(n * most, dtype=torch.long, device=device)
            bound[self.cell] = self.position
            bound = bound.view(n, most)
        self.cos, self.sin = cos[self.position], sin[self.position]
        # Slots that are all in use can be read where they lie; otherwise they are gathered.
        self.gather = None if list(slots) == list(range(n)) else slot_rows
        self.rows = n
        self._bound, self._where = bound[..., None], torch.arange(length, device=device)

    @cached_property
    def mask(self) -> torch.Tensor:
        """What is added to scores, shape [rows, tokens, positions]: the same in every layer."""
        seen = self._seen(slice(None))
        return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, float("-inf"))

    def _seen(self, rows: slice) -> torch.Tensor:
        return self._where <= self._bound[rows]

    def attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return what each token sees, shape [tokens, heads, dim]; queries have that shape too."""
        tokens, heads, dim = queries.shape
        kv = keys.shape[1]
        if self.gather is None:
            keys, values = keys[: self.rows, :, : self.length], values[: self.rows, :, : self.length]
        else:
            keys = keys[:, :, : self.length].index_select(0, self.gather)
            values = values[:, :, : self.length].index_select(0, self.gather)
        # Scores are summed in fp32: where the precision is another, by a kernel that keeps none of them.
        exact = queries.dtype == torch.float32
        if self.single:
            grouped = queries.reshape(tokens, kv, heads // kv, dim)
            if not exact:
                mask = self.mask[:, None].to(queries.dtype)
                return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=1.0)
            scores = grouped @ keys.transpose(-1, -2) + self.mask[:, None]
            return torch.softmax(scores, dim=-1) @ values
        padded = queries.new_zeros(self.cells, heads, dim)
        padded[self.cell] = queries
        most = self.cells // self.rows
        rows = padded.view(self.rows, most, heads, dim)
        one = most * heads * self.length
        if exact and self.rows * one <= _WHOLE:
            return self._spelled_out(rows, keys, values).reshape(self.cells, heads, dim)[self.cell]
        if self.fresh and not exact:
            # What is behind a row's last token is padding: who only looks back never sees it.
            seen = F.scaled_dot_product_attention(
                rows.transpose(1, 2), keys, values, is_causal=True, scale=1.0, enable_gqa=heads != kv
            )
            return seen.transpose(1, 2).reshape(self.cells, heads, dim)[self.cell]
        parts = []
        for start in range(0, self.rows, max(1, _WHOLE // one)):
            part = slice(start, start + max(1, _WHOLE // one))
            # The kernel that takes a mask knows no groups of heads.
            seen = F.scaled_dot_product_attention(
                rows[part].transpose(1, 2),
                keys[part].repeat_interleave(heads // kv, dim=1),
                values[part].repeat_interleave(heads // kv, dim=1),
                attn_mask=self._seen(part)[:, None],
                scale=1.0,
            )
            parts.append(seen.transpose(1, 2))
        return torch.cat(parts).reshape(self.cells, heads, dim)[self.cell]

    def _spelled_out(self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Attend with all scores in memory: for few of them the quickest, and the same on every machine."""
        count, most, heads, dim = rows.shape
        kv = keys.shape[1]
        grouped = rows.view(count, most, kv, heads // kv, dim).transpose(1, 2)
        scores = grouped.reshape(count, kv, -1, dim) @ keys.transpose(-1, -2)
        scores = scores.view(count, kv, most, heads // kv, self.length) + self.mask[:, None, :, None]
        seen = torch.softmax(scores, dim=-1).view(count, kv, -1, self.length) @ values
        return seen.view(count, kv, most, heads // kv, dim).transpose(1, 2)
