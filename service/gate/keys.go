package gate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// The bounds of a key file.
const (
	maxKeyFile = 1 << 20 // bytes
	minKey     = 16      // characters of a key
	maxKey     = 512
)

// Keys are the API keys of a key file. They do not change, so they are safe for concurrent
// use.
type Keys struct{ all []key }

type key struct {
	digest [sha256.Size]byte // so that comparing takes the same time for all keys
	caller service.Caller
}

// Len returns how many keys there are; 0 for nil.
func (k *Keys) Len() int {
	if k == nil {
		return 0
	}
	return len(k.all)
}

// OneKey returns keys that are one token, for a caller.
func OneKey(token string, caller service.Caller) *Keys {
	return &Keys{[]key{{sha256.Sum256([]byte(token)), caller}}}
}

// ReadKeys reads a key file, which must be a regular file of this user that others cannot read
// (mode 0600), or a credential of systemd (LoadCredential=). A line is a key of 16 to 512 printable characters without spaces. An owner,
// ORG/PROJECT/USER, may follow after a space: the key is then for the sandboxes of that owner only.
// So may name=NAME, for quotas, metrics and the log; the default is the owner, or else the
// beginning of the key's SHA-256. Empty lines and those that begin with # are ignored. No key, and
// a key that occurs twice, is [runtime.ErrInvalid]; no error shows a key.
func ReadKeys(path string) (*Keys, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "API keys: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "API keys %s: %w", path, err)
	}
	if problem := exposed(&st, accessList(f), os.Geteuid()); problem != "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "API keys %s: %s", path, problem)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	switch {
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "API keys %s: %w", path, err)
	case len(data) > maxKeyFile:
		return nil, runtime.Errorf(runtime.ErrInvalid, "API keys %s: more than %d bytes", path, maxKeyFile)
	}
	keys, err := parseKeys(data)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "API keys %s: %w", path, err)
	}
	return keys, nil
}

// parseKeys returns the keys of a key file's content.
func parseKeys(data []byte) (*Keys, error) {
	keys, seen, n := &Keys{}, map[[sha256.Size]byte]bool{}, 0
	for line := range bytes.Lines(data) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		words := strings.Fields(text)
		word := words[0]
		digest := sha256.Sum256([]byte(word))
		caller, err := callerOf(words[1:], hex.EncodeToString(digest[:6]))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		odd := func(c rune) bool { return c <= ' ' || c > '~' }
		if len(word) < minKey || len(word) > maxKey || strings.ContainsFunc(word, odd) {
			return nil, fmt.Errorf("line %d: a key has %d to %d printable ASCII characters", n, minKey, maxKey)
		}
		k := key{digest, caller}
		if seen[k.digest] {
			return nil, fmt.Errorf("line %d: the key occurs twice", n)
		}
		seen[k.digest] = true
		keys.all = append(keys.all, k)
	}
	if len(keys.all) == 0 {
		return nil, fmt.Errorf("no key: write a line of %d characters or more, such as the output of: openssl rand -hex 32", minKey)
	}
	return keys, nil
}

// callerOf returns the caller of a key, from the words that follow it. unnamed is the name of a key
// that has no other.
func callerOf(words []string, unnamed string) (service.Caller, error) {
	c := service.Caller{All: true}
	for _, word := range words {
		name, is := strings.CutPrefix(word, "name=")
		switch {
		case is && c.Key == "" && keyName(name):
			c.Key = name
		case is:
			return c, fmt.Errorf("name: a key has one, of up to %d letters, digits and ._/-", maxKeyName)
		default:
			o, err := registry.ParseOwner(word)
			if err != nil || !c.All {
				return c, errors.New("what follows the key must be an owner, ORG/PROJECT/USER, and name=NAME")
			}
			c.All, c.Owner, unnamed = false, o, word
		}
	}
	c.Key = cmp.Or(c.Key, unnamed)
	return c, nil
}

// maxKeyName is how long the name of a key may be; that of an owner may be longer.
const maxKeyName = 64

func keyName(s string) bool {
	return s != "" && len(s) <= maxKeyName &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == ""
}

// caller returns the caller whose key this is. It compares with all keys, each in the same
// time.
func (k *Keys) caller(given string) (found service.Caller, ok bool) {
	digest := sha256.Sum256([]byte(given))
	for i := range k.all {
		if subtle.ConstantTimeCompare(digest[:], k.all[i].digest[:]) == 1 {
			found, ok = k.all[i].caller, true
		}
	}
	return found, ok
}
