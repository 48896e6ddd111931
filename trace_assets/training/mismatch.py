"""How far the trainer's log-probabilities lie from those under which the sampler drew its tokens.

Importing this module loads torch: do it where training starts, not before.
"""

from __future__ import annotations

import torch

from trace_assets.training.peers import ALONE, Peers


class Mismatch:
    """Collects the policy's own tokens of one iteration, micro-batch after micro-batch.

    Sampler and trainer hold the same weights, so every difference is that of two programs (kernels,
    precision, a template applied otherwise, an adapter that was not taken). GRPO's gradient is that
    of the trainer's probabilities at the sampler's tokens: with a ratio far from 1 it is another policy's.

    Args:
        epsilon: Half-width of the clip range of the loss, to count what lies outside.
        peers: The processes that train together: the figures are over the tokens of all.
    """

    def __init__(self, epsilon: float, peers: Peers = ALONE) -> None:
        self._epsilon, self._peers = epsilon, peers
        self._parts: list[torch.Tensor] = []

    def add(self, trained: torch.Tensor, sampled: torch.Tensor, own: torch.Tensor) -> None:
        """Take in a micro-batch.

        Args:
            trained: The trainer's log-probabilities in nats, rows x tokens.
            sampled: The sampler's, same shape; NaN where it gave none.
            own: Same shape, 1 where the policy wrote the token.
        """
        difference = (trained.float() - sampled.float())[own.bool()]
        self._parts.append(difference[~difference.isnan()].cpu().double())

    def figures(self) -> dict[str, float]:
        """Return the iteration's figures and begin the next one.

        Returns:
            `sampler_kl`: KL(sampler, trainer) a token in nats, by the estimator r - 1 - log r with
            r = trainer / sampler (Schulman 2020, "Approximating KL divergence", k3), which is never negative;
            `sampler_difference`: the largest difference of a token's log-probability, in nats;
            `outside_clip`: share of tokens with r outside 1 -/+ epsilon. Empty when there was no token.

        >>> both = Mismatch(0.2)
        >>> both.add(torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.0, -2.5]]), torch.ones(1, 2))
        >>> {name: round(value, 3) for name, value in both.figures().items()}
        {'sampler_kl': 0.074, 'sampler_difference': 0.5, 'outside_clip': 0.5}
        >>> both.figures()
        {}
        """
        parts, self._parts = self._parts, []
        difference = torch.cat(parts) if parts else torch.empty(0)
        ratio = difference.exp()
        said = (
            len(difference),
            float((ratio - 1 - difference).sum()),
            float(difference.abs().max()) if len(difference) else 0.0,
            int(((ratio - 1).abs() > self._epsilon).sum()),
        )
        tokens, divergence, largest, outside = zip(*self._peers.gather(said), strict=True)
        n = sum(tokens)
        if not n:
            return {}
        return {
            "sampler_kl": sum(divergence) / n,
            "sampler_difference": max(largest),
            "outside_clip": sum(outside) / n,
        }
