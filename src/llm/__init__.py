"""Language models: chat, embeddings, batches, other endpoints; replies, prompts and errors."""

import langsmith  # noqa: F401  (small without its types, which become its attribute)

from src.lean_imports import import_on_demand

for package in ("openai.types", "langgraph_sdk", "langsmith.types"):  # 700 classes
    import_on_demand(package)
