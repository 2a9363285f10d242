package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// Shim and tree server share a SOCK_SEQPACKET pair. The shim sends one packet with the FUSE
// descriptor of the mount. The tree server answers with one packet: a dot when it serves, a
// dot and the reason when it does not. After that the shim sends TreeRequests, each a packet
// of JSON, with a descriptor if it has rules. The tree server answers each with a TreeReply
// of the same ID, in any order. Neither blocks on a full socket, so neither can hang the
// other. Each notices the other's end by the hang-up.

// ControlPair returns such a pair of sockets. The caller closes both.
func ControlPair() (shim, tree *os.File, err error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(fd[0]), "control"), os.NewFile(uintptr(fd[1]), "control"), nil
}

// SendDevice sends the descriptor of a mount.
func SendDevice(control, device *os.File) error {
	rights := unix.UnixRights(int(device.Fd()))
	if err := unix.Sendmsg(int(control.Fd()), []byte{0}, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("send the mount: %w", err)
	}
	return nil
}

// ReceiveDevice waits for SendDevice. The caller closes the descriptor.
func ReceiveDevice(control *os.File) (*os.File, error) {
	packet, device, err := ReceivePacket(control, make([]byte, 1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("receive the mount: %w", err)
	case len(packet) == 0:
		return nil, errors.New("the shim ended before it had mounted the tree")
	case device == nil:
		return nil, errors.New("receive the mount: the packet has no descriptor")
	}
	return device, nil
}

// SendServing tells the shim that the tree is served or, if why is not nil, why not.
func SendServing(control *os.File, why error) error {
	b := []byte{}
	if why != nil {
		b = []byte(why.Error())
	}
	// An empty packet would look like a hang-up.
	_, err := unix.SendmsgN(int(control.Fd()), append([]byte{'.'}, b...), nil, nil, unix.MSG_NOSIGNAL)
	return err
}

// ReceiveServing waits for SendServing.
func ReceiveServing(control *os.File) error {
	packet, _, err := ReceivePacket(control, make([]byte, 4096))
	switch {
	case err != nil && !errors.Is(err, errCut):
		return fmt.Errorf("tree server: %w", err)
	case len(packet) == 0:
		return errors.New("the tree server has ended: see wolffia logs")
	case len(packet) > 1:
		return fmt.Errorf("tree server: %s", packet[1:])
	}
	return nil
}

// MaxPacket bounds a packet after the first ones, in bytes.
const MaxPacket = 64 << 10

// errCut is the error for a packet that is too long.
var errCut = errors.New("packet is too long")

// ReceivePacket waits for a packet and its descriptor, nil if it has none, which the caller
// closes. An empty packet is a hang-up. A packet that does not fit into buf is an error.
func ReceivePacket(control *os.File, buf []byte) ([]byte, *os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	var n, oobn, flags int
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		n, oobn, flags, _, err = unix.Recvmsg(int(control.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, nil, err
	}
	var file *os.File
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, nil, err
		}
		for _, fd := range fds {
			if file != nil { // only one is ever sent
				_ = unix.Close(fd)
				continue
			}
			file = os.NewFile(uintptr(fd), "received")
		}
	}
	if flags&unix.MSG_TRUNC != 0 {
		if file != nil {
			_ = file.Close()
		}
		return buf[:n], nil, errCut
	}
	return buf[:n], file, nil
}

// The operations of a TreeRequest.
const (
	AskStats = "stats" // return TreeStats
	AskAudit = "audit" // flush the audit log
	AskRules = "rules" // replace the rules by those in the descriptor
)

// A TreeRequest is a request of the shim to the tree server.
type TreeRequest struct {
	ID uint64 `json:"id"`
	Op string `json:"op"`
}

// A TreeReply answers the TreeRequest with its ID.
type TreeReply struct {
	Failure
	ID    uint64     `json:"id"`
	Stats *TreeStats `json:"stats,omitempty"`
}

// SendPacket sends v as JSON, with a descriptor if file is not nil. It does not block: a
// full socket is an error.
func SendPacket(control *os.File, v any, file *os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxPacket {
		return errCut
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	_, err = unix.SendmsgN(int(control.Fd()), b, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	return err
}

// seals show the reader of rules that their file is in memory, cannot change, and does not
// block (memfd_create(2)).
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// SealedFile returns a file in memory with the given content, which cannot change. The caller
// closes it.
func SealedFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("rules", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "rules")
	if _, err = f.Write(content); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MaxRules bounds rules as JSON, in bytes. What package perm accepts is less.
const MaxRules = 8 << 20

// ReadRules reads rules from a file of SealedFile. The error is of class ErrInvalid.
func ReadRules(f *os.File) ([]perm.Rule, error) {
	if f == nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the request has no rules")
	}
	got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the file of the rules is not sealed")
	}
	st, err := f.Stat()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "read the rules: %w", err)
	}
	if st.Size() > MaxRules {
		return nil, runtime.Errorf(runtime.ErrInvalid, "rules of more than %d bytes", MaxRules)
	}
	var rules []perm.Rule
	if err := json.NewDecoder(io.NewSectionReader(f, 0, st.Size())).Decode(&rules); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "read the rules: %w", err)
	}
	return rules, nil
}

// CloseFile closes f unless it is nil.
func CloseFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
