"""Language models: the chat model of the settings, the offline model, and their errors."""
