package network

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// LocalSuffix is what the name of a host has behind it, inside, where headers are added to its
// requests: http://NAME.wolffia. No rule can have a name there.
const LocalSuffix = ".wolffia"

// maxName is the maximum length of a name in bytes, without final dot (RFC 1035, 2.3.4).
const maxName = 253

var (
	errAddress = errors.New("is an address, not a name; give the address a name: --add-host NAME:ADDRESS")
	errName    = errors.New("is not a host name; use letters, digits, hyphens and dots")
)

// NormalName returns the form in which names are compared: lower case, without final dot, in
// ASCII. It refuses text that is not a host name, and addresses in every notation that some
// program takes for one: a last label that is a number, also in octal or hexadecimal (as the URL
// standard, "ends in a number checker").
func NormalName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 4*maxName || !utf8.ValidString(name) { // a limit for the work of the conversion
		return "", errName
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return "", errAddress
	}
	if !plain(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", errName
		}
		name = strings.TrimSuffix(ascii, ".") // an ideographic full stop is a final dot too
	}
	name = strings.ToLower(name)
	if len(name) > maxName || name == "" {
		return "", errName
	}
	last := name
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return "", errName
		}
		last = label
	}
	if numeric(last) {
		return "", errAddress
	}
	return name, nil
}

// plain reports whether a name is in ASCII and without labels that IDNA encoded.
func plain(name string) bool {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return false
		}
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) >= 4 && strings.EqualFold(label[:4], "xn--") {
			return false
		}
	}
	return true
}

// validLabel reports whether a label in lower case is one of a host name. Hyphens may be in
// any place but the ends, and underscores anywhere: both occur.
func validLabel(label string) bool {
	if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// numeric reports whether a label is a number for some parser of addresses.
func numeric(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	for i := range len(digits) {
		c := digits[i]
		if (c < '0' || c > '9') && (!hex || c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ruleName normalises a name of a policy, and refuses those that wolffia has for itself.
func ruleName(name string) (string, error) {
	if strings.Contains(name, "*") {
		return "", fmt.Errorf("has a * elsewhere than in *.DOMAIN; use one such as *.registry.example")
	}
	normal, err := NormalName(name)
	switch {
	case err != nil:
		return "", err
	case strings.HasSuffix("."+normal, LocalSuffix):
		return "", fmt.Errorf("names below %s are wolffia's own; use another name", LocalSuffix[1:])
	case strings.HasSuffix("."+normal, ".localhost"):
		return "", fmt.Errorf("localhost is the sandbox itself; use another name for the host's address")
	}
	return normal, nil
}
