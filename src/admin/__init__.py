"""The admin page: what the bot does, keeps and costs, for whoever runs it."""
