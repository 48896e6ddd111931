from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from trace_assets.training.trainer import Mismatch  # noqa: E402

pytestmark = pytest.mark.train


def test_equal_programs_have_no_mismatch_and_foreign_tokens_do_not_count() -> None:
    one = Mismatch(0.2)
    own = torch.tensor([[0, 1, 1], [1, 0, 0]])
    sampled = torch.tensor([[-9.0, -1.0, -2.0], [-0.5, -9.0, -9.0]])
    one.add(torch.where(own.bool(), sampled, torch.zeros(2, 3)), sampled, own)
    assert one.figures() == {"sampler_kl": 0.0, "sampler_difference": 0.0, "outside_clip": 0.0}


def test_a_token_without_a_probability_is_left_out_and_micro_batches_are_one() -> None:
    one, other = Mismatch(0.2), Mismatch(0.2)
    trained, sampled = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[-1.1, math.nan, -2.0]])
    one.add(trained, sampled, torch.ones(1, 3))
    for column in range(3):
        other.add(trained[:, column : column + 1], sampled[:, column : column + 1], torch.ones(1, 1))
    figures = one.figures()
    assert figures == pytest.approx(other.figures())
    assert figures["sampler_difference"] == pytest.approx(1.0)
    assert figures["outside_clip"] == pytest.approx(0.5)


def test_the_estimator_is_the_divergence_on_average() -> None:
    """Sampled from p, its mean is KL(p, q) = sum p log(p / q), computed here from the distributions."""
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.5, 0.3, 0.2])
    drawn = torch.multinomial(p, 100_000, replacement=True, generator=torch.Generator().manual_seed(0))
    found = Mismatch(0.2)
    found.add(q.log()[drawn].unsqueeze(0), p.log()[drawn].unsqueeze(0), torch.ones(1, len(drawn)))
    assert found.figures()["sampler_kl"] == pytest.approx(float((p * (p / q).log()).sum()), abs=3e-3)
