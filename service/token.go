package service

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"path/filepath"

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// secretFile has the secret of a state directory's service, which all its tokens are derived from.
// Only the user of the service can read it, as all of the state directory; no sandbox sees it.
const secretFile = "tokens.key"

const secretSize = 32 // bytes

// newSecret returns a secret.
func newSecret() []byte {
	b := make([]byte, secretSize)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

// openSecret returns the secret of a state directory that this process has locked. It is made if
// there is none, but not instead of a damaged one: that would end all tokens, without an error.
func openSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, secretFile)
	b, err := statefile.ReadBytes(path, secretSize+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		b = newSecret()
		err = statefile.WriteBytes(path, b)
	case err == nil && len(b) != secretSize:
		err = errors.New("it is damaged")
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the secret of the service's tokens, %s: %w: remove it, which makes all tokens invalid", path, err)
	}
	return b, nil
}

// Token returns the token that lets who has it do something, the purpose, with something, such as a
// sandbox, by its id. It is the same after a restart of the service; that of one purpose does not
// tell that of another.
func (s *Service) Token(purpose, id string) string {
	h := hmac.New(sha256.New, s.secret)
	_, _ = h.Write([]byte(purpose + "\x00" + id))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// IsToken reports whether a text is the token of Token. The time that it takes does not tell how
// much of it is right.
func (s *Service) IsToken(text, purpose, id string) bool {
	return hmac.Equal([]byte(text), []byte(s.Token(purpose, id)))
}
