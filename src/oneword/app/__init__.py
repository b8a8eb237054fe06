"""The interactive page on one's own machine: type a text, see what one word can change."""
