"""Models: chat, embeddings, batches, endpoints; their replies, prompts and errors."""

from src.lean_imports import import_on_demand

for package in ("openai.types", "langgraph_sdk"):  # their 500 types
    import_on_demand(package)
