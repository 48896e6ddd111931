from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, Task
from trace_assets.routing.label_logits import LabelLogitRouter, label_prompt, label_tokens, option_lines
from trace_assets.routing.router import Router

pytestmark = pytest.mark.train


def specs(n: int) -> list[CapabilitySpec]:
    return [
        CapabilitySpec(capability_id=f"c{i}", target="t", name=f"Skill {i}", description="does\nthis")
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def router(tiny_folder: Path) -> LabelLogitRouter:
    return LabelLogitRouter(tiny_folder, option_lines(specs(2)), batch_size=2)


def test_the_log_probabilities_are_those_of_a_plain_forward_pass(
    router: LabelLogitRouter, tiny_folder: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    texts = ["cancel K1", "where is my very late order K2, please", "hi"]
    model = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    for text, row in zip(texts, router.log_probabilities(texts), strict=True):
        prompt = router.tokenizer.apply_chat_template(
            [{"role": "user", "content": label_prompt(text, router.options)}],
            tokenize=False,
            add_generation_prompt=True,
        )
        with torch.no_grad():
            logits = model(**router.tokenizer(prompt, return_tensors="pt")).logits[0, -1]
        wanted = torch.log_softmax(logits, -1)[router.tokens].numpy()
        np.testing.assert_allclose(row, wanted, atol=1e-4)


def test_routes_hold_every_choice_and_none_is_the_last_line(router: LabelLogitRouter) -> None:
    assert isinstance(router, Router)
    task = Task(task_id="a", target="t", task_batch="b", instruction="cancel K1")
    route = router.route([task])[0]
    assert list(route.probabilities) == ["c0", "c1", "none"]
    assert sum(route.probabilities.values()) == pytest.approx(1)
    assert route.choice == max(route.probabilities, key=lambda name: route.probabilities[name])
    assert "A) Skill 0: does this\nB) Skill 1: does this\nC) none" in label_prompt("x", router.options)


def test_without_capabilities_only_none_is_left(tiny_folder: Path) -> None:
    assert LabelLogitRouter(tiny_folder, option_lines([])).probabilities(["x"]) == [{"none": 1.0}]


def test_labels_that_are_not_single_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="'A' is not one token"):
        label_tokens(lambda text, add_special_tokens: {"input_ids": [1, 2]}, 2)
    with pytest.raises(InputError, match="at most 36"):
        label_tokens(None, 37)


def test_a_question_beyond_the_context_is_refused(router: LabelLogitRouter) -> None:
    with pytest.raises(InputError, match="context 512"):
        router.probabilities(["word " * 400])


def test_the_version_follows_the_options(router: LabelLogitRouter, tiny_folder: Path) -> None:
    assert LabelLogitRouter(tiny_folder, option_lines(specs(2))).version == router.version
    assert LabelLogitRouter(tiny_folder, option_lines(specs(1))).version != router.version
