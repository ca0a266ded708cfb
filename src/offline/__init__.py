"""Offline model: rules that store and quote notes if no language model is connected."""
