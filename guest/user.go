package guest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/session"
)

// BecomeArg is the first argument of this program to become another user: a user and a command
// follow. It is launch.BecomeArg, whose package would make this program slow to start.
const BecomeArg = "as"

// An Identity is a user of the sandbox.
type Identity struct {
	UID, GID int
	Groups   []int
	Env      []string // variables of the user
}

// Override returns an environment with the user's own variables.
func (id *Identity) Override(env []string) []string { return session.Override(env, id.Env) }

// FindUser returns the user NAME, UID, or one of them with :GROUP, of the sandbox's /etc/passwd and
// /etc/group. A number needs no line there.
func FindUser(who string) (*Identity, error) {
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG { // to read one could take for ever
			return nil, fmt.Errorf("%s is not a regular file", file)
		}
	}
	name, group, grouped := strings.Cut(who, ":")
	id := new(Identity)
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	if err == nil {
		id.UID, _ = strconv.Atoi(u.Uid)
		id.GID, _ = strconv.Atoi(u.Gid)
		id.Env = []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
		all, _ := u.GroupIds()
		for _, g := range all {
			if n, err := strconv.Atoi(g); err == nil {
				id.Groups = append(id.Groups, n)
			}
		}
	} else {
		n, nerr := strconv.ParseUint(name, 10, 16)
		if nerr != nil {
			return nil, fmt.Errorf("user %s: /etc/passwd has no such user", name)
		}
		id.UID = int(n) // of root's group, as with Docker
		id.Env = []string{"HOME=/", "USER=" + name, "LOGNAME=" + name}
	}
	if !grouped {
		return id, nil
	}
	id.Groups = nil
	if g, err := user.LookupGroup(group); err == nil {
		id.GID, _ = strconv.Atoi(g.Gid)
		return id, nil
	}
	n, err := strconv.ParseUint(group, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("group %s: /etc/group has no such group", group)
	}
	id.GID = int(n)
	return id, nil
}

// findUser returns what a session needs to be a user's.
func findUser(who string) (*session.User, error) {
	id, err := FindUser(who)
	if err != nil {
		return nil, err
	}
	return &session.User{Who: who, UID: id.UID, GID: id.GID, Env: id.Env, Become: []string{os.Args[0], BecomeArg, who}}, nil
}
