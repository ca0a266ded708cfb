"""The queue: procrastinate's app, its tasks, and the workers of this process."""
