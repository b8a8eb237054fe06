"""Certificates: upper bounds that hold for every allowed change. The modules below register theirs."""

from oneword.bounds import ceiling, layers, scores

__all__ = ["ceiling", "layers", "scores"]
