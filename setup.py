"""Holds the build of the native core, `capture._native`; the metadata is in pyproject.toml.

Environment: ``CAPTURE_DEBUG=1`` builds with assertions, ``CAPTURE_ASAN=1`` with the address
sanitizer, ``CAPTURE_WERROR=1`` makes warnings errors.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = Path("capture") / "csrc"


def flag(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def compile_args() -> list[str]:
    args = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-fvisibility=hidden"]
    if flag("CAPTURE_WERROR"):
        args.append("-Werror")
    if flag("CAPTURE_DEBUG"):
        args += ["-UNDEBUG", "-O1"]
    if flag("CAPTURE_ASAN"):
        args += ["-fsanitize=address", "-fno-omit-frame-pointer", "-O1"]
    return args


def link_args() -> list[str]:
    return ["-fsanitize=address"] if flag("CAPTURE_ASAN") else []


class BuildNative(build_ext):
    """Build as usual, after saying in plain words what a machine lacks."""

    def build_extensions(self) -> None:
        compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
        if shutil.which(compiler) is None:
            sys.exit(
                f"capture needs a C compiler to build its native core, and {compiler!r} was not "
                "found.\nInstall one, e.g. `apt-get install gcc` (Debian, Ubuntu), "
                "`dnf install gcc` (Fedora) or `xcode-select --install` (macOS)."
            )
        header = Path(sysconfig.get_path("include")) / "internal" / "pycore_frame.h"
        if not header.exists():
            sys.exit(
                f"capture needs CPython's headers to build its native core, and {header} does not "
                f"exist.\nInstall them, e.g. `apt-get install python3-dev` (Debian, Ubuntu) or "
                "`dnf install python3-devel` (Fedora)."
            )
        super().build_extensions()


setup(
    ext_modules=[
        Extension(
            "capture._native",
            sources=sorted(str(path) for path in SOURCES.glob("*.c")),
            depends=sorted(str(path) for path in SOURCES.glob("*.h")),
            extra_compile_args=compile_args(),
            extra_link_args=link_args(),
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
