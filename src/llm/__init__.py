"""Models: chat, embeddings, batches, endpoints; their replies, prompts and errors."""

import langsmith  # noqa: F401  (alone it is small; its types become its attribute)

from src.lean_imports import import_on_demand

for package in ("openai.types", "langgraph_sdk", "langsmith.types"):  # their 700 types
    import_on_demand(package)
