"""Figures: pure functions from a result to a plotly figure, one template, one colour per class and policy."""
