"""LangChain's own tests of a sandbox."""

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from wolffia import Client, Owner
from wolffia_deepagents import WolffiaSandbox


GLOB = "deepagents 0.7.32 returns absolute paths of regular files, as its protocol says; langchain-tests 1.1.9 is older"
OLDER = {
    "test_glob": GLOB, "test_glob_basic_pattern": GLOB, "test_glob_with_directories": GLOB,
    "test_glob_hidden_files_explicitly": GLOB, "test_glob_with_character_class": GLOB,
    "test_glob_with_question_mark": GLOB,
    "test_write_existing_file_fails": "deepagents 0.7.32 replaces a file that exists, as its protocol says",
}


class TestStandard(SandboxIntegrationTests):
    @pytest.fixture(autouse=True)
    def older(self, request: pytest.FixtureRequest) -> None:
        if reason := OLDER.get(request.node.name):
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[WolffiaSandbox]:
        with Client(owner=Owner("test", "deepagents", "standard")) as client, client.add(
            cow=True, env={"PATH": "/tmp/bin:/usr/bin:/bin"}
        ) as box:
            box.run("mkdir /tmp/bin && ln -s /usr/bin/python3 /tmp/bin/python")  # which the tests run
            yield WolffiaSandbox(box)
