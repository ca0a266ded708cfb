"""Long attacks as commands; a short run of each is a test."""
