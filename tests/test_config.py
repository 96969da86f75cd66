"""Settings: reading, writing, patching, the environment, and wrong names and types."""

from __future__ import annotations

from typing import Any, cast

import pytest

import capture.config
from capture.config import Settings, _from_environment, settings
from capture.errors import UserError

# Names are forwarded at run time; mypy sees the module only.
config = cast("Any", capture.config)


def test_patch_restores_also_after_an_error() -> None:
    before = settings.snapshot()
    with pytest.raises(ZeroDivisionError), config.patch(recompile_limit=2, verify=True):
        assert (settings.recompile_limit, settings.verify) == (2, True)
        raise ZeroDivisionError
    assert settings.snapshot() == before


def test_patch_is_a_decorator_and_takes_a_mapping() -> None:
    @settings.patch({"unroll_limit": 3}, verify=True)
    def read(depth: int = 0) -> tuple[int, bool]:
        return read(depth - 1) if depth else (settings.unroll_limit, settings.verify)

    before = settings.unroll_limit
    assert read(depth=2) == (3, True)
    assert settings.unroll_limit == before


def test_the_module_reads_and_writes_settings() -> None:
    with config.patch(recompile_limit=settings.recompile_limit):
        config.recompile_limit = 3
        assert settings.recompile_limit == config.recompile_limit == 3


def test_unknown_name_suggests() -> None:
    with pytest.raises(UserError, match="did you mean 'recompile_limit'"):
        config.recompile_limt = 3
    with pytest.raises(UserError, match="unknown setting 'cache_sise'"):
        config.patch(cache_sise=3)
    with pytest.raises(AttributeError, match="unknown setting"):
        _ = config.recompile_limt


def test_wrong_type_is_an_error_and_changes_nothing() -> None:
    before = settings.snapshot()
    with pytest.raises(UserError, match="config.verify is of type bool, not int"):
        config.verify = 1
    with (
        pytest.raises(UserError, match="of type int"),
        config.patch(verify=True, recompile_limit="8"),
    ):
        pass
    assert settings.snapshot() == before


def test_environment_gives_the_first_values() -> None:
    read = _from_environment({"CAPTURE_VERIFY": "1", "CAPTURE_UNROLL_LIMIT": "5"})
    assert (read.verify, read.unroll_limit) == (True, 5)
    assert _from_environment({"CAPTURE_VERIFY": ""}) == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [("CAPTURE_VERIFY", "maybe", "0 or 1"), ("CAPTURE_RECOMPILE_LIMIT", "many", "an int")],
)
def test_bad_environment_is_named(variable: str, text: str, expected: str) -> None:
    with pytest.raises(UserError, match=f"{variable}='{text}': expected {expected}"):
        _from_environment({variable: text})


def test_there_are_few_settings() -> None:
    assert len(settings.snapshot()) <= 25
