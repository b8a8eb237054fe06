"""Runs: cells, sweeps, the paper's evidence and its verdicts."""
