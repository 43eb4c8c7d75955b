"""`python -m daemon` is `dreamd`."""

import sys

from daemon.cli import main

sys.exit(main())
