"""Servers of others that speak the Model Context Protocol, and the tools that they lend us.

Everything that comes from them is hostile or broken at some time: it is bounded before it is read,
cleaned before a model sees it, and marked as theirs. The protocol's own packages are imported when
there is a server (they take 10 MB).
"""
