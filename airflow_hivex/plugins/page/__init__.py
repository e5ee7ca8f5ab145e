"""The page "Hivex": a FastAPI application, and the React application in ``static`` that shows the data."""

from __future__ import annotations
