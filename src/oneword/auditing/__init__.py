"""Auditing an encoder: does it notice edits that change the meaning of a text, and ignore those that do not?"""
