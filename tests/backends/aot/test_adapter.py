"""What the AOT stage takes from torch's private parts, on the versions it was checked on."""

from __future__ import annotations

import subprocess
import sys

import torch

from capture.backends.aot import adapter


def test_installed_torch_was_checked() -> None:
    assert adapter.version_is_checked(), (
        f"run tests/backends/aot and the cases on torch {torch.__version__}, then add it to "
        "CHECKED_VERSIONS in capture/backends/aot/adapter.py"
    )


def test_views_are_told_from_other_operators() -> None:
    aten = torch.ops.aten
    assert adapter.is_view_op(aten.transpose.int)
    assert adapter.is_view_op(aten.unbind.int)
    assert not adapter.is_view_op(aten.add.Tensor)
    assert not adapter.is_view_op(aten.add_.Tensor)


def test_inputs_that_share_memory() -> None:
    x, y = torch.zeros(4), torch.zeros(4)
    assert adapter.same_storage([x, y, x[:1]], [2])
    assert not adapter.same_storage([x, y, x[:1]], [1])


def test_importing_the_stage_imports_nothing_heavy() -> None:
    script = (
        "import sys, torch; before = set(sys.modules); import capture.backends.aot; "
        "new = set(sys.modules) - before; "
        "print([n for n in new if 'functorch' in n or 'sympy' in n or 'fake_tensor' in n])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
