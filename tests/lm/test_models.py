import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from labkit.lm.models import load_model, num_parameters, tiny_model
from tests.tiny import BOS, EOS, PAD, SHAPE, WORDS, A, B, llama, tokenizer


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_seed_decides_the_weights_whatever_the_global_generator_holds():
    torch.manual_seed(5)
    first = weights(tiny_model(SHAPE, tokenizer(), seed=1))
    torch.manual_seed(6)
    assert torch.equal(first, weights(tiny_model(SHAPE, tokenizer(), seed=1)))
    assert not torch.equal(first, weights(tiny_model(SHAPE, tokenizer(), seed=2)))


def test_making_a_model_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tiny_model(SHAPE, tokenizer(), seed=1)
    assert torch.equal(torch.rand(3), expected), "tiny_model drew from or reseeded torch's global generator"


def test_the_model_has_the_tokenizers_vocabulary_and_special_tokens():
    model = tiny_model(SHAPE, tokenizer(), seed=0)
    assert isinstance(model, LlamaForCausalLM)
    assert model(torch.tensor([[BOS, A]])).logits.shape == (1, 2, len(WORDS))
    assert (model.config.pad_token_id, model.config.bos_token_id, model.config.eos_token_id) == (
        PAD,
        BOS,
        EOS,
    )
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_parameters_are_counted_once_by_hand():
    model = tiny_model(SHAPE, tokenizer(), seed=0)
    width, mlp = SHAPE.width, SHAPE.mlp_width
    block = 4 * width**2 + 3 * width * mlp + 2 * width
    # The output layer is the embedding: one matrix, one count.
    assert num_parameters(model) == len(WORDS) * width + SHAPE.layers * block + width


def test_saving_and_loading_keeps_the_model_and_the_tokenizer(tmp_path):
    model = llama()
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    ids = torch.tensor([[BOS, A, B, A]])
    loaded, loaded_tokenizer = load_model(tmp_path)
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert not loaded.training, "a loaded model is ready to be used, dropout off"
    assert loaded_tokenizer("a b")["input_ids"] == [A, B]
    # What a learner meets here works outside: transformers' own loader takes the folder too.
    assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path)(ids).logits, model(ids).logits)


def test_weights_come_back_as_float32_however_they_were_stored(tmp_path):
    llama().to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    assert {p.dtype for p in load_model(tmp_path)[0].parameters()} == {torch.float32}


def test_a_missing_model_says_what_is_needed_and_how_to_make_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json.*labkit run points24-base"):
        load_model(tmp_path / "nowhere")
