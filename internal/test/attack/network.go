package attack

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// family is a row about sockets of a kind.
func family(id, tries, source string, domain, kind, protocol int) Row {
	return Row{ID: "family." + id, Tries: tries, Source: source, Want: all(Refused), Do: func(*World) string {
		_, err := unix.Socket(domain, kind, protocol)
		if errors.Is(err, unix.EINVAL) { // as some say of what they were built without
			return "refused EINVAL"
		}
		return said(err)
	}}
}

func familyRows() []Row {
	const old = "review L8: the host loads a module for it"
	return []Row{
		family("vsock", "speak to the machine's host (AF_VSOCK)", "control agents listen there", unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		{ID: "family.vsock-high", Tries: "the same, with a high bit set in the family", Source: "CVE-2019-10063", Want: all(Refused), Do: func(*World) string {
			_, err := sys(unix.SYS_SOCKET, 1<<32|unix.AF_VSOCK, unix.SOCK_STREAM, 0)
			return said(err)
		}},
		{ID: "family.vsock-pair", Tries: "the same, by socketpair", Source: "filters of socket(2) alone", Want: all(Refused), Do: func(*World) string {
			_, err := unix.Socketpair(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
			return said(err)
		}},
		family("alg", "use the kernel's cryptography (AF_ALG)", "CVE-2019-8912", unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		family("packet", "read and forge packets (AF_PACKET)", "CVE-2020-14386, CVE-2017-7308", unix.AF_PACKET, unix.SOCK_RAW, 0),
		family("raw", "forge IP packets", "needs CAP_NET_RAW", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		family("raw6", "forge IPv6 packets", "needs CAP_NET_RAW", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
		family("bluetooth", "use Bluetooth", "CVE-2020-12351; "+old, unix.AF_BLUETOOTH, unix.SOCK_RAW, 1),
		family("tipc", "use TIPC", "CVE-2021-43267; "+old, unix.AF_TIPC, unix.SOCK_RDM, 0),
		family("kcm", "use KCM", old, unix.AF_KCM, unix.SOCK_DGRAM, 0),
		family("xdp", "use XDP", old, unix.AF_XDP, unix.SOCK_RAW, 0),
		family("can", "use CAN", "CVE-2021-3609; "+old, unix.AF_CAN, unix.SOCK_RAW, 1),
		family("key", "use IPsec's keys (AF_KEY)", old, unix.AF_KEY, unix.SOCK_RAW, 2),
		family("rds", "use RDS", "CVE-2010-3904; "+old, unix.AF_RDS, unix.SOCK_SEQPACKET, 0),
		family("smc", "use SMC", old, unix.AF_SMC, unix.SOCK_STREAM, 0),
		family("nfc", "use NFC", old, unix.AF_NFC, unix.SOCK_SEQPACKET, 0),
		family("pppox", "use PPP over something", old, unix.AF_PPPOX, unix.SOCK_STREAM, 0),
		family("llc", "use LLC", "CVE-2017-6345; "+old, unix.AF_LLC, unix.SOCK_DGRAM, 0),
		family("ax25", "use AX.25", "CVE-2022-1199; "+old, unix.AF_AX25, unix.SOCK_DGRAM, 0),
		family("x25", "use X.25", old, unix.AF_X25, unix.SOCK_SEQPACKET, 0),
		family("appletalk", "use AppleTalk", old, unix.AF_APPLETALK, unix.SOCK_DGRAM, 0),
		family("phonet", "use Phonet", old, unix.AF_PHONET, unix.SOCK_DGRAM, 0),
		family("ieee802154", "use IEEE 802.15.4", old, unix.AF_IEEE802154, unix.SOCK_DGRAM, 0),
		family("qipcrtr", "use Qualcomm's router", old, 42, unix.SOCK_DGRAM, 0),
		family("sctp", "use SCTP", "CVE-2021-23133; "+old, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
		family("dccp", "use DCCP", "CVE-2017-6074; "+old, unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP),
		{ID: "family.nftables", Tries: "configure the firewall by netlink", Source: "CVE-2024-1086, CVE-2022-25636", Want: all(Refused), Do: nftables},
	}
}

// nftables asks netfilter for a table, which needs CAP_NET_ADMIN over the network
// namespace.
func nftables(*World) string {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return said(err)
	}
	message := []byte{ // nlmsghdr of NFT_MSG_GETTABLE, and nfgenmsg
		20, 0, 0, 0, unix.NFT_MSG_GETTABLE, unix.NFNL_SUBSYS_NFTABLES, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0,
	}
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return said(err)
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3})
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return said(err)
	}
	if n >= 20 && reply[4] == unix.NLMSG_ERROR {
		code := int32(reply[16]) | int32(reply[17])<<8 | int32(reply[18])<<16 | int32(reply[19])<<24
		if code != 0 {
			return said(unix.Errno(-code))
		}
	}
	return "works"
}

// dial connects, and closes.
func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// reachable is a row about connecting to something.
func reachable(id, tries, source string, want Want, f func(w *World) error) Row {
	return Row{ID: "net." + id, Tries: tries, Source: source, Want: want, Do: func(w *World) string {
		err := f(w)
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return "times out"
		}
		return said(err)
	}}
}

func send(address string) error {
	c, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

func networkRows() []Row {
	r := all(Refused)
	shared := "`--network host` shares them: SECURITY.md."
	hostNet := func(row Row) Row {
		row.ID += "-shared"
		row.Tries += ", with `--network host`"
		row.In = HostNet
		row.Want = all(Allowed).because(shared)
		return row
	}
	loopback := reachable("loopback", "connect to a server on the host's loopback", "network", r, func(w *World) error {
		return dial("tcp", "127.0.0.1:"+itoa(w.Port))
	})
	abstract := reachable("abstract", "connect to an abstract socket of the host", "CVE-2020-15257", r, func(w *World) error {
		return dial("unix", "@"+w.Abstract)
	})
	return []Row{
		loopback, hostNet(loopback),
		abstract, hostNet(abstract).gvisor(Refused, shared+" gVisor has abstract sockets of its own even then."),
		reachable("pathname", "connect to a socket of the host in the codebase", "review H6", r, func(*World) error { return dial("unix", "/workspace/host.sock") }),
		{ID: "net.mounted", Tries: "connect to a socket of the host in a mounted directory", Source: "review H6; a read-only mount does not keep from connecting", In: Outside, Want: all(Refused)},
		Row{ID: "net.mounted-named", Tries: "connect to a socket of the host that is mounted by its own name", Source: "review H6", In: Outside, Want: all(Allowed).because("A socket is mounted to be reached.")}.
			gvisor(Refused, "gVisor connects to no socket of the host's."),
		reachable("internet", "connect to the internet", "network", r, func(*World) error { return dial("tcp", "192.0.2.1:80") }),
		reachable("ipv6", "connect by IPv6", "network", r, func(*World) error { return dial("tcp", "[2001:db8::1]:80") }),
		reachable("link-local", "ask the cloud's metadata service for credentials", "CDK", r, func(*World) error { return dial("tcp", "169.254.169.254:80") }),
		reachable("link-local6", "ask it by IPv6", "CDK", r, func(*World) error { return dial("tcp", "[fd00:ec2::254]:80") }),
		reachable("udp", "send a datagram to the internet", "network", r, func(*World) error { return send("192.0.2.1:53") }),
		reachable("dns", "send data out in DNS queries", "leaks", r, func(*World) error {
			_, err := net.LookupHost("secret.example.org")
			if errors.As(err, new(*net.DNSError)) {
				return unix.ECONNREFUSED
			}
			return err
		}),
		reachable("docker-tcp", "connect to an engine by TCP", "CDK", r, func(*World) error { return dial("tcp", "127.0.0.1:2375") }),
		reachable("gateway", "connect to the host by its address on a bridge", "deepce", r, func(*World) error { return dial("tcp", "172.17.0.1:22") }),
		{ID: "net.interfaces", Tries: "use another interface than loopback", Source: "network", Want: all(Hidden), Do: func(*World) string {
			all, err := net.Interfaces()
			if err != nil {
				return said(err)
			}
			for _, i := range all {
				if i.Name != "lo" {
					return "works " + i.Name
				}
			}
			return "hidden"
		}},
		{ID: "net.up", Tries: "set up an interface", Source: "needs CAP_NET_ADMIN", Want: r, Do: does(func(*World) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			request, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			request.SetUint16(0)
			return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
		})},
		{ID: "net.resolv", Tries: "find the host's resolver", Source: "leaks", Want: all(Hidden), Do: func(*World) string {
			_, err := os.Stat("/etc/resolv.conf")
			return said(err)
		}},
		{ID: "net.guest", Tries: "find the descriptors of PID 1's connection to the host", Source: "PID 1", Want: r, Do: does(func(*World) error {
			return open("/proc/1/fd/0", unix.O_RDWR)
		})},
	}
}
