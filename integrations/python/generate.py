"""Makes wolffia/_sync.py of wolffia/_async.py: run it after a change."""

import re
from pathlib import Path

WORDS = {
    "AsyncClient": "Client", "AsyncSandbox": "Sandbox", "AsyncIterator": "Iterator",
    "AsyncHTTPTransport": "HTTPTransport", "__aenter__": "__enter__", "__aexit__": "__exit__", "aclose": "close",
    "aread": "read", "aiter_lines": "iter_lines",
}
HEAD = '"""The synchronous client. generate.py has made it of _async.py: change that."""'


def synchronous(text: str) -> str:
    text = re.sub(r"\b(async|await) ", "", text)
    text = re.sub(r"\w+", lambda m: WORDS.get(m.group(), m.group()), text)
    return HEAD + text[text.index('"""', 3) + 3:]


if __name__ == "__main__":
    here = Path(__file__).parent / "wolffia"
    (here / "_sync.py").write_text(synchronous((here / "_async.py").read_text()))
