# NAME PORT [PROXY PORT]: upgrades a connection to a web socket (RFC 6455), and has a text echoed.
import base64, os, socket, ssl, sys

name, port = sys.argv[1], int(sys.argv[2])
to = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else (name, port)
s = socket.create_connection(to, timeout=60)
if to[0] != name:
    s.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = s.recv(4096)
        assert data, answer
        answer += data
    assert answer.split(b" ")[1] == b"200", answer
if port == 443:
    s = ssl.create_default_context(cafile="/conf/ca").wrap_socket(s, server_hostname=name)
key = base64.b64encode(os.urandom(16)).decode()
s.sendall(f"GET /socket HTTP/1.1\r\nHost: {name}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
f = s.makefile("rb")
status = f.readline()
assert b" 101 " in status, status
while f.readline() not in (b"\r\n", b""):
    pass
text, mask = b"hello there", os.urandom(4)
s.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(text)))
head = f.read(2)
assert head == bytes([0x81, len(text)]), head
assert f.read(len(text)) == text
