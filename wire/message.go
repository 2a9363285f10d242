package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
)

// A Greeting is the guest's first message.
type Greeting struct {
	Version int `json:"version"`
}

// CheckHello returns why f is not the greeting of a guest that this host
// understands, or nil.
func CheckHello(f *Frame) error {
	if f.Type != Hello || f.Channel != 0 {
		return fmt.Errorf("%w: the first frame is of type %d on channel %d", ErrProtocol, f.Type, f.Channel)
	}
	var g Greeting
	if err := Decode(f, &g); err != nil {
		return err
	}
	if g.Version != Version {
		return fmt.Errorf("%w: the guest speaks version %d, this is version %d: they must be built together", ErrProtocol, g.Version, Version)
	}
	return nil
}

// An ExitStatus describes how a process ended.
type ExitStatus struct {
	// Code is the exit code, or 128+Signal.
	Code int `json:"code"`
	// Signal is the signal that killed the process, or 0.
	Signal int `json:"signal,omitempty"`
	// TimedOut reports that the request's limit ended it. A session's command then has Code 124.
	TimedOut bool `json:"timedOut,omitempty"`

	// What follows is set for commands of a session only.

	// Cwd is where the session is after the command.
	Cwd Path `json:"cwd,omitempty"`
	// DurationMS is how long the command ran, in milliseconds, without its wait
	// for its turn.
	DurationMS int64 `json:"durationMs,omitempty"`
	// ShellCode is what the shell itself gave as status of a command that has
	// timed out; nil if it did not say.
	ShellCode *int `json:"shellCode,omitempty"`
	// WantedTerminal reports that the command waited for keys of a terminal, had no terminal, and
	// was hung up.
	WantedTerminal bool `json:"wantedTerminal,omitempty"`
	// StatusLost reports that the command's status is not known; Code is then 125.
	StatusLost bool `json:"statusLost,omitempty"`
	// SessionEnded reports that the shell ended with this command, or was killed. The next command
	// runs in a new shell.
	SessionEnded bool `json:"sessionEnded,omitempty"`
	// Restored is set in the first result of a new shell. It is the part of the old shell's state
	// that the new one has: full, partial or none.
	Restored string `json:"restored,omitempty"`
	// Detached reports that another viewer has taken the terminal, which keeps running.
	Detached bool `json:"detached,omitempty"`
	// StdoutEnd and StderrEnd are the offsets behind the last bytes sent, for
	// SessionJobOutput and SessionAttach (StdoutEnd); for a kept command those
	// behind the last bytes that it wrote.
	StdoutEnd uint64 `json:"stdoutEnd,omitempty"`
	StderrEnd uint64 `json:"stderrEnd,omitempty"`
}

// StatusOf translates the status of a process that has ended (wait(2)).
func StatusOf(ws syscall.WaitStatus) ExitStatus {
	if ws.Signaled() {
		return ExitStatus{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return ExitStatus{Code: ws.ExitStatus()}
}

// A Failure is the reason why a request has no result.
type Failure struct {
	// Code is what a shell would exit with: 127 not found, 126 not
	// executable, 125 anything else.
	Code int `json:"code"`
	// Message is cut after 4096 bytes.
	Message string `json:"message"`
	// Class is what kind of failure it is, for sessions: invalid, notFound, exists, conflict,
	// unavailable or unsupported.
	Class string `json:"class,omitempty"`
	// Errno is the error of the kernel, for sockets; 0: another one.
	Errno int `json:"errno,omitempty"`
}

// maxMessage bounds the Message of a Failure, in bytes: it may quote what the caller
// has said, or a shell, and must fit into a frame whatever escapes it takes.
const maxMessage = 4 << 10

// MarshalJSON cuts a message that is too long.
func (f Failure) MarshalJSON() ([]byte, error) {
	type plain Failure
	if len(f.Message) > maxMessage {
		f.Message = strings.ToValidUTF8(f.Message[:maxMessage], "") + "..."
	}
	return json.Marshal(plain(f))
}

// SendJSON writes a frame with v as its payload; one that is too long is an
// error and sends nothing.
func (w *Writer) SendJSON(t Type, channel uint32, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxPayload {
		return fmt.Errorf("message of %d bytes, at most %d are possible", len(b), MaxPayload)
	}
	return w.Send(t, channel, b)
}

// Decode reads the payload of f into the struct that v points to.
func Decode(f *Frame, v any) error {
	if string(f.Payload()) == "{}" {
		return nil // before encoding/json makes its tables of a type for the first time: a quarter of a millisecond for that of all replies
	}
	if err := json.Unmarshal(f.Payload(), v); err != nil {
		return fmt.Errorf("%w: frame of type %d: %w", ErrProtocol, f.Type, err)
	}
	return nil
}

// AppendCredit appends the payload of a [Credit] frame.
func AppendCredit(b []byte, stream Type, n int) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(stream)), uint32(n))
}

// ParseCredit reads the payload of a [Credit] frame: at most [MaxCredit]
// bytes for one of the data streams.
func ParseCredit(p []byte) (stream Type, n int, err error) {
	if len(p) != 5 {
		return 0, 0, fmt.Errorf("%w: credit frame of %d bytes", ErrProtocol, len(p))
	}
	stream, n = Type(p[0]), int(binary.LittleEndian.Uint32(p[1:]))
	if stream != Stdin && stream != Stdout && stream != Stderr || n > MaxCredit {
		return 0, 0, fmt.Errorf("%w: credit of %d for stream %d", ErrProtocol, n, stream)
	}
	return stream, n, nil
}

// AppendSize appends the payload of a [Resize] frame.
func AppendSize(b []byte, rows, cols uint16) []byte {
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, rows), cols)
}

// ParseSize reads the payload of a [Resize] frame.
func ParseSize(p []byte) (rows, cols uint16, err error) {
	if len(p) != 4 {
		return 0, 0, fmt.Errorf("%w: resize frame of %d bytes", ErrProtocol, len(p))
	}
	return binary.LittleEndian.Uint16(p), binary.LittleEndian.Uint16(p[2:]), nil
}
