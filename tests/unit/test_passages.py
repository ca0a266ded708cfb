"""The passage of a long text that fits a question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from src.reading.sentences import _pieces, best_passage
from src.texts.morphology import terms
from tests.cases import for_each

FILLER = {
    "ru": "Стороны обязуются уважать друг друга и решать споры миром. ",
    "uk": "Сторони зобов'язуються поважати одна одну й вирішувати спори миром. ",
    "en": "Both sides promise to respect each other and to settle quarrels in peace. ",
}
TOLD = {
    "ru": ("Плата за квартиру — 30 000 рублей в месяц.", "Какая плата за квартиру?"),
    "uk": ("Плата за квартиру — 12 000 гривень на місяць.", "Яка плата за квартиру?"),
    "en": ("The rent is 900 euros a month.", "How much is the rent?"),
}


@for_each("language", FILLER)
@for_each(("before", "after"), [(0, 80), (40, 40), (80, 0), (299, 1)])
def test_the_passage_holds_the_sentence_that_answers(
    language: str, before: int, after: int
) -> None:
    sentence, question = TOLD[language]
    text = FILLER[language] * before + sentence + " " + FILLER[language] * after
    passage = best_passage(text, terms(question), 400)
    assert sentence in passage and len(passage) <= 400
    assert passage.startswith("… ") == (before > 0)
    assert passage.endswith(" …") == (after > 1), passage


def test_a_rare_word_counts_more_than_one_that_stands_everywhere() -> None:
    text = "Кошка спит. Кошка ест. " * 100 + "Кошку зовут Матильда. " + "Кошка играет. " * 100
    assert "Матильда" in best_passage(text, terms("Матильда кошка"), 200)


def test_without_any_of_the_words_it_is_the_beginning() -> None:
    text = "Первое предложение. " + FILLER["ru"] * 50
    assert best_passage(text, terms("велосипед"), 200).startswith("Первое предложение.")


def test_a_short_text_stays_as_it_is() -> None:
    assert best_passage(" Коротко.\n", ["коро"], 200) == " Коротко.\n"


@given(st.text(max_size=600))
def test_pieces_lose_nothing(text: str) -> None:
    assert "".join(_pieces(text, 100)) == text


@given(st.text(alphabet="аб .!?…\nx", min_size=101, max_size=2000), st.text(max_size=20))
def test_any_passage_is_a_part_of_the_text_and_no_longer_than_asked(text: str, word: str) -> None:
    passage = best_passage(text, terms(word), 100)
    assert len(passage) <= 100
    assert passage.removeprefix("… ").removesuffix(" …") in text
