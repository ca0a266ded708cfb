"""LangGraph bot to compare Pomni with, as a good engineer would write it in a day.

It uses aiogram, a graph whose state PostgresSaver keeps per chat, and PostgresStore, which stores
each user's messages and returns the newest. The store has no embeddings, its cheapest setup, so
this bot's figures do not include a search by meaning.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any
from uuid import uuid4

from aiogram import Dispatcher, F
from aiogram.types import Message
from langchain_core.messages import HumanMessage, SystemMessage, trim_messages
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.postgres import AsyncPostgresStore
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.bare_bot import connect

SYSTEM = "You are a helpful assistant. What the user told you before:\n{memories}"
SHOWN_MESSAGES, SHOWN_MEMORIES = 30, 10
OPTIONS = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class State(MessagesState):
    """Messages, and the memories recalled for the next answer."""

    memories: list[str]


def build(model: ChatOpenAI) -> StateGraph[State]:
    """Build the graph: recall, answer, remember."""

    async def recall(state: State, config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
        question = str(state["messages"][-1].content)
        found = await store.asearch(namespace(config), query=question, limit=SHOWN_MEMORIES)
        return {"memories": [item.value["text"] for item in found]}

    async def answer(state: State) -> dict[str, Any]:
        shown = trim_messages(
            state["messages"], max_tokens=SHOWN_MESSAGES, token_counter=len, start_on="human"
        )
        system = SystemMessage(SYSTEM.format(memories="\n".join(state["memories"])))
        return {"messages": [await model.ainvoke([system, *shown])]}

    async def remember(state: State, config: RunnableConfig, *, store: BaseStore) -> None:
        said = {"text": state["messages"][-2].content}
        await store.aput(namespace(config), str(uuid4()), said)

    graph = StateGraph(State)
    graph.add_node("recall", recall)
    graph.add_node("answer", answer)
    graph.add_node("remember", remember)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", END)
    return graph


def namespace(config: RunnableConfig) -> tuple[str, str]:
    """Return the store's namespace of a user."""
    return ("memories", config["configurable"]["thread_id"])


async def main() -> None:
    """Poll for messages and answer them."""
    bot, model = connect()
    dispatcher = Dispatcher()
    address = os.environ["DATABASE_URL"]
    async with AsyncConnectionPool(address, max_size=20, kwargs=OPTIONS) as pool:
        saver, store = AsyncPostgresSaver(pool), AsyncPostgresStore(pool)
        await saver.setup()
        await store.setup()
        graph = build(model).compile(checkpointer=saver, store=store)

        @dispatcher.message(F.text)
        async def answer(message: Message) -> None:
            talk = RunnableConfig(configurable={"thread_id": str(message.chat.id)})
            said = State(messages=[HumanMessage(message.text or "")], memories=[])
            stream = graph.astream(said, talk, stream_mode="messages")
            await message.answer("".join([str(piece.text) async for piece, _ in stream]))

        await dispatcher.start_polling(bot)


if __name__ == "__main__":
    asyncio.run(main())
