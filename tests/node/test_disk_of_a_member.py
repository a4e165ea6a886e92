"""What a member makes of its disk: a folder that vanishes, starts that fail, a log that fills."""

import shutil
from pathlib import Path

import pytest
from real_groups import go, group_file, joined

from tidings.core import EnvironmentMissing, Exit


def test_a_member_stops_when_its_folder_is_deleted_under_it(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def lose_the_folder() -> None:
        async with joined(config, "p3") as one:
            await (await one["p3"].broadcast(b"before")).stable()
            shutil.rmtree(tmp_path / "data" / "p3")
            await (await one["p3"].broadcast(b"into the void")).delivered()

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            with pytest.raises(EnvironmentMissing, match="deleted or replaced while it") as fault:
                await lose_the_folder()
            assert fault.value.status == Exit.ENVIRONMENT
            await (await two["p1"].broadcast(b"still here")).delivered()
            assert two["p1"].status().delivered.get("p3") == 1, "what was not kept has not left"

    go(scenario())
