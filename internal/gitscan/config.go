package gitscan

import "strings"

// A setting is one line of a git configuration. Section and key are lower case,
// the subsection is as written; a key without a value has the value "".
type setting struct{ section, sub, key, value string }

// maxSettings bounds what one configuration is taken to say.
const maxSettings = 10_000

// parseConfig reads a git configuration; git-config(1), "CONFIGURATION FILE".
// git refuses a file with an error in it; here the line is skipped.
func parseConfig(text string) []setting {
	p := parser{text: strings.TrimPrefix(text, "\ufeff")}
	var all []setting
	var section, sub string
	for len(all) < maxSettings {
		p.space()
		switch c, ok := p.peek(); {
		case !ok:
			return all
		case c == '#' || c == ';':
			p.line()
		case c == '[':
			p.next()
			if s, b, ok := p.header(); ok {
				section, sub = s, b
			} else {
				p.line()
			}
		case letter(c):
			key := p.key()
			p.blank()
			value := ""
			if c, ok := p.peek(); ok && c == '=' {
				p.next()
				value = p.value()
			} else {
				p.line()
			}
			all = append(all, setting{section, sub, key, value})
		default:
			p.line()
		}
	}
	return all
}

// A parser reads a text byte by byte; a CR before a newline is not there.
type parser struct {
	text string
	pos  int
}

// peek returns the next byte; ok is false at the end.
func (p *parser) peek() (c byte, ok bool) {
	if strings.HasPrefix(p.text[p.pos:], "\r\n") {
		p.pos++
	}
	if p.pos >= len(p.text) {
		return 0, false
	}
	return p.text[p.pos], true
}

// next takes a byte.
func (p *parser) next() (c byte, ok bool) {
	c, ok = p.peek()
	if ok {
		p.pos++
	}
	return c, ok
}

// space skips white space; blank does within the line.
func (p *parser) space() { p.skip(" \t\n\r\v\f") }
func (p *parser) blank() { p.skip(" \t\r\v\f") }

func (p *parser) skip(set string) {
	for c, ok := p.peek(); ok && strings.IndexByte(set, c) >= 0; c, ok = p.peek() {
		p.pos++
	}
}

// line skips the rest of the line.
func (p *parser) line() {
	if i := strings.IndexByte(p.text[p.pos:], '\n'); i >= 0 {
		p.pos += i + 1
	} else {
		p.pos = len(p.text)
	}
}

// key takes the name of a setting.
func (p *parser) key() string {
	start := p.pos
	for c, ok := p.peek(); ok && (letter(c) || digit(c) || c == '-'); c, ok = p.peek() {
		p.pos++
	}
	return lower(p.text[start:p.pos])
}

// header takes what follows the [ of a section up to its ].
func (p *parser) header() (section, sub string, ok bool) {
	start := p.pos
	for {
		c, ok := p.peek()
		switch {
		case ok && (letter(c) || digit(c) || c == '-' || c == '.'):
			p.pos++
			continue
		case !ok:
			return "", "", false
		}
		section = lower(p.text[start:p.pos])
		break
	}
	p.blank()
	switch c, _ := p.next(); c {
	case ']':
		section, sub, _ = strings.Cut(section, ".") // the old form [branch.main]
		return section, sub, true
	case '"':
	default:
		return "", "", false
	}
	var b []byte
	for {
		c, ok := p.next()
		if c == '\\' {
			c, ok = p.next()
		} else if c == '"' {
			break
		}
		if !ok || c == '\n' {
			return "", "", false
		}
		b = append(b, c)
	}
	c, _ := p.next()
	return section, string(b), c == ']'
}

// value takes what follows the = of a setting, to the end of its line.
func (p *parser) value() string {
	var b []byte
	end := 0 // length of b without trailing white space
	quoted := false
	p.blank()
	for {
		c, ok := p.next()
		switch {
		case !ok || c == '\n':
			return string(b[:end])
		case (c == '#' || c == ';') && !quoted:
			p.line()
			return string(b[:end])
		case c == '"':
			quoted = !quoted
			end = max(end, len(b))
			continue
		case c == '\\':
			switch c, ok = p.next(); c {
			case '\n':
				continue
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			}
			if !ok {
				return string(b[:end])
			}
		case !quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'):
			b = append(b, c)
			continue
		}
		b = append(b, c)
		end = len(b)
	}
}

// letter, digit and lower are of ASCII only, as in git.
func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}
