"""What ``import capture`` brings in beyond torch: nothing heavy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each of these costs more than the whole package.
HEAVY = ("torch._dynamo", "torch._inductor", "torch._subclasses.fake_tensor", "sympy", "bytecode")
SCRIPT = f"""
import json, sys
import torch
before = set(sys.modules)
import capture
new = set(sys.modules) - before
print(json.dumps(sorted(name for name in {HEAVY!r} if name in new)))
"""


def test_import_brings_in_nothing_heavy() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout) == []
