"""An audit: does an encoder notice words that change the meaning, and overlook those that do not?"""
