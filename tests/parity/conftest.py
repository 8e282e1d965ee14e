"""The parity tests share their texts and references as plain modules in this directory."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
