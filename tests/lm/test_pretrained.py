"""Models by name: SmolLM2, a folder, or what a hub gives out."""

import pytest
import torch

from labkit.lm import pretrained
from labkit.lm.pretrained import SMOLLM, load_pretrained
from tests import tiny


@pytest.fixture
def no_hub(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_local_folder_takes_a_model_s_place(tmp_path):
    saved = tiny.gpt2(3)
    saved.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    model, tokenizer = load_pretrained(tmp_path, torch.float32)
    ids = torch.tensor([tokenizer("a b c")["input_ids"]])
    assert torch.equal(model(ids).logits, saved(ids).logits)
    assert not model.training and tokenizer.decode(ids[0]) == "a b c"


def test_smollm_comes_from_its_wheel(monkeypatch):
    monkeypatch.setattr(pretrained, "load_smollm", lambda dtype: ("model", dtype))
    assert (
        load_pretrained(dtype=torch.float32)
        == load_pretrained(SMOLLM, torch.float32)
        == ("model", torch.float32)
    )


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-folder"])
def test_what_is_not_there_is_named_with_the_way_out(no_hub, name):
    with pytest.raises(RuntimeError, match=f"no model '{name}'.*Without network take '{SMOLLM}'"):
        load_pretrained(name, torch.float32)


def test_a_folder_without_a_model_is_not_looked_for_elsewhere(tmp_path):
    with pytest.raises(RuntimeError, match="no model"):
        load_pretrained(tmp_path, torch.float32)
