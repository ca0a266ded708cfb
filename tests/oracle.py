"""Exact token counts with OpenAI's vocabularies, which the bot only estimates."""

from __future__ import annotations

import math

import toktok

from src.llm.tokens import TokenCounter, percent_of

OLD_MODELS = ("openai:gpt-3", "openai:gpt-4")


class Oracle(TokenCounter):
    """Token counter with the model's own tokenizer, or OpenAI's times the family's factor."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        is_old = model.startswith(OLD_MODELS) and not model.startswith(("openai:gpt-4o",))
        self._encoding = "cl100k_base" if is_old else "o200k_base"
        self._part = 100 if is_old else percent_of(model)

    def count(self, text: str) -> int:
        # Lone surrogates count as replacement characters, as in tiktoken.
        sound = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        tokens = toktok.batch_count([sound], self._encoding, threads=1)[0]
        return math.ceil(tokens * self._part / 100)
