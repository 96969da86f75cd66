"""Makes epilogues: from variables and journalled effects to a Python function.

``epilogue`` collects the lines, ``rebuild`` has a rule for each kind of variable, ``replay`` one
for each kind of side effect. Must not know guards.
"""

from capture.codegen import rebuild, replay  # noqa: F401  (they register their rules)
from capture.codegen.epilogue import CannotRebuild, Codegen

__all__ = ["CannotRebuild", "Codegen"]
