"""Random programs, eagerly and captured; ``python -m tests.conformance.fuzz`` runs more."""

# mypy: ignore-errors

from __future__ import annotations

import pytest

from tests.conformance.fuzz import check_seed


@pytest.mark.parametrize("block", range(6))
def test_random_programs_agree_with_eager(block):
    for seed in range(500_000 + 10 * block, 500_000 + 10 * (block + 1)):
        found = check_seed(seed)
        assert found is None or found[0] == "invalid", f"seed {seed}: {found[:2]}"
