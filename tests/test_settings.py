"""Settings from the environment."""

from pathlib import Path

import pytest

from discretion import errors, settings


class TestRead:
    def test_without_any_everything_stands_in_one_folder(self):
        found = settings.read({"PATH": "/bin"})
        assert found.data == Path("discretion-data").absolute()
        assert found.database_url == f"sqlite:///{found.data / 'discretion.db'}"

    def test_the_folder_and_the_database_can_be_named(self, tmp_path):
        found = settings.read({"DISCRETION_DATA": str(tmp_path), "DISCRETION_DATABASE_URL": "postgresql://db/x"})
        assert (found.data, found.database_url) == (tmp_path, "postgresql://db/x")

    def test_a_secret_may_stand_in_a_file_and_never_in_a_log(self, tmp_path):
        (tmp_path / "url").write_text("postgresql://me:hunter2@db/x\n")
        found = settings.read({"DISCRETION_DATABASE_URL_FILE": str(tmp_path / "url")})
        assert found.database_url == "postgresql://me:hunter2@db/x"
        assert "hunter2" not in f"{found} {found!r}"

    @pytest.mark.parametrize(
        ("environment", "named"),
        [
            ({"DISCRETION_DATABSE_URL": "x"}, "DISCRETION_DATABSE_URL"),
            ({"DISCRETION_DATA_FILE": "x"}, "DISCRETION_DATA_FILE"),
            ({"DISCRETION_DATABASE_URL": "x", "DISCRETION_DATABASE_URL_FILE": "y"}, "not both"),
            ({"DISCRETION_DATABASE_URL_FILE": "/nowhere/at/all"}, "cannot be read"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_by_name(self, environment, named):
        with pytest.raises(errors.InvalidSetting, match=named):
            settings.read(environment)

    def test_an_empty_secret_is_refused(self, tmp_path):
        (tmp_path / "empty").write_text("\n")
        with pytest.raises(errors.InvalidSetting, match="empty"):
            settings.read({"DISCRETION_DATABASE_URL_FILE": str(tmp_path / "empty")})
