"""Two texts under one model: which word and layer moved, where attention went, what the next word would be."""
