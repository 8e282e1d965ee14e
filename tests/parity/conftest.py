"""The parity tests share their texts and references as plain modules beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
