package gitconfig

import (
	"net/url"
	"strings"
)

// Secret reports whether the setting has a password or a token: in an address, as
// value or in its name, with a password or with a user as long as a token; in a header
// of authorization; or by the setting's name.
func Secret(s *Setting) bool {
	secretive := func(address string) bool {
		u, err := url.Parse(address)
		if err != nil || u.User == nil || u.Host == "" {
			return false
		}
		password, set := u.User.Password()
		return set && password != "" || u.Scheme != "ssh" && len(u.User.Username()) >= 20
	}
	switch s.Key() {
	case "extraheader":
		return strings.Contains(Lower(s.Value), "authorization")
	case "password", "token", "smtppass", "pass":
		return s.Value != ""
	}
	sub, _ := s.Sub()
	return secretive(s.Value) || secretive(sub)
}
