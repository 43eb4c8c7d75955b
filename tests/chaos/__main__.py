"""Run chaos from the command line; `running` does it."""

import sys

from tests.chaos.running import main

if __name__ == "__main__":
    sys.exit(main())
