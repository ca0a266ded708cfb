"""Models: chat, embeddings, batches, endpoints; their replies, prompts and errors."""
