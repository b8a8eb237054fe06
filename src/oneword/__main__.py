"""The command `oneword`, also as `python -m oneword`."""

import sys


def main() -> None:
    """The entry point. Ctrl-C while the rest is being imported is no traceback either."""
    try:
        from oneword.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("oneword: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
