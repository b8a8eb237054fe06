"""Every word of a text under any maps and models: one request, one table."""
