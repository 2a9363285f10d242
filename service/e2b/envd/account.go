package envd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"

	"wolffia/internal/filecall"
	"wolffia/ops"
	"wolffia/service/e2b/fault"
)

// An account is a user of a sandbox.
type account struct {
	user string        // of commands; empty: the sandbox's own
	home string        // its directory
	mode filecall.Mode // of new files
}

// account returns the account that a request names: E2B's "user", or none, is the sandbox's own.
// With root inside there is "root" too.
func (c *call) account(ctx context.Context, name string) (*account, error) {
	b := c.in.Sandbox()
	switch own := cmp.Or(b.RunAs, b.User); name {
	case "", "user", own:
		if b.RunAs == "" {
			return &account{home: b.Home}, nil
		}
		user, group, _ := strings.Cut(b.RunAs, ":")
		r, err := c.in.Files().Do(ctx, &filecall.Request{Op: filecall.OpHome, Pattern: user})
		a := &account{home: "/", mode: filecall.Mode{Owner: user, Group: group}}
		if err == nil { // else the image has no such user, or no home of a number
			a.home = r.Path
		}
		return a, nil
	case "root":
		if b.Root {
			return &account{user: "root", home: "/root"}, nil
		}
		const why = "invalid username: 'root': the sandbox has no root inside: serve with --root"
		return nil, fault.New(http.StatusUnauthorized, why)
	}
	return nil, fault.New(http.StatusUnauthorized, fmt.Sprintf("invalid username: '%.100s'", name))
}

// basicUser returns the account that a request of Connect names.
func (c *call) basicUser(ctx context.Context, header http.Header) (*account, error) {
	name, _, _ := (&http.Request{Header: header}).BasicAuth()
	return c.account(ctx, name)
}

// path returns the absolute path of a name, which begins at the home directory if it is relative.
func (a *account) path(name string) (string, error) {
	if rest, is := strings.CutPrefix(name, "~"); is {
		if rest != "" && rest[0] != '/' {
			return "", fault.Invalid("path %q: only ~ and ~/ are expanded", name)
		}
		name = "." + rest
	}
	if !path.IsAbs(name) {
		name = path.Join(a.home, name)
	}
	return (&ops.Files{}).Path(name)
}
