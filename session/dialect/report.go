package dialect

import (
	"bytes"
	"strconv"
)

// MaxReport bounds the kept part of a report, in bytes. The variable PWD may hold anything; the
// session then asks the kernel for the directory.
const MaxReport = 16 << 10

// A Report is the message that a shell sends after a command.
type Report struct {
	Status int
	PWD    string // the variable PWD, as far as it was kept
}

// Reports puts reports together: a shell whose output is buffered by lines
// sends one with a newline in pwd in several packets. The zero value is
// ready.
type Reports struct{ buf []byte }

// Add takes one packet and returns the report with that nonce, if it is now
// complete. Anything else is dropped.
func (r *Reports) Add(packet []byte, nonce string) (Report, bool) {
	if len(packet) == 0 || len(r.buf) == 0 && packet[0] != 0 {
		return Report{}, false
	}
	complete := packet[len(packet)-1] == 0 && len(r.buf)+len(packet) > 1
	head := "\x00" + nonce + " "
	if i := bytes.Index(packet, []byte(head)); i >= 0 {
		r.buf, packet = r.buf[:0], packet[i:] // the bytes before it were not a packet
	}
	r.buf = append(r.buf, packet[:min(len(packet), MaxReport-len(r.buf))]...)
	if !complete {
		return Report{}, false
	}
	rep, ok := parseReport(r.buf, head)
	r.buf = r.buf[:0]
	return rep, ok
}

func parseReport(b []byte, head string) (Report, bool) {
	b, ok := bytes.CutPrefix(b, []byte(head))
	if !ok {
		return Report{}, false
	}
	status, pwd, ok := bytes.Cut(b, []byte(" "))
	n, err := strconv.ParseUint(string(status), 10, 8)
	if !ok || err != nil {
		return Report{}, false
	}
	return Report{int(n), string(bytes.TrimSuffix(pwd, []byte{0}))}, true
}
