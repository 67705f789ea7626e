import pytest
from transformers import AutoTokenizer

from labkit.lm.tokenizer import word_tokenizer
from tests.tiny import BOS, EOS, PAD, WORDS, A, C


def test_every_word_is_one_token_with_its_place_as_id():
    tokenizer = word_tokenizer(WORDS)
    assert tokenizer("a c a")["input_ids"] == [A, C, A]
    assert [tokenizer.convert_tokens_to_ids(word) for word in WORDS] == list(range(len(WORDS)))
    assert len(tokenizer) == len(WORDS), "no token may be added behind the vocabulary's back"


def test_text_round_trips_and_nothing_is_tidied():
    # Tidying (" ," to ",") would make decoded text differ from what was sampled.
    words = (*WORDS, ",", "+", "=>", "10", "3/4", "a.b")
    text = "<bos> 10 + 3/4 , a.b => <eos>"
    tokenizer = word_tokenizer(words)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_pad_and_eos_are_two_tokens_and_padding_goes_left():
    tokenizer = word_tokenizer(WORDS)
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (PAD, BOS, EOS)
    padded = tokenizer(["a c", "c"], padding=True)
    assert padded["input_ids"] == [[A, C], [PAD, C]]
    assert padded["attention_mask"] == [[1, 1], [0, 1]]


def test_it_survives_save_pretrained(tmp_path):
    word_tokenizer(WORDS).save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("a c a")["input_ids"] == [A, C, A]
    assert (again.padding_side, again.pad_token_id, again.eos_token_id) == ("left", PAD, EOS)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ([*WORDS, "a"], r"repeats \['a'\]"),
        ([*WORDS, "two words"], r"\['two words'\] hold white space"),
        ([*WORDS, ""], "hold white space"),
        (["<pad>", "a"], r"\['<bos>', '<eos>'\] are not in the vocabulary"),
    ],
)
def test_a_vocabulary_that_cannot_work_is_named(vocabulary, message):
    with pytest.raises(ValueError, match=message):
        word_tokenizer(vocabulary)
