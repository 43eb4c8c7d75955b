"""Run a storm over a fleet from the command line; `running` does it."""

import sys

from tests.fleet.running import main

if __name__ == "__main__":
    sys.exit(main())
