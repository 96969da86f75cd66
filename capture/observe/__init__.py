"""Holds what tells users what happened: explanations of a call, the page of break reasons."""

from capture.observe.catalogue import catalogue_page
from capture.observe.explain import Explanation, explain

__all__ = ["Explanation", "catalogue_page", "explain"]
