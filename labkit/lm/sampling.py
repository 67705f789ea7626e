"""Sampling from causal language models: batched, cached, with the log-probabilities kept.

`sample` decodes many prompts and several completions of each: completions of one prompt that agree so
far share one row of the batch, so that each distinct prefix, the prompt first of all, runs through the
model once. `sample_counts` draws many completions of one prompt, as distinct completions with counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.lm.cache import DecodingCache
from labkit.lm.scoring import position_ids

EOS, STOP, LENGTH = "eos", "stop", "length"


@dataclass(frozen=True)
class SamplingConfig:
    """How completions are drawn."""

    max_new_tokens: int
    """Longest completion, in tokens, the stopping token included."""
    temperature: float = 1.0
    """Logits are divided by this; must be positive."""
    top_k: int | None = None
    """Keep the k likeliest tokens only; None keeps all."""
    top_p: float | None = None
    """Keep the smallest set of likeliest tokens whose mass reaches p, in (0, 1]; None keeps all."""
    greedy: bool = False
    """Take the likeliest token. Log-probs are then the model's own, at temperature 1."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}; at least 1 is needed")
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; use greedy=True instead of 0")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}; at least 1, or None for all tokens")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it lies in (0, 1], or is None for all tokens")

    @property
    def truncates(self) -> bool:
        """Whether some tokens get probability 0, so that plain rescoring cannot reproduce log-probs."""
        return not self.greedy and (self.top_k is not None or self.top_p not in (None, 1.0))


@dataclass
class Samples:
    """Completions, grouped by prompt: row `i * num_samples + j` is sample j of prompt i.

    P is the longest prompt, T the longest completion drawn.
    """

    prompt_ids: Tensor
    """`[rows, P]`, padded on the left."""
    prompt_mask: Tensor
    """`[rows, P]`, True on real prompt tokens."""
    ids: Tensor
    """`[rows, T]` completion tokens, padded on the right."""
    mask: Tensor
    """`[rows, T]`, True up to and including the token that ended the completion."""
    logprobs: Tensor
    """`[rows, T]` log-probs under the distribution sampled from, 0 where the mask is False."""
    model_logprobs: Tensor
    """`[rows, T]` log-probs under the model at temperature 1, 0 where the mask is False."""
    stop_reasons: list[str]
    """Per row: `eos`, `stop` (a stop sequence) or `length`."""

    @property
    def lengths(self) -> Tensor:
        """Tokens of each completion, `[rows]`."""
        return self.mask.sum(-1)

    @property
    def sequence_ids(self) -> Tensor:
        """Prompt and completion, `[rows, P + T]`."""
        return torch.cat([self.prompt_ids, self.ids], -1)

    @property
    def sequence_mask(self) -> Tensor:
        """Attention mask of `sequence_ids`."""
        return torch.cat([self.prompt_mask, self.mask], -1)

    def completions(self) -> list[list[int]]:
        """Completion ids of each row without padding."""
        return [row[:n].tolist() for row, n in zip(self.ids, self.lengths, strict=True)]


def left_pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Ids and mask `[batch, longest]`, padding on the left."""
    if not sequences or any(len(s) == 0 for s in sequences):
        raise ValueError("every prompt needs at least one token, and there must be a prompt")
    longest = max(map(len, sequences))
    ids = torch.full((len(sequences), longest), pad_id)
    mask = torch.zeros(len(sequences), longest, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids[row, longest - len(sequence) :] = torch.as_tensor(sequence)
        mask[row, longest - len(sequence) :] = True
    return ids, mask


def warp_logits(logits: Tensor, config: SamplingConfig) -> Tensor:
    """Logits `[rows, V]` of the distribution that `config` samples from; dropped tokens get -inf."""
    logits = logits / config.temperature
    if config.top_k is not None and config.top_k < logits.shape[-1]:
        smallest_kept = logits.topk(config.top_k, -1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest_kept, float("-inf"))
    if config.top_p is not None and config.top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        mass_before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        dropped = (mass_before >= config.top_p).scatter(-1, order, mass_before >= config.top_p)
        logits = logits.masked_fill(dropped, float("-inf"))
    return logits


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    num_samples: int = 1,
    generator: torch.Generator | None = None,
    eos_id: int | None = None,
    stop_sequences: Sequence[Sequence[Sequence[int]]] | None = None,
) -> Samples:
    """Draw `num_samples` completions of each prompt (token ids without padding).

    A row ends at `eos_id` (default: the model's, which may be several), at one of its prompt's
    `stop_sequences` (one list of id sequences a prompt), or at `max_new_tokens`; finished rows leave the
    batch. Rows that share a row of the batch still draw their tokens independently. Dropout is off while
    sampling. Sampling needs a `generator`; greedy decoding does not.
    """
    if generator is None and not config.greedy:
        raise ValueError("sampling needs a torch.Generator, so that the same seed gives the same result")
    pad_id = model.config.pad_token_id if model.config.pad_token_id is not None else 0
    eos_ids = _eos_ids(model, eos_id)
    prompt_ids, prompt_mask = (x.to(model.device) for x in left_pad(prompts, pad_id))
    num_rows, room = len(prompts) * num_samples, config.max_new_tokens
    stops = _StopTable(stop_sequences, len(prompts), num_samples, model.device)

    device = model.device
    origin = torch.arange(len(prompts), device=device).repeat_interleave(num_samples)
    ids = torch.full((num_rows, room), pad_id, device=device)
    mask = torch.zeros(num_rows, room, dtype=torch.bool, device=device)
    logprobs, model_logprobs = torch.zeros(2, num_rows, room, device=device)
    reasons = [LENGTH] * num_rows
    live = torch.arange(num_rows, device=device)
    """Output rows that have not ended."""
    node = origin
    """Which row of the batch each live row continues: rows that agree so far share one."""
    attention = prompt_mask if not bool(prompt_mask.all()) else None
    steps = 0
    with evaluating(model):
        cache = DecodingCache(model.config, prompt_ids.shape[1] + room, num_rows)
        logits = _forward(model, prompt_ids, prompt_mask, cache)
        while True:
            chosen, chosen_logprobs, own_logprobs = _choose(logits, node, config, generator)
            ids[live, steps], mask[live, steps] = chosen, True
            logprobs[live, steps], model_logprobs[live, steps] = chosen_logprobs, own_logprobs
            steps += 1
            ended = _end_rows(ids, live, steps, eos_ids, stops, reasons)
            if steps == room or bool(ended.all()):
                break
            if bool(ended.any()):
                live, chosen, node = live[~ended], chosen[~ended], node[~ended]
            # A row of the batch branches into one for each token that was drawn after it.
            branches, node = (node * logits.shape[-1] + chosen).unique(return_inverse=True)
            parents, tokens = branches // logits.shape[-1], branches % logits.shape[-1]
            if len(parents) != len(logits) or bool((parents[1:] == parents[:-1]).any()):
                cache.select(parents)
                attention = attention[parents] if attention is not None else None
            if attention is not None:
                attention = torch.cat([attention, attention.new_ones(len(attention), 1)], -1)
            logits = _forward(model, tokens[:, None], attention, cache)
    return Samples(
        prompt_ids[origin],
        prompt_mask[origin],
        ids[:, :steps],
        mask[:, :steps],
        logprobs[:, :steps],
        model_logprobs[:, :steps],
        reasons,
    )


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Dropout off inside, the mode as it was afterwards: with dropout on, the log-probs of a rollout
    would be those of a network that exists for one forward pass only."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def _forward(
    model: PreTrainedModel, ids: Tensor, attention_mask: Tensor | None, cache: DecodingCache
) -> Tensor:
    """Next-token logits `[rows, V]` after `ids`; `attention_mask` None means no padding anywhere."""
    past = cache.get_seq_length()
    if attention_mask is None or bool(attention_mask.all()):
        positions = torch.arange(past, past + ids.shape[1], device=ids.device).expand(ids.shape)
        attention_mask = None
    else:
        positions = position_ids(attention_mask)[:, -ids.shape[1] :]
    logits = model(
        input_ids=ids,
        attention_mask=attention_mask,
        position_ids=positions,
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits
    return logits[:, -1].float()


def _choose(
    logits: Tensor, node: Tensor, config: SamplingConfig, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Next tokens `[rows]`, their log-probs as sampled, and under the model at temperature 1.

    Row r draws from the distribution in row `node[r]` of `logits`.
    """
    own = logits.log_softmax(-1)
    if config.greedy:
        chosen = logits.argmax(-1)[node]
        own_logprobs = own[node, chosen]
        return chosen, own_logprobs, own_logprobs
    plain = not config.truncates and config.temperature == 1.0
    sampled = own if plain else warp_logits(logits, config).log_softmax(-1)
    chosen = _draw(sampled, node, generator)
    return chosen, sampled[node, chosen], own[node, chosen]


def _draw(logprobs: Tensor, node: Tensor, generator: torch.Generator) -> Tensor:
    """An independent draw for each row from the distribution in row `node[r]` of `logprobs` `[nodes, V]`.

    By inverting the distribution function, which is summed once for all rows that share it.
    """
    mass = logprobs.double().exp().cumsum(-1)
    mass = mass / mass[:, -1:]
    # The functions one after the other, each lifted above the one before, are one increasing function.
    nodes, vocabulary = mass.shape
    lifted = (mass + torch.arange(nodes, device=mass.device)[:, None]).flatten()
    # Drawn where the generator lives, so that one on the processor serves a model anywhere.
    uniform = torch.rand(len(node), dtype=torch.float64, device=generator.device, generator=generator)
    index = torch.searchsorted(lifted, node + uniform.to(mass.device), right=True)
    return (index - node * vocabulary).clamp(max=vocabulary - 1)


def _eos_ids(model: PreTrainedModel, eos_id: int | None) -> Tensor:
    """The tokens that end a completion, `[n]`; a model's configuration may name one, several or none."""
    named = model.config.eos_token_id if eos_id is None else eos_id
    return torch.tensor([] if named is None else named, dtype=torch.long, device=model.device).view(-1)


class _StopTable:
    """Which rows a stop sequence applies to."""

    def __init__(
        self,
        stop_sequences: Sequence[Sequence[Sequence[int]]] | None,
        num_prompts: int,
        num_samples: int,
        device: torch.device,
    ) -> None:
        stop_sequences = [()] * num_prompts if stop_sequences is None else stop_sequences
        if len(stop_sequences) != num_prompts:
            raise ValueError(
                f"stop_sequences has {len(stop_sequences)} entries for {num_prompts} prompts; "
                "give one list of id sequences a prompt"
            )
        distinct = sorted({tuple(s) for row in stop_sequences for s in row})
        if () in distinct:
            raise ValueError("an empty stop sequence would end every row at once")
        self.sequences = [torch.tensor(s, device=device) for s in distinct]
        applies = [[s in {tuple(r) for r in row} for s in distinct] for row in stop_sequences]
        self.applies = torch.tensor(applies, dtype=torch.bool).view(num_prompts, len(distinct))
        self.applies = self.applies.repeat_interleave(num_samples, 0).to(device)

    def matches(self, ids: Tensor, rows: Tensor, steps: int) -> Tensor:
        """Whether each of `rows` now ends in one of its stop sequences."""
        matched = torch.zeros(len(rows), dtype=torch.bool, device=ids.device)
        for column, sequence in enumerate(self.sequences):
            if len(sequence) <= steps:
                tail = ids[rows, steps - len(sequence) : steps]
                matched |= (tail == sequence).all(-1) & self.applies[rows, column]
        return matched


def _end_rows(
    ids: Tensor, live: Tensor, steps: int, eos_ids: Tensor, stops: _StopTable, reasons: list[str]
) -> Tensor:
    """Which live rows just ended; writes why into `reasons`."""
    at_eos = torch.isin(ids[live, steps - 1], eos_ids)
    at_stop = stops.matches(ids, live, steps) & ~at_eos if stops.sequences else torch.zeros_like(at_eos)
    for reason, flags in ((EOS, at_eos), (STOP, at_stop)):
        for row in live[flags].tolist():
            reasons[row] = reason
    return at_eos | at_stop


@dataclass(frozen=True)
class CountedSample:
    """A distinct completion and how often it was drawn."""

    ids: tuple[int, ...]
    """Completion tokens, the stopping token included."""
    count: int
    """How many of the draws gave this completion."""
    logprob: float
    """Log-prob of the whole completion under the distribution sampled from."""


def sample_counts(
    model: PreTrainedModel,
    prompt: Sequence[int],
    config: SamplingConfig,
    num_samples: int,
    generator: torch.Generator,
    eos_id: int | None = None,
    stop_ids: Sequence[int] = (),
) -> list[CountedSample]:
    """`num_samples` independent completions of one prompt, as distinct completions with counts.

    The most frequent comes first. The cost grows with the number of distinct prefixes, not with
    `num_samples`.
    """
    if config.greedy:
        raise ValueError("sample_counts draws at random; greedy completions are all the same one")
    stops = [[(token,) for token in stop_ids]]
    samples = sample(
        model,
        [prompt],
        config,
        num_samples=num_samples,
        generator=generator,
        eos_id=eos_id,
        stop_sequences=stops,
    )
    counts = Counter(map(tuple, samples.completions()))
    logprobs = dict(zip(map(tuple, samples.completions()), samples.logprobs.sum(-1).tolist(), strict=True))
    done = [CountedSample(ids, count, logprobs[ids]) for ids, count in counts.items()]
    return sorted(done, key=lambda sample: (-sample.count, sample.ids))
