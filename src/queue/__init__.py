"""Stored updates, procrastinate's jobs, the workers of this process, and jobs of dead workers."""
