"""Servers of others that speak the Model Context Protocol, and the tools that they lend us."""
