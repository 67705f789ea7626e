"""Language models as policies: where they stop, what they are prompted with, and log-probs that hold."""

from itertools import pairwise

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from labkit.agents import lm_policies
from labkit.agents.examples import examples
from labkit.agents.forms import FORMAT, INVENTED, TextForm, WordForm
from labkit.agents.history import History
from labkit.agents.lm_policies import ScoringPolicy, TinyPolicy
from labkit.agents.react import INADMISSIBLE, Episode, Written, play
from labkit.agents.words import SPECIAL, tokenizer, vocabulary
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import load_tasks
from labkit.envs.phone.words import vocabulary as phone_words
from labkit.lm.sampling import SamplingConfig
from labkit.lm.scoring import token_logprobs
from tests import tiny

FORM = WordForm(tokenizer())
IDS = FORM.tokenizer.get_vocab()
SAMPLED = SamplingConfig(max_new_tokens=8)
TASKS = load_tasks("known_phone")[::29]
HISTORIES = (
    History(),
    History(thoughts=False),
    History(observations=False),
    History(thoughts=False, observations=False),
    History("window", window=1),
    History("window", window=2, thoughts=False),
    History("summary"),
    History("none"),
)


def leaning(towards, seed=0):
    """A random model over the agents' words, with this much added to the logits of some of them."""
    model = tiny.llama(seed, words=vocabulary(), sharpness=6.0)
    lean = torch.zeros(len(vocabulary()))
    for word, much in towards.items():
        lean[IDS[word]] = much
    # In the output layer, which scoring runs by itself.
    model.lm_head.register_forward_hook(lambda head, states, logits: logits + lean)
    return model


# Writes steps that can be read, some that cannot, and observations of its own.
WRITER = {"<think>": 3, "<act>": 6, "<eos>": 5, "<obs>": 4, "open": 3, "Settings": 3, "back": 3, "home": 3}


def played(history=HISTORIES[0], *, towards=WRITER, seed=0, tasks=TASKS, max_steps=4, **options):
    policy = TinyPolicy(
        leaning(towards), FORM.tokenizer, history, options.pop("sampling", SAMPLED), **options
    )
    return play([PhoneWorld(max_steps=max_steps) for _ in tasks], policy, tasks, seed=seed)


def contexts(number=1):
    return [Episode(PhoneWorld(), TASKS[i % len(TASKS)]).context for i in range(number)]


def test_the_tiny_model_stops_at_the_end_and_where_it_begins_an_observation():
    # Pitfall 26.
    policy = TinyPolicy(leaning(WRITER), FORM.tokenizer, sampling=SAMPLED)
    endings = set()
    for written in policy.write(contexts(200), tiny.seeded()):
        words, sampled = written.text.split(), FORM.text(written.ids).split()
        assert "<obs>" not in sampled and "<eos>" not in sampled[:-1]
        assert "<obs>" not in words[:-1] and "<eos>" not in words[:-1]
        assert words == (sampled + ["<obs>"] if words[-1] == "<obs>" else sampled)
        assert len(written.logprobs) == len(written.ids) <= SAMPLED.max_new_tokens
        assert (INVENTED in FORM.parse(written.text).failures) == (words[-1] == "<obs>")
        endings.add(words[-1] if words[-1] in ("<eos>", "<obs>") else len(sampled))
    assert endings == {"<eos>", "<obs>", SAMPLED.max_new_tokens}


def test_the_history_holds_the_worlds_observations_whatever_the_model_writes():
    found = played(towards=WRITER | {"<act>": -5, "<think>": -5}, thoughts=False)
    kinds = {kind for trajectory in found for step in trajectory.steps for kind in step.failures}
    assert {INVENTED, FORMAT, INADMISSIBLE} <= kinds
    # Some invent only after an action that can be read.
    assert any(step.action and INVENTED in step.failures for one in found for step in one.steps)
    for trajectory, task in zip(found, TASKS, strict=True):
        shadow = PhoneWorld(max_steps=4)
        seen = shadow.reset(options={"task": task})[0]
        for t, step in enumerate(trajectory.steps, 1):
            assert step.observation == seen
            prompt = FORM.prompt(trajectory.goal, trajectory.history(t), seen)
            assert prompt.count("<obs>") == t and prompt.endswith(f"<obs> {seen}")
            seen = shadow.step(step.action)[0]


def test_a_model_that_only_writes_observations_leaves_nothing_in_the_history():
    found = played(towards={"<obs>": 1000.0}, tasks=TASKS[:1])[0]
    assert [step.ids for step in found.steps] == [()] * 4
    assert {step.failures[:2] for step in found.steps} == {(FORMAT, INVENTED)}
    observations = " ".join(f"<obs> {step.observation}" for step in found.steps)
    assert FORM.prompt(found.goal, found.steps, "Home :") == f"<bos> {found.goal} {observations} <obs> Home :"


@pytest.mark.parametrize("thoughts", [None, True, False])
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_what_it_is_prompted_with_is_what_it_is_trained_after_token_by_token(history, thoughts, monkeypatch):
    prompts, sample = [], lm_policies.sample

    def spy(model, given, *args, **kwargs):
        prompts.extend(map(list, given))
        return sample(model, given, *args, **kwargs)

    monkeypatch.setattr(lm_policies, "sample", spy)
    (found,) = played(history, tasks=TASKS[:1], thoughts=thoughts)
    trained = examples(found, FORM, history)
    assert len(prompts) == len(found.steps) == 4
    begin = FORM.ids({None: "", True: "<think>", False: "<act>"}[thoughts])
    if len(trained) == 1:
        # The steps of the one sequence, by the lengths of what was sampled (perhaps nothing) and shown.
        ids, _ = trained[0]
        starts = [len(FORM.prompt_ids(found.goal, (), found.steps[0].observation))]
        for step, after in pairwise(found.steps):
            shown = FORM.observation_ids(after.observation) if history.observations else []
            starts.append(starts[-1] + len(step.ids) + len(shown))
        trained = [(ids, [False] * start) for start in starts]
    for prompt, (ids, keep) in zip(prompts, trained, strict=True):
        start = keep.index(True) if True in keep else len(keep)
        assert prompt == ids[: start + len(begin)]
        assert ids[start : start + len(begin)] == begin


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_logprobs_as_sampled_are_those_of_the_training_sequence(history):
    # Pitfalls 9 and 16: ids that were tokenised again, or another prompt or mask, would show here.
    model = leaning(WRITER)
    for found in played(history, sampling=SamplingConfig(8, temperature=1.5)):
        scored = []
        for ids, keep in examples(found, FORM, history):
            row = torch.tensor([ids])
            logprobs = token_logprobs(model, row, torch.ones_like(row, dtype=torch.bool), len(ids) - 1, 1.5)
            scored.append(logprobs[0, torch.tensor(keep[1:])])
        stored = torch.tensor([value for step in found.steps for value in step.logprobs])
        torch.testing.assert_close(torch.cat(scored).detach(), stored, atol=2e-4, rtol=1e-4)


def test_logprobs_agree_with_one_pass_a_token_and_a_token_that_was_given_is_sure():
    model, (context,) = leaning(WRITER), contexts()
    (written,) = TinyPolicy(model, FORM.tokenizer, sampling=SAMPLED, thoughts=True).write(
        [context], tiny.seeded(3)
    )
    prompt = FORM.ids(f"<bos> {context.goal} <obs> {context.observation}")
    assert written.ids[0] == IDS["<think>"] and written.logprobs[0] == 0.0
    expected = tiny.one_by_one_logprobs(model, prompt + [IDS["<think>"]], list(written.ids[1:]))
    torch.testing.assert_close(torch.tensor(written.logprobs[1:]), expected, atol=1e-4, rtol=1e-4)


def test_it_is_greedy_unless_told_otherwise_and_batches_change_nothing():
    model = leaning({})
    alone = [TinyPolicy(model, FORM.tokenizer).write([c], tiny.seeded())[0] for c in contexts(5)]
    for batch_size in (2, 64):
        policy = TinyPolicy(model, FORM.tokenizer, batch_size=batch_size)
        together = policy.write(contexts(5), tiny.seeded(1))
        assert [w.text for w in together] == [w.text for w in alone]
        assert [w.ids for w in together] == [w.ids for w in alone]
    assert len({w.text for w in alone}) > 1


def test_episodes_played_together_are_those_played_one_by_one():
    model = leaning(WRITER, seed=2)
    policy = TinyPolicy(model, FORM.tokenizer, sampling=SamplingConfig(8, greedy=True), batch_size=2)
    together = play([PhoneWorld(max_steps=3) for _ in TASKS], policy, TASKS, seed=4)
    for i, (found, task) in enumerate(zip(together, TASKS, strict=True)):
        (alone,) = play([PhoneWorld(max_steps=3)], policy, [task], seed=4 + i)
        assert [(s.observation, s.ids, s.failures) for s in alone.steps] == [
            (s.observation, s.ids, s.failures) for s in found.steps
        ]


def test_the_same_seed_samples_the_same_trajectories_and_another_one_others():
    assert played(seed=1) == played(seed=1) != played(seed=2)


def test_it_plays_the_crafting_world_too():
    policy = TinyPolicy(leaning(WRITER), FORM.tokenizer, sampling=SAMPLED)
    for found in play([CraftWorld(max_steps=2) for _ in range(3)], policy):
        assert found.truncated and len(found.steps) == 2


# A tokenizer of ReAct's text, one token a word, that begins with `<bos>` as hub models' do.
MARKS = ("Goal:", "Observation:", "Thought:", "Action:", "Choose", "well")


def text_tokenizer(template=None):
    words = tiny.tokenizer((*SPECIAL, *phone_words(), *MARKS))
    words.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    words.chat_template = template
    return words


CHAT = (
    "{% for m in messages %}<bos> {{ m['content'] }} <eos> {% endfor %}"
    "{% if add_generation_prompt %}<done> {% endif %}"
)


@pytest.mark.parametrize("template", [None, CHAT], ids=["plain", "chat"])
@pytest.mark.parametrize("per_token", [True, False])
def test_scores_are_those_of_a_plain_loop_over_the_actions(template, per_token):
    words = text_tokenizer(template)
    vocab = words.get_vocab()
    model = tiny.llama(5, words=(*SPECIAL, *phone_words(), *MARKS), sharpness=8.0)
    policy = ScoringPolicy(model, words, "Choose well", per_token=per_token)
    episode = Episode(PhoneWorld(), TASKS[0])
    episode.advance(Written("Action: open Settings"), TextForm())
    context = episode.context
    shown = (
        f"Choose well Goal: {context.goal} Observation: {context.history[0].observation} "
        f"Action: open Settings Observation: {context.observation}"
    )
    text = f"<bos> {shown} Action:" if template is None else f"<bos> {shown} <eos> <done> Action:"
    prompt = [vocab[word] for word in text.split()]
    assert words(policy.prompt(context), add_special_tokens=template is None)["input_ids"] == prompt
    actions = context.world.admissible_actions()
    sums = [
        tiny.one_by_one_logprobs(model, prompt, [vocab[word] for word in action.split()])
        for action in actions
    ]
    expected = torch.stack([s.mean() if per_token else s.sum() for s in sums])
    found = policy.scores(policy.prompt(context), actions)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)
    (written,) = policy.write([context], tiny.seeded())
    assert written.text == f"Action: {actions[int(expected.argmax())]}"
    # Actions of one word and of two, so that sums and means are not the same.
    assert {len(s) for s in sums} == {1, 2}


def test_a_scoring_policy_writes_only_what_can_be_done():
    model = tiny.llama(5, words=(*SPECIAL, *phone_words(), *MARKS), sharpness=8.0)
    policy = ScoringPolicy(model, text_tokenizer(), history=History("window", window=1))
    for found in play([PhoneWorld(max_steps=3) for _ in TASKS], policy, TASKS):
        assert all(step.admissible and not {FORMAT, INVENTED} & set(step.failures) for step in found.steps)


def test_scoring_and_writing_leave_the_model_in_the_mode_it_was():
    model = leaning(WRITER).train()
    TinyPolicy(model, FORM.tokenizer, sampling=SAMPLED).write(contexts(), tiny.seeded())
    scorer = tiny.llama(5, words=(*SPECIAL, *phone_words(), *MARKS)).train()
    ScoringPolicy(scorer, text_tokenizer()).write(contexts(), tiny.seeded())
    assert model.training and scorer.training
