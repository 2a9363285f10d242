# Serves one connection at ADDRESS:8080, made here to TO:8080: own.py ADDRESS TO
import socket
import sys

server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((sys.argv[1], 8080))
server.listen()
client = socket.create_connection((sys.argv[2], 8080), timeout=60)
accepted, _ = server.accept()
accepted.sendall(b"own\n")
accepted.close()
print(client.makefile().read(), end="")
