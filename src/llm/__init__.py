"""Language models: chat, embeddings, batches, other endpoints; replies, prompts and errors."""
