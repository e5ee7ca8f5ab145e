"""The application of the page: its routes, its files, and errors as responses in JSON."""

from __future__ import annotations

import logging
from pathlib import Path

from airflow.api_fastapi.core_api.security import requires_authenticated
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse

from airflow_hivex.core.errors import (
    HivexError,
    NoSuchCompactionError,
    NoSuchLockError,
    NoSuchObjectError,
    NoSuchTransactionError,
    StoreError,
)
from airflow_hivex.plugins.page.admission import PATIENCE_S, Admission
from airflow_hivex.plugins.page.routes import (
    compactions,
    history,
    namespaces,
    overview,
    tables,
    task_instance,
    transactions,
)

log = logging.getLogger(__name__)

_STATIC = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css"}
_NOT_THERE = (NoSuchObjectError, NoSuchTransactionError, NoSuchLockError, NoSuchCompactionError)
_UNSTORED = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def create_application(patience_s: float = PATIENCE_S) -> FastAPI:
    """Return the application. Each route of the application requires a user who is logged in.

    :param patience_s: the longest time in seconds that a call waits for a free place, and then for its answer
    """
    application = FastAPI(
        title="Hivex",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(requires_authenticated())],
    )
    modules = (overview, history, transactions, compactions, tables, namespaces, task_instance)
    for module in modules:
        application.include_router(module.router, prefix="/api")
    application.add_middleware(Admission, refusal=_answer, patience_s=patience_s)
    application.add_api_route("/static/{name:path}", _static, methods=["GET"])
    application.add_exception_handler(HivexError, _hivex_error)
    application.add_exception_handler(AirflowNotFoundException, _no_connection)
    application.add_exception_handler(RequestValidationError, _invalid_request)
    application.add_exception_handler(Exception, _unexpected)
    return application


def _static(name: str) -> FileResponse:
    """Return a file of the React application."""
    path = (_STATIC / name).resolve()
    if not path.is_relative_to(_STATIC) or path.suffix not in _TYPES or not path.is_file():
        raise HTTPException(404, "There is no such file.")
    headers = {"Cache-Control": "private, max-age=60", "X-Content-Type-Options": "nosniff"}
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=headers)


def _answer(status: int, code: str, sentence: str, *, retryable: bool = False) -> JSONResponse:
    content = {"error": {"code": code, "message": sentence, "retryable": retryable}}
    return JSONResponse(content, status_code=status, headers=_UNSTORED)


async def _hivex_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HivexError)
    status = 503 if isinstance(error, StoreError) else 404 if isinstance(error, _NOT_THERE) else 409
    return _answer(status, error.code, str(error), retryable=error.retryable)


async def _no_connection(_: Request, error: Exception) -> JSONResponse:
    return _answer(404, "NO_SUCH_CONNECTION", str(error))


async def _invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # The check of rights and the route both read the connection, so that its error appears twice.
    places = dict.fromkeys(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
    return _answer(422, "INVALID_REQUEST", f"The request is not valid. {'; '.join(places)}")


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("The request %s of the page Hivex failed", request.url.path, exc_info=error)
    return _answer(500, "UNEXPECTED", "The page has failed unexpectedly. The log of the api-server has the details.")
