package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// Shim and tree server share a SOCK_SEQPACKET pair. The shim sends one packet with the FUSE
// descriptor of the mount. The tree server answers with one packet: a dot when it serves, a
// dot and the reason when it does not. After that the shim sends TreeRequests, each a packet
// of JSON, with a descriptor if it has rules. The tree server answers each but AskVerdict with a
// TreeReply of the same ID, in any order. Neither blocks on a full socket, so neither can hang the
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
		return fmt.Errorf("send the mount: %w", tooManySent(err))
	}
	return nil
}

// tooManySent adds to ETOOMANYREFS, an error of the sending of a descriptor, what helps.
func tooManySent(err error) error {
	if !errors.Is(err, unix.ETOOMANYREFS) {
		return err
	}
	return fmt.Errorf("%w: programs of user %d have sent as many file descriptors by unix sockets, which no process has received, as the limit of open files: end the program or sandbox that does (wolffia rm -f), or raise the limit (ulimit -Hn)", err, os.Getuid())
}

// ReceiveFile waits for a packet with a descriptor, as of SendDevice. Errors name what is
// expected, and from whom. The caller closes the file.
func ReceiveFile(socket *os.File, what, sender string) (*os.File, error) {
	packet, file, err := ReceivePacket(socket, make([]byte, 1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("receive %s: %w", what, err)
	case len(packet) == 0:
		return nil, fmt.Errorf("receive %s: %s has ended", what, sender)
	case file == nil:
		return nil, fmt.Errorf("receive %s: the message has no descriptor", what)
	}
	return file, nil
}

// SendServing tells the shim that the tree is served or, if why is not nil, why not.
func SendServing(control *os.File, why error) error {
	text := "." // an empty packet would look like a hang-up
	if why != nil {
		text += why.Error()
	}
	return unix.Sendmsg(int(control.Fd()), []byte(text), nil, nil, unix.MSG_NOSIGNAL)
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

// ReceivePacket waits for a packet and its descriptor, which may be nil and which the caller
// closes. An empty packet is a hang-up. A packet that does not fit into buf is an error.
// What a peer has sent before it ended is received, also if it left packets unread.
func ReceivePacket(control *os.File, buf []byte) ([]byte, *os.File, error) {
	return receive(int(control.Fd()), buf)
}

// receive is ReceivePacket for a descriptor.
func receive(fd int, buf []byte) ([]byte, *os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	var n, oobn, flags int
	err := error(unix.EINTR)
	// A peer that ends with packets unread resets the connection. The kernel reports that once,
	// and ahead of what the peer has sent (unix_release_sock and __skb_try_recv_datagram in
	// Linux).
	for reset := false; errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNRESET) && !reset; {
		reset = errors.Is(err, unix.ECONNRESET)
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
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
		_ = file.Close() // nil is fine
		return buf[:n], nil, errCut
	}
	return buf[:n], file, nil
}

// The operations of a TreeRequest.
const (
	AskStats = "stats" // return TreeStats
	AskAudit = "audit" // flush the audit log
	// AskRules: replace the rules by those in the descriptor. An earlier version of OpRules, which
	// had them in the request, was called otherwise.
	AskRules = "rules-in"
	// AskActivate: serve the directory TreeRequest.Path by the rules in the descriptor; once, for
	// a pooled sandbox.
	AskActivate = "activate"
	// AskWarmUp: do as for AskActivate with a tree that is not mounted.
	AskWarmUp = "warmup"
	// AskDenials: return what was denied since TreeRequest.Since.
	AskDenials = "denials"
	// AskVerdict: let the access that TreeRequest.Asked waits with go on, or refuse it.
	AskVerdict = "verdict"
	// AskHostChanges: return an echo.Batch for TreeRequest.Thread; without one drop the changes.
	AskHostChanges = "host-changes"
)

// A TreeRequest is a request of the shim to the tree server.
type TreeRequest struct {
	ID    uint64  `json:"id"`
	Op    string  `json:"op"`
	Path  string  `json:"path,omitempty"`  // for adopt
	Git   TreeGit `json:"git,omitzero"`    // for adopt
	Since int64   `json:"since,omitempty"` // for denials: so many are known already
	// for rules: the directory that the client finds at the codebase's path, for which they were
	// made
	At Dir `json:"at,omitzero"`
	// for host-changes: the thread of the shim that repeats them
	Thread int `json:"thread,omitempty"`

	Review *Review `json:"review,omitempty"`

	// for verdict: a TreeReply's Asked, the answer, and whose it is
	Asked   uint64 `json:"asked,omitempty"`
	Allowed bool   `json:"allowed,omitempty"`
	By      string `json:"by,omitempty"`
}

// A TreeReply answers the TreeRequest with its ID.
type TreeReply struct {
	Failure
	ID     uint64           `json:"id"`
	Stats  *TreeStats       `json:"stats,omitempty"`
	Denied *runtime.Denials `json:"denied,omitempty"`
	// SequentialLookup marks a message that answers no request: a process looks up name after
	// name, and the kernel does not know the names. Listing the tree in advance saves these
	// lookups.
	SequentialLookup bool `json:"sequentialLookup,omitempty"`
	// HostChanged marks another one: AskHostChanges has an answer.
	HostChanged bool `json:"hostChanged,omitempty"`
	// Asked marks a third one: an access waits with this number for AskVerdict. Its Question has no
	// ID, Time, Until, Count, Recent. Without a Question the access waits no more, since its process
	// has ended.
	Asked    uint64            `json:"asked,omitempty"`
	Question *runtime.Question `json:"question,omitempty"`
	// HostChanges is an echo.Batch, for AskHostChanges.
	HostChanges json.RawMessage `json:"hostChanges,omitempty"`
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
	return tooManySent(unix.Sendmsg(int(control.Fd()), b, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT))
}

// seals show the reader of rules that their file is in memory, cannot change, and does not
// block (memfd_create(2)).
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// SealedFile returns a file in memory with the given content, which cannot change. The caller
// closes it.
func SealedFile(content []byte) (*os.File, error) {
	f, err := memory("rules", content, unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	if _, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// memory returns a file in memory, to be read from its beginning. The caller closes it.
func memory(name string, content []byte, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.WriteAt(content, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readAll returns the content of a file of memory.
func readAll(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	content := make([]byte, st.Size())
	_, err = f.ReadAt(content, 0)
	return content, err
}

// MaxRules bounds rules as JSON, in bytes. What package perm accepts is less.
const MaxRules = 8 << 20

// ReadRules reads rules from a file of SealedFile. The error is that of ParseRules.
func ReadRules(f *os.File) ([]perm.Rule, error) {
	text, err := RulesText(f)
	if err != nil {
		return nil, err
	}
	return ParseRules(text)
}

// ParseRules returns the rules of RulesText. The error is of class ErrInvalid, or ErrUnsupported
// for rules of a newer version than this program's.
func ParseRules(text []byte) ([]perm.Rule, error) {
	rules, err := perm.ParseJSON(text)
	if errors.Is(err, perm.ErrNewer) {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "%w than the one that serves the sandbox: stop it and start it again", err)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "read the rules: %w", err)
	}
	return rules, nil
}

// RulesText returns the content of a file of SealedFile with rules. The error is of class
// ErrInvalid.
func RulesText(f *os.File) ([]byte, error) {
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
	text, err := readAll(f)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "read the rules: %w", err)
	}
	return text, nil
}
