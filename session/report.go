package session

import (
	"bytes"
	"strconv"
)

// maxReport bounds what is kept of a report, in bytes. The variable PWD may
// hold anything; the directory is then asked of the kernel.
const maxReport = 16 << 10

// A report is what a shell says after a command.
type report struct {
	status int
	pwd    string // the variable PWD, as far as it was kept
}

// reports puts reports together: a shell whose output is buffered by lines
// sends one with a newline in pwd in several packets. The zero value is
// ready.
type reports struct{ buf []byte }

// add takes one packet and returns the report with that nonce, if it is now
// complete. Anything else is dropped.
func (r *reports) add(packet []byte, nonce string) (report, bool) {
	if len(packet) == 0 || len(r.buf) == 0 && packet[0] != 0 {
		return report{}, false
	}
	complete := packet[len(packet)-1] == 0 && len(r.buf)+len(packet) > 1
	head := "\x00" + nonce + " "
	if i := bytes.Index(packet, []byte(head)); i >= 0 {
		r.buf, packet = r.buf[:0], packet[i:] // what came before was none
	}
	r.buf = append(r.buf, packet[:min(len(packet), maxReport-len(r.buf))]...)
	if !complete {
		return report{}, false
	}
	rep, ok := parseReport(r.buf, head)
	r.buf = r.buf[:0]
	return rep, ok
}

func parseReport(b []byte, head string) (report, bool) {
	b, ok := bytes.CutPrefix(b, []byte(head))
	if !ok {
		return report{}, false
	}
	status, pwd, ok := bytes.Cut(b, []byte(" "))
	n, err := strconv.ParseUint(string(status), 10, 8)
	if !ok || err != nil {
		return report{}, false
	}
	return report{int(n), string(bytes.TrimSuffix(pwd, []byte{0}))}, true
}
