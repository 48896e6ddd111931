from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trace_assets.policies.token_policy import choose, uniforms  # noqa: E402


def test_numbers_are_uniform_and_uncorrelated() -> None:
    seeds, positions = np.meshgrid(np.arange(200, dtype=np.uint64), np.arange(200, dtype=np.uint64))
    drawn = uniforms(seeds.ravel(), positions.ravel()).reshape(200, 200)
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 43.8  # chi-square, 19 degrees of freedom, p = .001
    for a, b in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_tokens_come_as_often_as_the_model_says(temperature: float) -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, float("-inf")]])
    n = 20_000
    drawn = uniforms(np.full(n, 3, np.uint64), np.arange(n, dtype=np.uint64))
    tokens, logprobs = choose(logits.expand(n, -1), temperature, drawn)
    wanted = torch.softmax(logits[0] / temperature, -1)
    shares = np.bincount(tokens, minlength=5) / n
    assert shares == pytest.approx(wanted.numpy(), abs=0.015)
    assert shares[4] == 0
    assert logprobs[:50] == pytest.approx([float(wanted[token].log()) for token in tokens[:50]], abs=1e-5)


def test_the_ends_of_the_range_are_tokens_that_can_be() -> None:
    logits = torch.tensor([[float("-inf"), 0.0, 0.0, float("-inf")]]).expand(2, -1)
    tokens, logprobs = choose(logits, 1.0, np.array([0.0, 1 - 2.0**-53]))
    assert tokens[0] == 1
    assert tokens[1] == 2
    assert all(np.isfinite(logprobs))


def test_zero_temperature_takes_the_likeliest() -> None:
    logits = torch.randn(7, 30)
    tokens, logprobs = choose(logits, 0.0, np.zeros(7))
    assert tokens == logits.argmax(-1).tolist()
    assert logprobs == pytest.approx(torch.log_softmax(logits, -1).max(-1).values.tolist())
