"""A model that plays: what is asked of it, how its attempts are counted, what the judge answers."""

import gymnasium
import pytest
import torch

import labkit.envs  # noqa: F401 registers the environment
from labkit.envs.points24 import compact, play
from labkit.envs.points24.grading import PAPER_REWARDS, Outcome
from labkit.envs.points24.play import Codec, attempts, compact_judge, read_correctly
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.sampling import Samples
from labkit.lm.tokenizer import word_tokenizer

HANDS = [(1, 8, 13, 8), (2, 3, 4, 5), (13, 12, 11, 10)]
GOOD = "1 8 10 8 ; 10 - 8 = 2 : 1 8 2 ; 1 + 2 = 3 : 8 3 ; 8 * 3 = 24 <eos>".split()
BAD = "1 8 10 8 ; 10 - 8 = 2 : 1 8 2 ; 1 + 2 = 3 : 8 3 ; 8 + 3 = 11 <eos>".split()


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer(compact.VOCABULARY)


@pytest.fixture(scope="module")
def codec(tokenizer):
    return Codec(tokenizer)


@pytest.fixture(scope="module")
def model(tokenizer):
    return tiny_model(TinyConfig(layers=1, width=16, heads=2, mlp_width=16), tokenizer, seed=0)


@pytest.fixture
def scripted(monkeypatch, codec):
    """Replaces the sampler: every row answers with the next of the given responses; keeps the prompts."""
    asked = []

    def play_script(*responses):
        turns = iter(responses)

        def sample(model, prompts, config, **options):
            asked.append([codec.decode(p) for p in prompts])
            rows = [codec.encode(r) for r in next(turns)]
            assert len(rows) == len(prompts)
            longest = max(map(len, rows))
            ids = torch.tensor([r + [0] * (longest - len(r)) for r in rows])
            mask = torch.tensor([[i < len(r) for i in range(longest)] for r in rows])
            return Samples(None, None, ids, mask, None, None, [])

        monkeypatch.setattr(play, "sample", sample)
        return asked

    return play_script


def test_ids_and_tokens_correspond_one_to_one(codec, tokenizer):
    ids = codec.encode(compact.VOCABULARY)
    assert sorted(ids) == list(range(len(compact.VOCABULARY)))
    assert codec.decode(ids) == codec.decode(torch.tensor(ids)) == list(compact.VOCABULARY)
    text = " ".join(GOOD)
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == codec.encode(GOOD)
    with pytest.raises(KeyError):
        codec.encode(["oops"])


def test_prompts_are_those_of_the_compact_form(codec):
    found = [codec.decode(ids) for ids in codec.prompts(HANDS, FACES_AS_RANK, 7)]
    assert found == [compact.prompt_tokens(hand, FACES_AS_RANK, 7) for hand in HANDS]


def test_a_tokenizer_of_something_else_is_refused():
    with pytest.raises(ValueError, match="not that of a compact-form model"):
        Codec(word_tokenizer(["<pad>", "<bos>", "<eos>", "hello"]))


@pytest.mark.parametrize("max_turns", [1, 3])
def test_every_hand_gets_its_attempts(model, codec, max_turns):
    played = attempts(model, codec, HANDS, FACES_AS_TEN, max_turns=max_turns)
    assert len(played) == len(HANDS)
    for hand, tries in zip(HANDS, played, strict=True):
        # An untrained model does not solve anything.
        assert len(tries) == max_turns
        for attempt in tries:
            assert 1 <= len(attempt.tokens) <= compact.RESPONSE_LENGTH + 2
            assert attempt.verdict == compact.grade(attempt.tokens, hand, FACES_AS_TEN)


def test_greedy_play_repeats_and_sampling_follows_its_generator(model, codec):
    def sampled(seed):
        generator = torch.Generator().manual_seed(seed)
        return attempts(model, codec, HANDS, FACES_AS_TEN, generator=generator, max_turns=2)

    assert attempts(model, codec, HANDS, FACES_AS_TEN) == attempts(model, codec, HANDS, FACES_AS_TEN)
    assert sampled(1) == sampled(1) != sampled(2)


def test_solved_hands_leave_and_the_others_see_their_history(model, codec, scripted):
    hands = [HANDS[0]] * 3
    asked = scripted([BAD, GOOD, ["<eos>"]], [GOOD, BAD], [BAD])
    played = attempts(model, codec, hands, FACES_AS_TEN, max_turns=3)
    names = [[a.verdict.outcome.value for a in tries] for tries in played]
    assert names == [["wrong_value", "correct"], ["correct"], ["no_answer", "wrong_value", "wrong_value"]]
    prompt = compact.prompt_tokens(HANDS[0], FACES_AS_TEN)
    nothing = prompt + ["<eos>"] + compact.feedback_tokens(Outcome.NO_ANSWER)
    assert asked[0] == [prompt] * 3
    assert asked[1] == [prompt + BAD + compact.feedback_tokens(Outcome.WRONG_VALUE), nothing]
    assert asked[2] == [nothing + BAD + compact.feedback_tokens(Outcome.WRONG_VALUE)]


def test_no_more_turns_are_played_than_needed(model, codec, scripted):
    asked = scripted([GOOD])
    assert len(attempts(model, codec, HANDS[:1], FACES_AS_TEN, max_turns=5)[0]) == 1
    assert len(asked) == 1


def test_a_target_is_asked_for_and_graded(model, codec, scripted):
    asked = scripted([BAD])
    played = attempts(model, codec, HANDS[:1], FACES_AS_TEN, target=11)
    assert played[0][0].verdict.correct and asked[0][0][4] == "11"


def test_the_environment_asks_and_answers_as_play_does(model, codec):
    """The same model through gymnasium: same contexts, hence the same greedy attempts."""
    hand = HANDS[0]
    (tries,) = attempts(model, codec, [hand], FACES_AS_TEN, max_turns=3)
    env = gymnasium.make("labkit/Points24-v0", form="compact", max_turns=3)
    observation, _ = env.reset(options={"hand": hand})
    for attempt in tries:
        config = play.SamplingConfig(compact.RESPONSE_LENGTH + 2, greedy=True)
        (ids,) = play.sample(model, [codec.encode(observation.split())], config).completions()
        tokens = codec.decode(ids)
        assert tuple(tokens) == attempt.tokens
        observation, _, _, truncated, info = env.step(" ".join(tokens))
        assert info["outcome"] == attempt.verdict.outcome
    assert truncated


def test_the_judge_pays_the_table_and_names_the_outcome(codec):
    judge = compact_judge(codec, [HANDS[0], HANDS[1]], FACES_AS_TEN, PAPER_REWARDS, group_size=2)
    completions = [codec.encode(tokens) for tokens in (GOOD, BAD, GOOD, ["<eos>"])]
    found = judge([0, 1, 2, 3], completions)
    assert [j.reward for j in found] == [5, -1, -2, -1]
    said = [None if j.feedback_ids is None else codec.decode(j.feedback_ids) for j in found]
    assert said == [None, ["<wrong_value>", "=>"], ["<misread_cards>", "=>"], ["<no_answer>", "=>"]]


def test_the_judge_knows_rows_by_their_number_not_their_place(codec):
    # In later turns only the rows still open are judged.
    judge = compact_judge(codec, [HANDS[1], HANDS[0]], FACES_AS_TEN, PAPER_REWARDS, group_size=4)
    good = codec.encode(GOOD)
    assert [j.reward for j in judge([7, 1, 4], [good] * 3)] == [5, -2, 5]


def test_reading_is_right_when_all_values_are(codec):
    def read(text, rule=FACES_AS_TEN):
        return read_correctly(compact.grade(text.split(), HANDS[0], rule), HANDS[0], rule)

    assert read("1 8 10 8 ; nonsense <eos>")
    assert not read("1 8 10 8 ; nonsense <eos>", FACES_AS_RANK)
    assert read("1 8 13 8 ; nonsense <eos>", FACES_AS_RANK)
    assert not read("8 1 10 8 ; nonsense <eos>")
    assert not read("1 8 10 <eos>")
