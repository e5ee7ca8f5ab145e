"""The page "Hivex": a FastAPI application, and the React application in ``static`` that shows its answers."""

from __future__ import annotations
