"""Muon in single precision."""

from __future__ import annotations

import pytest
import torch

from trace_assets.training.demo_agent.base_run import Muon, orthogonalize

pytestmark = pytest.mark.train


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 48, 96), (2, 96, 48)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    made = orthogonalize(matrices)
    assert made.shape == shape
    for before, after in zip(matrices, made, strict=True):
        left, values, right = torch.linalg.svd(before, full_matrices=False)
        aligned = left.T @ after @ right.T
        wide = values > 0.05 * values[0]
        assert torch.all((torch.diagonal(aligned)[wide] > 0.5) & (torch.diagonal(aligned)[wide] < 1.3))
        assert (aligned - torch.diag(torch.diagonal(aligned))).abs().max() < 0.05


def test_it_agrees_with_torch_up_to_bfloat16() -> None:
    start = torch.randn(24, 12, generator=torch.Generator().manual_seed(1))
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = [Muon([ours], lr=0.02), torch.optim.Muon([theirs], lr=0.02, weight_decay=0.01)]
    for step in range(5):
        gradient = torch.randn(24, 12, generator=torch.Generator().manual_seed(step + 2))
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    assert (ours - start).norm() > 0.1
    assert (ours - theirs).norm() < 0.05 * (ours - start).norm()


def test_parameters_without_a_gradient_stay() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, 4))
    Muon([parameter]).step()
    assert torch.equal(parameter, torch.ones(4, 4))
