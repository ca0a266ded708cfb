"""Bounded reading of files from users: pictures, voice messages and documents."""
