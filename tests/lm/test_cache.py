import pytest
import torch
from transformers import DynamicCache

from labkit.lm.cache import DecodingCache, PreallocatedLayer
from tests.tiny import BOS, A, B, C, D, gpt2, llama, seeded


def keys_and_values(tokens, batch=2, seed=0):
    generator = seeded(seed)
    return torch.rand(batch, 3, tokens, 4, generator=generator), torch.rand(
        batch, 3, tokens, 4, generator=generator
    )


@pytest.mark.parametrize("make", [llama, gpt2])
@torch.no_grad()
def test_logits_equal_those_with_transformers_own_cache(make):
    model = make()
    ours, theirs = DecodingCache(model.config, capacity=10, max_rows=3), DynamicCache(config=model.config)
    for ids in ([[BOS, A, B], [BOS, C, D]], [[A], [B]], [[C], [C]], [[D], [A]]):
        logits = [model(torch.tensor(ids), cache=cache, use_cache=True).logits for cache in (ours, theirs)]
        assert torch.equal(*logits)
        assert ours.get_seq_length() == theirs.get_seq_length()


@torch.no_grad()
def test_logits_equal_those_without_a_cache():
    model, ids = llama(), torch.tensor([[BOS, A, B, C, D]])
    cache = DecodingCache(model.config, capacity=5, max_rows=3)
    pieces = [model(ids[:, i : i + 1], cache=cache, use_cache=True).logits for i in range(5)]
    torch.testing.assert_close(torch.cat(pieces, 1), model(ids).logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_selected_rows_go_on_as_if_they_had_been_alone():
    model = llama()
    prompts = torch.tensor([[BOS, A, B], [BOS, C, D], [BOS, D, D]])
    cache = DecodingCache(model.config, capacity=4, max_rows=3)
    model(prompts, cache=cache, use_cache=True)
    rows = torch.tensor([2, 0, 2])  # dropped, reordered and repeated
    cache.select(rows)
    step = model(torch.tensor([[A], [B], [C]]), cache=cache, use_cache=True).logits[:, -1]
    whole = model(torch.cat([prompts[rows], torch.tensor([[A], [B], [C]])], 1)).logits[:, -1]
    torch.testing.assert_close(step, whole, atol=1e-5, rtol=1e-5)


def test_rows_repeated_by_select_do_not_share_memory():
    layer = PreallocatedLayer(capacity=3, max_rows=2)
    layer.update(*keys_and_values(2, batch=1))
    layer.select(torch.tensor([0, 0]))
    assert len(layer.keys) == len(layer.values) == 2, "what is handed out still has the old rows"
    layer.update(*keys_and_values(1, seed=1))
    assert not torch.equal(layer.keys[0, :, 2], layer.keys[1, :, 2]), "one row's token overwrote the other's"
    assert torch.equal(layer.keys[0, :, :2], layer.keys[1, :, :2])


def test_a_token_is_written_in_place_and_not_by_copying_the_cache():
    layer = PreallocatedLayer(capacity=8, max_rows=2)
    layer.update(*keys_and_values(2))
    address = layer.keys.data_ptr()
    layer.update(*keys_and_values(1))
    assert layer.keys.data_ptr() == address
    assert layer.keys.shape == layer.values.shape == (2, 3, 3, 4)


def test_one_token_too_many_is_an_error_and_the_last_that_fits_is_not():
    layer = PreallocatedLayer(capacity=3, max_rows=2)
    layer.update(*keys_and_values(2))
    layer.update(*keys_and_values(1))
    with pytest.raises(ValueError, match="2 rows of 3 tokens, 2 of 4 were given"):
        layer.update(*keys_and_values(1))


@torch.no_grad()
def test_rows_keep_their_tokens_through_many_selections():
    """Two buffers take turns, so that what was selected twice ago must not show through."""
    generator, layer = seeded(3), PreallocatedLayer(capacity=6, max_rows=5)
    plain = keys_and_values(2)[0]
    layer.update(plain, plain)
    for step in range(4):
        rows = torch.randint(len(plain), (5 - step % 3,), generator=generator)
        layer.select(rows)
        token = torch.rand(len(rows), 3, 1, 4, generator=generator)
        layer.update(token, -token)
        plain = torch.cat([plain[rows], token], 2)
        assert torch.equal(layer.keys, plain)
        assert torch.equal(layer.values[:, :, 2:], -plain[:, :, 2:])


def test_more_rows_than_there_is_room_for_are_refused():
    layer = PreallocatedLayer(capacity=3, max_rows=2)
    layer.update(*keys_and_values(1))
    with pytest.raises(ValueError, match="room for 2 rows, 3 were asked for"):
        layer.select(torch.tensor([0, 1, 1]))
