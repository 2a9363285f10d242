package main

import "bytes"

// withoutQueries takes from what is printed once more all that a terminal
// answers: it has answered before, and the answer would be taken for typed.
// Those are control sequences that report something (ECMA-48 and xterm's
// ctlseqs), settings that are asked for with a question mark, and ENQ.
func withoutQueries(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		n := 1
		if b[0] == '\x1b' {
			n = sequence(b)
		}
		if !isQuery(b[:n]) {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// sequence returns the length of the control sequence at the start of b, which
// begins with ESC; all of b if it does not end there.
func sequence(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // parameters and intermediate bytes, then a final one
		for i := 2; i < len(b); i++ {
			if b[i] < 0x20 || b[i] > 0x3f {
				return i + 1
			}
		}
		return len(b)
	case ']', 'P', '_', '^', 'X': // a string, up to ST or BEL
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] == '\a':
				return i + 1
			case b[i] == '\x1b' && i+1 < len(b) && b[i+1] == '\\':
				return i + 2
			case b[i] == '\x1b':
				return i
			}
		}
		return len(b)
	}
	return 2
}

// isQuery reports whether a terminal answers seq.
func isQuery(seq []byte) bool {
	if len(seq) == 1 {
		return seq[0] == 5 // ENQ
	}
	body, final := seq[2:], seq[len(seq)-1]
	switch seq[1] {
	case '[':
		switch final {
		case 'n', 'c', 't', 'x': // status, attributes, window, parameters
			return true
		case 'p', 'y': // modes
			return bytes.ContainsAny(body, "$*")
		case 'q': // version
			return bytes.HasPrefix(body, []byte(">"))
		case 'u', 'm', 'S': // keyboard, key modifiers, graphics
			return bytes.HasPrefix(body, []byte("?"))
		}
	case ']':
		return bytes.Contains(body, []byte("?"))
	case 'P', '_': // settings, capabilities, graphics
		return true
	case 'Z': // identify
		return true
	}
	return false
}
