"""Requests drawn from the server's own OpenAPI description, right and wrong ones, are answered as it says."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed (extra 'dev')")

from simsc.web.app import create_app  # noqa: E402
from simsc.web.settings import LOOPBACK, Settings  # noqa: E402

EXAMPLES = int(os.environ.get("SIMSC_FUZZ_EXAMPLES", "8"))
"""Requests for each operation; ``make fuzz`` asks for many more."""
OPERATIONS = [
    *("GET /api/health", "GET /api/models", "POST /api/images", "GET /api/images/{image_id}"),
    *("DELETE /api/images/{image_id}", "POST /api/images/{image_id}/encode", "GET /api/samples"),
    *("GET /api/samples/{name}/{number}", "POST /api/samples/{name}/{number}", "GET /api/localizers"),
    *("POST /api/index/find", "POST /api/index/{number}", "POST /api/match", "POST /api/match-images"),
    *("POST /api/warp", "POST /api/export/{form}"),
]


CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def app(small_matcher) -> Any:
    offered = Settings(models={"first": "resnet50.v1_in1k"}, hosts=LOOPBACK | {"testserver"}, max_pixels=500_000)
    return create_app(offered, small_matcher)


@pytest.fixture(scope="module")
def api(app) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_all_operations_are_asked(api) -> None:
    assert sorted(operation.ok().label for operation in api.get_all_operations()) == sorted(OPERATIONS)


@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_are_those_of_the_description(app, api, label: str) -> None:
    method, path = label.split()
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    cases = st.one_of([api[path][method].as_strategy(generation_mode=mode) for mode in modes])

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=HealthCheck)
    @given(case=cases, known=st.booleans())
    def ask(case: Any, known: bool) -> None:
        if known:
            _name_an_image(case, app.state.service.store.put(np.zeros((36, 48, 3), np.uint8), "a").id)
        case.call_and_validate(checks=CHECKS)

    ask()


def _name_an_image(case: Any, token: str) -> None:
    """Ask about an image that the server has: a drawn name would never meet one."""
    if isinstance(case.path_parameters, dict) and "image_id" in case.path_parameters:
        case.path_parameters["image_id"] = token
    if isinstance(case.body, dict) and "points" in case.body:
        case.body |= {"source": token, "target": token}
