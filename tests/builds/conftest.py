"""Built folders for the tests of builds."""

from tests.shard.conftest import folder, one_build

__all__ = ["folder", "one_build"]
