"""How well the memory finds what was said."""
