from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trace_assets.errors import InputError
from trace_assets.routing.label_logits import HiddenStates, base_fingerprint, load_tokenizer

pytestmark = pytest.mark.train


def test_features_are_pooled_over_the_text_and_not_over_padding(tiny_folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    text = "please cancel order K7"
    found = HiddenStates(tiny_folder).features([text, "where " * 60])[0]
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    model = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    with torch.no_grad():
        states = model(**tokenizer(prompt, return_tensors="pt"), output_hidden_states=True).hidden_states
    parts = [states[0][0].mean(0), states[1][0].mean(0), states[2][0].mean(0), states[2][0, -1]]
    np.testing.assert_allclose(found, torch.cat(parts).numpy(), atol=1e-5)


def test_a_long_text_is_cut_at_the_context(tiny_folder: Path) -> None:
    rows = HiddenStates(tiny_folder, batch_tokens=64).features(["refund " * 600, "hi"])
    assert rows.shape == (2, 128) and np.isfinite(rows).all()


def test_no_texts_give_no_rows(tiny_folder: Path) -> None:
    assert HiddenStates(tiny_folder).features([]).shape == (0, 128)


def test_a_folder_without_tokenizer_is_named(tiny_folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((tiny_folder / name).read_bytes())
    with pytest.raises(InputError, match="tokenizer"):
        load_tokenizer(tmp_path)


def test_the_fingerprint_follows_the_weights(tiny_folder: Path, tmp_path: Path) -> None:
    for path in tiny_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert base_fingerprint(tmp_path) == base_fingerprint(tiny_folder)
    weights = bytearray((tmp_path / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert base_fingerprint(tmp_path) != base_fingerprint(tiny_folder)
    with pytest.raises(InputError, match=r"no config\.json"):
        base_fingerprint(tmp_path / "nothing")
