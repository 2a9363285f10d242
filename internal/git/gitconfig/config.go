// Package gitconfig parses the configuration files of git as git itself does: git-config(1),
// "CONFIGURATION FILE". It follows no include.
package gitconfig

import (
	"fmt"
	"strings"
)

// A Setting is one line of a configuration.
type Setting struct {
	// Name is git's name, such as "core.bare" or "remote.origin.url": section and key in lower
	// case, the subsection as written.
	Name string

	Value string // "" also for a key without "="
	Bare  bool   // a key without "=", which means true
}

// Section returns the first part of the name.
func (s *Setting) Section() string {
	section, _, _ := strings.Cut(s.Name, ".")
	return section
}

// Key returns the last part of the name.
func (s *Setting) Key() string { return s.Name[strings.LastIndexByte(s.Name, '.')+1:] }

// Sub returns the subsection, which may contain dots; ok is false if the setting has none.
func (s *Setting) Sub() (sub string, ok bool) {
	_, rest, _ := strings.Cut(s.Name, ".")
	end := strings.LastIndexByte(rest, '.')
	if end < 0 {
		return "", false
	}
	return rest[:end], true
}

// maxSettings bounds the settings of one configuration.
const maxSettings = 10_000

// Parse returns the settings in text, in their order. The error names the first line that git
// would refuse, or reports more settings than Parse reads (10,000). The settings are then those of
// the other lines. git itself refuses the whole file.
func Parse(text string) ([]Setting, error) {
	p := parser{text: strings.TrimPrefix(text, "\ufeff")}
	var all []Setting
	section := ""
	for {
		p.space()
		switch c, ok := p.peek(); {
		case !ok:
			return all, p.err
		case c == '#' || c == ';':
			p.line()
		case len(all) == maxSettings:
			p.fail("more than %d settings", maxSettings)
			return all, p.err
		case c == '[':
			p.next()
			if s, ok := p.header(); ok {
				section = s
			} else {
				p.fail("incomplete section header")
				p.line()
			}
		case letter(c):
			s := Setting{Name: section + "." + p.word("-")}
			if section == "" {
				p.fail("setting before the first section")
			}
			p.blank()
			switch c, ok := p.peek(); {
			case ok && c == '=':
				p.next()
				s.Value = p.value()
			case ok && c != '\n':
				p.fail("neither = nor the end of the line after a key") // git refuses a comment there as well
				p.line()
			default:
				s.Bare = true
			}
			all = append(all, s)
		default:
			p.fail("neither a section nor a setting")
			p.line()
		}
	}
}

// A parser reads a text byte by byte. It skips a CR before a newline.
type parser struct {
	text string
	pos  int
	err  error // the first one
}

// fail records that git refuses the present line.
func (p *parser) fail(reason string, args ...any) {
	if p.err == nil {
		line := 1 + strings.Count(p.text[:min(p.pos, len(p.text))], "\n")
		p.err = fmt.Errorf("line %d: "+reason, append([]any{line}, args...)...)
	}
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

// next returns the next byte and advances.
func (p *parser) next() (c byte, ok bool) {
	if c, ok = p.peek(); ok {
		p.pos++
	}
	return c, ok
}

// space skips white space; blank skips white space within the line.
func (p *parser) space() { p.skip(" \t\n\r\v\f") }
func (p *parser) blank() { p.skip(" \t\r\v\f") }

func (p *parser) skip(set string) {
	for c, ok := p.peek(); ok && strings.IndexByte(set, c) >= 0; c, ok = p.peek() {
		p.pos++
	}
}

// line skips the rest of the line.
func (p *parser) line() {
	_, rest, _ := strings.Cut(p.text[p.pos:], "\n")
	p.pos = len(p.text) - len(rest)
}

// word parses letters, digits and the bytes in more, and returns them in lower case.
func (p *parser) word(more string) string {
	start := p.pos
	for c, ok := p.peek(); ok && (letter(c) || '0' <= c && c <= '9' || strings.IndexByte(more, c) >= 0); c, ok = p.peek() {
		p.pos++
	}
	return Lower(p.text[start:p.pos])
}

// header parses a section header after its [, and returns the part of Setting.Name before the
// key.
func (p *parser) header() (name string, ok bool) {
	name = p.word("-.") // also the old form [branch.main]
	p.blank()
	switch c, _ := p.next(); c {
	case ']':
		return name, name != ""
	case '"':
	default:
		return "", false
	}
	b := []byte(name + ".")
	for {
		c, ok := p.next()
		if c == '\\' {
			c, ok = p.next()
		} else if c == '"' {
			break
		}
		if !ok || c == '\n' {
			return "", false
		}
		b = append(b, c)
	}
	c, _ := p.next()
	return string(b), c == ']' && name != ""
}

// value parses the value of a setting, after the =, to the end of its line.
func (p *parser) value() string {
	var b []byte
	end := 0 // length of b without trailing white space
	quoted := false
	p.blank()
	for {
		c, ok := p.next()
		switch {
		case !ok || c == '\n':
			if quoted {
				p.fail("unclosed quotation mark")
			}
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
			case '\\', '"':
			default:
				p.fail("invalid escape sequence")
			}
			if !ok {
				return string(b[:end])
			}
		case !quoted && strings.IndexByte(" \t\r\v\f", c) >= 0:
			b = append(b, c)
			continue
		}
		b = append(b, c)
		end = len(b)
	}
}

// letter and Lower know ASCII only, as in git.
func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// Lower returns s with its ASCII letters in lower case.
func Lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}
