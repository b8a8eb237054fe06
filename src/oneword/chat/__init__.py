"""Prompts that differ in one word: what a causal language model answers to each, and which answers it finds likelier.

`ask(prompts)` sends every prompt with each of its two words, writes whole answers, and scores given ones. `Prompt` is a
prompt with a blank, `read_prompts` reads a file of them, `Chat` is the result.
"""

from oneword.chat.prompts import Prompt, read_prompts
from oneword.chat.result import Chat
from oneword.chat.verb import ask

__all__ = ["Chat", "Prompt", "ask", "read_prompts"]
