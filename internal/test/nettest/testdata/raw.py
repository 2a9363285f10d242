# Connects to NAME PORT by sockets alone, sends, ends its half, and reads all that comes back.
import socket, sys, threading

name, port = sys.argv[1], int(sys.argv[2])
size = 2 << 20
with socket.create_connection((name, port), timeout=60) as s:
    got = bytearray()

    def read():
        while data := s.recv(65536):
            got.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    s.sendall(bytes(range(256)) * (size // 256))
    s.shutdown(socket.SHUT_WR)
    reader.join(60)
    assert bytes(got) == bytes(range(256)) * (size // 256), len(got)
