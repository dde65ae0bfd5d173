"""Misspelt names are refused before weights are looked for."""

import pytest
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [("--protocol", "paper-255", "paper-256"), ("--localizer", "agrmax", "argmax"), ("--data", "pfpascl", "pfpascal")],
)
def test_the_nearest_name_is_offered(option, value, hint, monkeypatch, tmp_path):
    monkeypatch.setenv("SIMSC_SHARED", str(tmp_path))
    result = CliRunner().invoke(app, ["evaluate", "--model", "dino-vitb8", option, value])
    assert isinstance(result.exception, ConfigError)
    assert f"did you mean '{hint}'" in str(result.exception)
