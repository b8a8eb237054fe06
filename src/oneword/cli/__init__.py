"""The command line: parse, call, print. Everything heavy is imported inside a command, so that --help is quick."""
