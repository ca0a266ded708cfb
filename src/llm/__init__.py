"""Models of language: chat models, embeddings, their prompts, replies and errors."""
