package inside

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// bigPacket is the most that one packet of TCP over IPv4 holds on a loopback, in bytes: the limit
// of the kernel (GSO_MAX_SIZE in linux/netdevice.h). The kernel's default is 64 KiB.
const bigPacket = 524280

// loopback is the index of each network namespace's lo.
const loopback = 1

// enlargePackets has the loopback of the calling thread's network namespace carry big packets of
// TCP over IPv4 ("BIG TCP"), which halves the cost of a byte. Linux 6.3 or later can do so. The
// loopback is not the host's: programs see streams of bytes only, and cannot capture packets.
func enlargePackets() error {
	return ask(enlarge())
}

// ask has the kernel do what a request of rtnetlink(7) says, in the calling thread's network
// namespace.
func ask(request []byte) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	if err := unix.Sendto(socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096) // the kernel has answered when sendto returns
	n, _, err := unix.Recvfrom(socket, answer, unix.MSG_DONTWAIT)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink: no answer")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return os.NewSyscallError("netlink", unix.Errno(-code))
	}
	return nil
}

// enlarge returns the request (rtnetlink(7)).
func enlarge() []byte {
	attributes := []uint16{unix.IFLA_GSO_IPV4_MAX_SIZE, unix.IFLA_GRO_IPV4_MAX_SIZE}
	size := unix.SizeofNlMsghdr + unix.SizeofIfInfomsg + len(attributes)*8
	b := binary.NativeEndian.AppendUint32(nil, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWLINK)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = append(b, make([]byte, 8+4)...) // sequence and port; family and type
	b = binary.NativeEndian.AppendUint32(b, loopback)
	b = append(b, make([]byte, 8)...) // flags, and which of them
	for _, a := range attributes {
		b = binary.NativeEndian.AppendUint16(b, 8)
		b = binary.NativeEndian.AppendUint16(b, a)
		b = binary.NativeEndian.AppendUint32(b, bigPacket)
	}
	return b
}

// second is an address of the loopback besides 127.0.0.1.
var second = [4]byte{127, 64, 0, 1}

// addAddress gives the loopback of the calling thread's network namespace a second address, all of
// whose network it has without. glibc's getaddrinfo(3) with AI_ADDRCONFIG finds nothing of IPv4
// where 127.0.0.1 is the only address.
func addAddress() error { return ask(newAddress()) }

// newAddress returns the request (rtnetlink(7)).
func newAddress() []byte {
	size := unix.SizeofNlMsghdr + unix.SizeofIfAddrmsg + 2*8
	b := binary.NativeEndian.AppendUint32(nil, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWADDR)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b = append(b, make([]byte, 8)...) // sequence and port
	b = append(b, unix.AF_INET, 32, 0, unix.RT_SCOPE_HOST)
	b = binary.NativeEndian.AppendUint32(b, loopback)
	for _, a := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		b = binary.NativeEndian.AppendUint16(b, 8)
		b = binary.NativeEndian.AppendUint16(b, a)
		b = append(b, second[:]...)
	}
	return b
}
