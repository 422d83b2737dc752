"""What a command answers stands alone on standard output; what it logs goes to stderr."""

from pathlib import Path

import yaml
from click.testing import CliRunner

from admission.cli.main import main
from tests.config import files


def test_manifests_stay_yaml_where_the_file_has_fields_without_effect(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(files.kueue(clientConnection={"qps": 300})))
    result = CliRunner().invoke(main, ["manifests", "--config", str(file)])
    assert result.exit_code == 0
    assert all(one["kind"] for one in yaml.safe_load_all(result.stdout))
    assert "clientConnection.qps" in result.stderr
