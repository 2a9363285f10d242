package gitconfig

import (
	"net/url"
	"strings"
)

// Credential reports whether the setting has a password or a token: in an address, as value or in
// its name, with a password or with a user as long as a token; in a header of authorization; or by
// the setting's name.
func (s *Setting) Credential() bool {
	switch s.Key() {
	case "extraheader":
		return strings.Contains(Lower(s.Value), "authorization")
	case "password", "token", "smtppass", "pass":
		return s.Value != ""
	}
	sub, _ := s.Sub()
	return hasUser(s.Value) || hasUser(sub)
}

// hasUser reports whether an address has credentials.
func hasUser(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil || u.Host == "" {
		return false
	}
	password, set := u.User.Password()
	return set && password != "" || u.Scheme != "ssh" && len(u.User.Username()) >= 20
}

// WithoutCredential returns s without the part that Credential finds. ok is false if nothing is
// left: an address keeps its host and path.
func (s *Setting) WithoutCredential() (plain Setting, ok bool) {
	if sub, _ := s.Sub(); hasUser(sub) || !hasUser(s.Value) {
		return Setting{}, false
	}
	u, err := url.Parse(s.Value)
	if err != nil {
		return Setting{}, false
	}
	u.User = nil
	return Setting{Name: s.Name, Value: u.String()}, true
}
