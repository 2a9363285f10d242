import os
from collections.abc import Iterator

import pytest

from wolffia import Client, Owner, Sandbox


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of the service that WOLFFIA_ADDRESS and WOLFFIA_API_KEY name."""
    assert "WOLFFIA_ADDRESS" in os.environ, "start wolffia serve, and set WOLFFIA_ADDRESS"
    with Client(owner=Owner("test", "python", "zoe")) as c:
        yield c


@pytest.fixture
def box(client: Client) -> Iterator[Sandbox]:
    with client.add(cow=True) as box:
        yield box
