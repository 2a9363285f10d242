package gate

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// clientUID returns the uid of the process at the other end of a connection within this
// machine. It costs the same however many connections there are. A client that has closed
// its socket is errNoClient.
func clientUID(c net.Conn) (int, error) {
	server, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	client, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return 0, err
	}
	return askOwner(client, server)
}

var (
	errNoClient = errors.New("no process has the other end of the connection any more")
	errNoAnswer = errors.New("netlink: no answer")
)

// checkDiag returns an error if this kernel does not tell whose a socket is. It asks for the listener.
func checkDiag(l net.Listener) error {
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return err
	}
	answer, err := ask(question(at, netip.AddrPortFrom(unspecified(at.Addr()), 0)))
	if err == nil {
		_, err = row(answer)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnsupported, "listen on %s: this kernel does not tell whose a connection is (sock_diag: %w): load its module tcp_diag, listen on unix:PATH, or add --api-keys FILE", at, err)
	}
	return nil
}

// unspecified returns the address of a's family that stands for none.
func unspecified(a netip.Addr) netip.Addr {
	if a.Unmap().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// askOwner returns the uid of the process that has the socket at one end of a connection.
func askOwner(from, to netip.AddrPort) (int, error) {
	answer, err := ask(question(from, to))
	if err != nil {
		return 0, err
	}
	return ownerOf(answer, from, to)
}

// ask returns the kernel's answer to a question of sock_diag(7).
func ask(question []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096) // the kernel has answered when sendto returns
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, os.NewSyscallError("recvfrom", err)
	}
	return answer[:n], nil
}

// Where inet_diag_req_v2 and inet_diag_msg (linux/inet_diag.h) have what is used of them, in
// bytes from the beginning of the message.
const (
	questionIDAt = unix.SizeofNlMsghdr + 8 // struct inet_diag_sockid
	questionSize = questionIDAt + idSize
	idSize       = 48

	stateAt    = unix.SizeofNlMsghdr + 1
	idAt       = unix.SizeofNlMsghdr + 4 // struct inet_diag_sockid
	uidAt      = idAt + idSize + 12
	inodeAt    = uidAt + 4
	answerSize = inodeAt + 4
)

// question returns the question for one socket of TCP, by its own address and that of the other end.
func question(from, to netip.AddrPort) []byte {
	family := byte(unix.AF_INET) // of the addresses: the socket can be one of IPv6
	if from.Addr().Unmap().Is6() {
		family = unix.AF_INET6
	}
	b := binary.NativeEndian.AppendUint32(nil, questionSize)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and port
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // all states
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	for _, a := range []netip.Addr{from.Addr(), to.Addr()} {
		b = append(b, append(a.Unmap().AsSlice(), make([]byte, 12)...)[:16]...)
	}
	b = binary.NativeEndian.AppendUint32(b, 0)             // any interface
	return binary.NativeEndian.AppendUint64(b, ^uint64(0)) // no cookie
}

// row returns an answer of the kernel's if it describes a socket.
func row(answer []byte) ([]byte, error) {
	if len(answer) < unix.SizeofNlMsghdr+4 {
		return nil, errNoAnswer
	}
	switch kind := binary.NativeEndian.Uint16(answer[4:]); {
	case kind == unix.NLMSG_ERROR:
		return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])))
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(answer) < answerSize:
		return nil, errNoAnswer
	}
	return answer, nil
}

// ownerOf returns the uid in an answer about the socket at one end of a connection. A socket
// without inode is no process's any more, and its uid can be 0. The client of a connection
// that was accepted is connected, though it may have ended its sending; in any other state the
// socket is another one, such as a listener at the same address.
func ownerOf(answer []byte, from, to netip.AddrPort) (int, error) {
	b, err := row(answer)
	if errors.Is(err, unix.ENOENT) {
		return 0, errNoClient
	}
	if err != nil {
		return 0, err
	}
	switch b[stateAt] {
	case unix.BPF_TCP_ESTABLISHED, unix.BPF_TCP_FIN_WAIT1, unix.BPF_TCP_FIN_WAIT2:
	default:
		return 0, errNoClient
	}
	v6 := b[unix.SizeofNlMsghdr] == unix.AF_INET6
	inode := binary.NativeEndian.Uint32(b[inodeAt:])
	if inode == 0 || addressAt(b, idAt, idAt+4, v6) != plain(from) || addressAt(b, idAt+2, idAt+20, v6) != plain(to) {
		return 0, errNoClient
	}
	return int(binary.NativeEndian.Uint32(b[uidAt:])), nil
}

// addressAt returns the address in an answer whose port and IP address are at these places.
func addressAt(b []byte, port, ip int, v6 bool) netip.AddrPort {
	a, _ := netip.AddrFromSlice(b[ip : ip+4])
	if v6 {
		a, _ = netip.AddrFromSlice(b[ip : ip+16])
	}
	return plain(netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[port:])))
}

// plain returns an address in the one form in which two can be compared.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
