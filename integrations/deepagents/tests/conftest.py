from collections.abc import Iterator

import pytest

from wolffia import Client, Owner
from wolffia_deepagents import WolffiaSandbox


@pytest.fixture(scope="class")
def sandbox() -> Iterator[WolffiaSandbox]:
    with Client(owner=Owner("test", "deepagents", "zoe")) as client, client.add(cow=True) as box:
        yield WolffiaSandbox(box)
