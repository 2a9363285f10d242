package hostgit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"wolffia/runtime"
)

const (
	// MaxPack bounds the bytes of the objects that one Receive takes.
	MaxPack = 4 << 30
	// loose is the size of a pack, in bytes, up to which few objects are stored one by one. A
	// larger one stays a pack.
	loose = 8 << 20
)

// ErrRefused is the error of objects that the host's git does not take. It is of class
// runtime.ErrInvalid.
var ErrRefused = runtime.WithClass(runtime.ErrInvalid, errors.New("the objects inside are refused"))

// A Ref is a reference, and the object that it is at.
type Ref struct{ Name, At string }

// Receive brings objects into the repository, by git receive-pack. The objects wait in a
// quarantine until git has checked each, and that all objects that they refer to exist. pack
// writes a pack with the objects that refs needs; Receive returns its error. Receive creates refs,
// which do not exist yet and of which there is at least one. most bounds the bytes; 0 is MaxPack.
// The error wraps ErrRefused if git refuses the objects.
func (d *Dir) Receive(ctx context.Context, refs []Ref, pack func(ctx context.Context, w io.Writer) error, most int64) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if most == 0 {
		most = MaxPack
	}
	from, to := io.Pipe()
	packed := make(chan error, 1)
	w := &pipeWriter{to: to}
	go func() {
		err := pack(ctx, w)
		_ = to.CloseWithError(err) // nil is the end of the pack
		packed <- err
	}()
	// Until the reader is closed, the writer may wait.
	err := d.receive(ctx, refs, from, most)
	_ = from.CloseWithError(errNotRead)
	cancel()
	if other := <-packed; other != nil && !w.failed {
		return other
	}
	return err
}

var (
	errNotRead  = errors.New("git receive-pack has ended")
	errNoReport = errors.New("it reports nothing")
)

// A pipeWriter knows whether its reader has ended before.
type pipeWriter struct {
	to     *io.PipeWriter
	failed bool
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.failed = w.failed || err != nil
	return n, err
}

func (d *Dir) receive(ctx context.Context, refs []Ref, pack io.Reader, most int64) error {
	first, err := io.ReadAll(io.LimitReader(pack, loose))
	if err != nil {
		return err
	}
	unpack := "receive.unpackLimit=1" // objects: so it is kept
	if len(first) < loose {
		unpack = "receive.unpackLimit=100"
	}
	cmd := d.command(ctx, Command{
		Args:   []string{"-c", unpack, "-c", "receive.maxInputSize=" + strconv.FormatInt(most, 10), "receive-pack", "."},
		Common: true,
	})
	said := newSaid()
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	talk := func() (report []string, err error) {
		answer := bufio.NewReader(out)
		if err := skip(answer); err != nil {
			return nil, err
		}
		if _, err := in.Write(commands(refs)); err != nil {
			return nil, err
		}
		_, sent := io.Copy(in, io.MultiReader(bytes.NewReader(first), pack))
		if err := in.Close(); sent == nil {
			sent = err
		}
		if report, err = readReport(answer); len(report) > 0 {
			return report, nil // its output explains why it read no further
		}
		return nil, errors.Join(sent, err)
	}
	report, err := talk()
	if err != nil {
		_ = cmd.Process.Kill()
	}
	ended := cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("git receive-pack took more than %v: %w", limit, context.Cause(ctx))
	}
	if report == nil {
		if err = errors.Join(err, ended); err == nil {
			err = errNoReport
		}
		return fmt.Errorf("git receive-pack in %s: %s: %w", d.name, said.text(), err)
	}
	for n, line := range report {
		if n == 0 && line == "unpack ok" || n > 0 && strings.HasPrefix(line, "ok ") {
			continue
		}
		return fmt.Errorf("%w: %s", ErrRefused, reason(line, said.text()))
	}
	return nil
}

// reason returns the faults of objects, from git's messages.
func reason(line, said string) string {
	for part := range strings.SplitSeq(said, "; ") {
		if text, is := strings.CutPrefix(part, "error: object "); is {
			return "object " + text
		}
		if text, is := strings.CutPrefix(part, "fatal: "); is && !strings.HasPrefix(text, "fsck error") {
			line = text
		}
	}
	return Printable(line)
}

// commands returns the commands that make refs, as packets (gitprotocol-pack(5)).
func commands(refs []Ref) []byte {
	var b bytes.Buffer
	for n, r := range refs {
		line := strings.Repeat("0", len(r.At)) + " " + r.At + " " + r.Name
		if n == 0 {
			line += "\x00 report-status atomic quiet"
			if len(r.At) == 64 {
				line += " object-format=sha256"
			}
		}
		fmt.Fprintf(&b, "%04x%s", len(line)+4, line)
	}
	b.WriteString("0000")
	return b.Bytes()
}

// skip reads the packets with what the repository has.
func skip(b *bufio.Reader) error {
	for {
		if p, err := packet(b); err != nil || p == nil {
			return err
		}
	}
}

// readReport reads the packets with the results of the commands.
func readReport(b *bufio.Reader) (report []string, err error) {
	for {
		p, err := packet(b)
		if err != nil || p == nil {
			return report, err
		}
		report = append(report, strings.TrimSuffix(string(p), "\n"))
	}
}

// packet reads one packet; nil is the flush packet.
func packet(b *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(b, head[:]); err != nil {
		return nil, err
	}
	size, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil {
		return nil, fmt.Errorf("git receive-pack says %q", head)
	}
	if size < 4 {
		return nil, nil
	}
	p := make([]byte, size-4)
	_, err = io.ReadFull(b, p)
	return p, err
}
