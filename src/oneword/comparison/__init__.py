"""Two texts under one model: how far each word and layer moved, how attention changed, and the next token."""
