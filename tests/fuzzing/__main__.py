"""``PYTHONPATH=tests python -m fuzzing --count 100000 [--seed N] [--what formulas|specs|both|proofs]``."""

import sys

from fuzzing.driver import main

if __name__ == "__main__":
    sys.exit(main())
