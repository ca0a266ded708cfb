"""Clients of Model Context Protocol (MCP) servers and the tools that they offer to the model."""
