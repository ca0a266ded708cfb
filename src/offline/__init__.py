"""The offline model: rules that remember and quote, where no language model is connected."""
