"""A model's answers to many questions after one few-shot prompt: greedy and sampled, in one tree of tokens.

All questions and all answers begin with the same tokens: the examples, then the question's first words. Those
run through the model once. What follows is a tree: questions branch off the common prefix, answers off
their questions and off each other. The whole tree is one row of tokens, in which a mask lets each token see
its ancestors and nothing else ("tree attention"): no key or value is ever copied to another row. A branch
that can no longer become a right answer is not continued, which is most of them, and changes no count.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from labkit.knowledge.facts import Fact, can_become_correct
from labkit.knowledge.prompts import QA, PromptForm, encode, end_tokens
from labkit.lm.sampling import evaluating
from labkit.lm.scoring import decoder

GREEDY = -1
"""The greedy answer among the numbers of the samples."""


@dataclass(frozen=True)
class AnswerConfig:
    """How answers are drawn (the defaults are the paper's)."""

    samples: int = 16
    """Sampled answers to a question."""
    temperature: float = 0.5
    """Of the samples; positive."""
    top_k: int = 40
    """Samples take one of the k likeliest tokens."""
    max_new_tokens: int = 20
    """Longest answer in tokens, its end included."""
    seed: int = 0
    """With a question's own name and the number of the prompt, it decides the samples."""

    def __post_init__(self) -> None:
        if self.samples < 0 or self.temperature <= 0 or self.top_k < 1 or self.max_new_tokens < 1:
            raise ValueError(
                f"{self}: accepted are samples of at least 0, a positive temperature, top_k and "
                "max_new_tokens of at least 1"
            )


@dataclass(frozen=True)
class Answers:
    """What a model answered to one question."""

    greedy: str
    """Greedy answer, up to its end or to where it had become hopeless."""
    sampled: tuple[str, ...]
    """Sampled ones, likewise."""


@dataclass
class _Branch:
    """An unfinished answer in the tree."""

    fact: int
    """Index of its question."""
    column: int
    """Where its last token stands in the row."""
    ids: list[int] = field(default_factory=list)
    """Answer tokens so far."""
    members: list[int] = field(default_factory=list)
    """Numbers of the samples that go this way; `GREEDY` is the greedy answer."""


@torch.no_grad()
def answer_questions(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    facts: Sequence[Fact],
    shots: Sequence[Fact] = (),
    config: AnswerConfig = AnswerConfig(),
    form: PromptForm = QA,
    *,
    number: int = 0,
    finish: bool = False,
) -> list[Answers]:
    """Answers to the facts' questions after the examples `shots`, in the order of `facts`.

    An answer ends before `form.end`, at the end of the sequence, or at `max_new_tokens`. Unless `finish`, one
    that cannot become right any more ends there. The samples of a question depend on config, `number` (of the
    prompt) and question alone, not on the questions asked with it. Full attention is assumed.
    """
    prompts = [encode(tokenizer, form.prompt(shots, fact.question)) for fact in facts]
    ends = end_tokens(tokenizer, form.end)
    draws = np.stack([_uniforms(fact, number, config) for fact in facts]) if facts else np.zeros((0, 0, 0))
    texts: list[dict[int, str]] = [{} for _ in facts]
    if not facts:
        return []
    with evaluating(model):
        tree = _Tree(model)
        live, states = _plant(tree, prompts)
        for branch in live:
            branch.members = [GREEDY, *range(config.samples)]
        for step in range(config.max_new_tokens):
            logits = model.get_output_embeddings()(states).float()
            grown: list[tuple[_Branch, int]] = []
            for branch, by_token in zip(live, _choose(logits, live, draws[:, :, step], config), strict=True):
                for token, members in by_token.items():
                    ids = [*branch.ids, token]
                    text = tokenizer.decode(ids, skip_special_tokens=True).split(form.end)[0]
                    hopeless = not finish and not can_become_correct(text, facts[branch.fact])
                    if token in ends or step + 1 == config.max_new_tokens or hopeless:
                        texts[branch.fact] |= dict.fromkeys(members, text)
                    else:
                        grown.append((_Branch(branch.fact, 0, ids, members), branch.column))
            if not grown:
                break
            live, parents = [branch for branch, _ in grown], [column for _, column in grown]
            positions = [len(prompts[branch.fact]) + step for branch in live]
            states = tree.grow([branch.ids[-1] for branch in live], positions, parents)
            for offset, branch in enumerate(live):
                branch.column = tree.size - len(live) + offset
    return [Answers(found[GREEDY], tuple(found[i] for i in range(config.samples))) for found in texts]


class _Tree:
    """Tokens in one row, each of which sees its ancestors and itself."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.inner = decoder(model)
        self.cache = DynamicCache(config=self.inner.config)
        self.device = model.device
        self.sees = torch.zeros(0, 0, dtype=torch.bool, device=self.device)
        """`[size, size]`: what each token may attend to."""

    @property
    def size(self) -> int:
        """Tokens so far."""
        return len(self.sees)

    def grow(self, ids: Sequence[int], positions: Sequence[int], parents: Sequence[int]) -> Tensor:
        """Add tokens; hidden states `[len(ids), width]` after each.

        `parents` are columns, -1 for none; a parent may be among the tokens added, before its children.
        """
        old, new = self.size, len(ids)
        sees = torch.zeros(old + new, old + new, dtype=torch.bool, device=self.device)
        sees[:old, :old] = self.sees
        inside = [i for i, parent in enumerate(parents) if parent >= old]
        outside = torch.tensor([p if 0 <= p < old else -1 for p in parents], device=self.device)
        known = (outside >= 0).nonzero().squeeze(-1)
        sees[old + known] = sees[outside[known]]
        for i in inside:
            sees[old + i] = sees[parents[i]]
            sees[old + i, parents[i]] = True
        sees[old:].view(new, -1)[torch.arange(new), old + torch.arange(new)] = True
        # A parent inside is seen by itself already; one outside was by the row copied from it.
        self.sees = sees
        dtype = self.inner.dtype
        mask = torch.zeros(new, old + new, dtype=dtype, device=self.device)
        mask.masked_fill_(~sees[old:], torch.finfo(dtype).min)
        return self.inner(
            input_ids=torch.tensor([list(ids)], device=self.device),
            position_ids=torch.tensor([list(positions)], device=self.device),
            attention_mask=mask[None, None],
            cache=self.cache,
            use_cache=True,
        ).last_hidden_state[0]


def _plant(tree: _Tree, prompts: Sequence[Sequence[int]]) -> tuple[list[_Branch], Tensor]:
    """Run the prompts; a branch for each, and the hidden state after its last token `[prompts, width]`."""
    common = _common_prefix(prompts)
    if common:
        tree.grow(prompts[0][:common], range(common), range(-1, common - 1))
    ids, positions, parents, last = [], [], [], []
    for prompt in prompts:
        first = common + len(ids)
        ids += prompt[common:]
        positions += range(common, len(prompt))
        parents += [common - 1, *range(first, first + len(prompt) - common - 1)]
        last.append(len(ids) - 1)
    states = tree.grow(ids, positions, parents)
    return [_Branch(fact, common + column) for fact, column in enumerate(last)], states[last]


def _common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; each keeps one of its own at least."""
    shortest = min(map(len, prompts)) - 1
    return next((i for i in range(shortest) if len({prompt[i] for prompt in prompts}) > 1), shortest)


def _uniforms(fact: Fact, number: int, config: AnswerConfig) -> np.ndarray:
    """Uniform numbers `[samples, max_new_tokens]` that the samples of a question are drawn with."""
    name = zlib.crc32(f"{fact.relation}|{fact.subject}".encode())
    return np.random.default_rng([config.seed, number, name]).random((config.samples, config.max_new_tokens))


def _choose(
    logits: Tensor, live: Sequence[_Branch], draws: np.ndarray, config: AnswerConfig
) -> list[dict[int, list[int]]]:
    """For each branch: next token -> the members that take it.

    `logits` are `[branches, V]`, `draws` uniform numbers `[facts, samples]`.
    """
    values, tokens = logits.topk(min(config.top_k, logits.shape[-1]), -1)
    mass = (values.double() / config.temperature).softmax(-1).cumsum(-1).cpu().numpy()
    tokens = tokens.cpu().numpy()
    greedy = logits.argmax(-1).tolist()
    chosen = []
    for row, branch in enumerate(live):
        by_token: dict[int, list[int]] = defaultdict(list)
        for member in branch.members:
            if member == GREEDY:
                by_token[greedy[row]].append(member)
            else:
                place = np.searchsorted(mass[row], draws[branch.fact, member] * mass[row, -1], side="right")
                by_token[int(tokens[row, min(place, tokens.shape[1] - 1)])].append(member)
        chosen.append(by_token)
    return chosen
