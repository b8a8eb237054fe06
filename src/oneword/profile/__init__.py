"""A trained model at a text: which words move which of its layers and heads, and by how much more than noise."""
