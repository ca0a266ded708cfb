"""What a line is: the weights are of the lexicon's lines, and know lines that they never met."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from benchmarks.line_kinds import UNSEEN, digest, learnt_lines, read_lines
from src.base.metrics import Metrics
from src.llm.embeddings import LocalEmbedder
from src.memory.line_kinds import kind_of, shipped_weights

SOME = 5  # every so many of the unseen lines are embedded: 25 ms each


@pytest.fixture(scope="module")
async def embedder() -> AsyncIterator[LocalEmbedder]:
    made = LocalEmbedder(Metrics())
    yield made
    await made.close()


def test_the_shipped_weights_are_of_the_lexicon_s_lines() -> None:
    """``python -m benchmarks.line_kinds`` learns and writes them anew."""
    assert shipped_weights().learnt == digest(learnt_lines())


def test_no_line_that_judges_was_learnt_and_none_stands_twice() -> None:
    learnt, unseen = learnt_lines(), read_lines(UNSEEN)
    texts = [text for _, text in [*learnt, *unseen]]
    assert {kind for kind, _ in unseen} == {kind for kind, _ in learnt}
    assert not {text for _, text in learnt} & {text for _, text in unseen}
    assert len(texts) > 1500


async def test_lines_that_were_never_met_are_known(embedder: LocalEmbedder) -> None:
    lines = read_lines(UNSEEN)[::SOME]
    found = [kind_of(text, await embedder.embed_query(text)) for _, text in lines]
    right = sum(kind == one for (kind, _), one in zip(lines, found, strict=True))
    assert right >= 0.85 * len(lines), list(zip(lines, found, strict=True))


@pytest.mark.parametrize(("text", "kind"), [
    ("где мои ключи", "question"), ("ключи?", "question"), ("привет", "greeting"),
    ("дякую!", "thanks"), ("write me a poem", "request"),
    ("вчера мы с братом весь день чинили старый велосипед", "note"), ("", "agreement"),
    ("список в магаз: рис, сода, корм рыбкам", "note"), ("скажи: где рис, где сода?", "question"),
    ("добрий, андрій, столяр, роблю кухні", "note"), ("телефон сантехника", "unsure"),
    ("код під'їзду", "unsure"), ("телефон слесаря?", "unsure"),
    ("код дома 4", "note"), ("а почему соседская собака так громко лает по ночам", "question"),
])  # fmt: skip
def test_without_the_embedder_it_goes_by_letters_and_marks(text: str, kind: str) -> None:
    assert kind_of(text, None) == kind


@pytest.mark.parametrize(("text", "kind"), [
    ("verni nazad", "undo"), ("hey can you bring that one back please", "undo"),
    ("не надо больше про таблетки", "cancel"),
    ("give me a shout at 3 about the washing", "remind"),
    ("wake me at 7", "remind"), ("розбуди мене о 7", "remind"),
    ("завтра треба забрати малого", "note"),
    ("gran visits 3 jan at noon", "note"),
    ("те що про зарплату казав, забудь", "forget"), ("а ну посунь на годинку", "move"),
    ("gave the drill back to tom", "note"), ("they cancelled my flight", "note"),
    ("забыл зонт в офисе", "note"), ("напомнил маме про анализы", "note"),
    ("добрий вечір, я світлана, фізика в 17 школі", "note"),
    ("read piranesi in march", "note"), ("допиши в список корм коту", "note"),
    ("додай до списку прищіпки", "note"),
    ("cancelled my netflix btw, too pricey", "note"),
    ("gym is on tuesdays and thursdays at 7", "note"),
    ("read me the news", "request"), ("напиши список тем для эссе", "request"),
])  # fmt: skip
async def test_an_order_is_known_in_other_words_and_what_sounds_like_one_is_kept(
    embedder: LocalEmbedder, text: str, kind: str
) -> None:
    assert kind_of(text, await embedder.embed_query(text)) == kind


@pytest.mark.parametrize("text", [
    "my casserole dish wheres it at", "шукаю буряк, де він", "ещё раз: кардиолог когда",
    "impeller spare, where did i stash it", "на рынке какое место у вали",
])  # fmt: skip
async def test_a_question_word_anywhere_makes_a_note_a_question_perhaps(
    embedder: LocalEmbedder, text: str
) -> None:
    assert kind_of(text, await embedder.embed_query(text)) in ("unsure", "question")
