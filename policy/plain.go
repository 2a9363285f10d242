package policy

import (
	"bytes"
	"regexp"
	"sync"
	"unicode/utf8"
)

// maxSettings bounds the bytes of a file of settings that is read.
const maxSettings = 64 << 10

// The patterns are compiled on first use, so that a start of wolffia, of a shim or of a
// tree server does not pay for them.
var (
	// harmless matches lines whose value cannot be a secret: it is empty, a truth value,
	// or taken from the environment. The name is the text before the first = or :; in an
	// .npmrc it may begin with a server.
	harmless = lazily(`^(//[^\s=]*/:)?[^=:]*[=:]\s*["']?(true|false|null|\$\{[A-Za-z_][A-Za-z0-9_]*[?-]?\}|\$[A-Z_][A-Z0-9_]*)?["']?\s*,?\s*$`)

	// suspicious matches lines that may have a credential, also in a comment.
	suspicious = lazily(`(?i)auth|token|pass|pwd|secret|key|cred|login|user|bearer|private|BEGIN |://[^/\s"']*@|[A-Za-z0-9+/_-]{32}`)

	// address matches an address with a user in it.
	address = lazily(`://[^/\s"']*@`)
)

func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// plain reports whether the content of a file of settings has no credentials, judged by
// its words. In doubt it is not plain.
func plain(content []byte) bool {
	if content == nil || !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return false
	}
	for line := range bytes.Lines(content) {
		if !suspicious().Match(line) {
			continue
		}
		if !harmless().Match(line) || address().Match(line) {
			return false
		}
	}
	return true
}
