"""The queue: procrastinate's jobs, the workers of this process, updates, dead jobs."""
