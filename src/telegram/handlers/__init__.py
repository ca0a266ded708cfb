"""The aiogram routers: ordinary handlers, fed by the queue's jobs."""
