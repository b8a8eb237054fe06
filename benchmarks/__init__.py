"""Speed and evidence: scripts that measure, and the naive truth they measure against."""
