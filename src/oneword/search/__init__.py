"""Search for the sup on Probes: every value found here is attained, so it is a lower bound on S."""
