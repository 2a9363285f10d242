package defaults

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/userns"
	"wolffia/runtime"
)

// droppedUID is the uid and gid of the sandbox of a caller that is root, if the codebase
// is root's own, or there is no codebase, and no user named wolffia exists. It is from a
// range that no system assigns (systemd.io/UIDS-GIDS, 60578 to 61183).
const droppedUID = 60990

// realRoot reports whether the caller is root on the host. Root in a user namespace of its
// own, as in a rootless container, is an ordinary user on the host and may have no other
// id to drop to.
func realRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	// The first namespace maps every id to itself (user_namespaces(7)).
	return err != nil || slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"})
}

// Identify decides which user the sandbox runs as, inside and on the host. That is never
// root, which drops to the owner of the codebase.
func Identify(c *statedir.Config, stateDir string) error {
	c.UID, c.GID = os.Geteuid(), os.Getegid()
	if realRoot() {
		if err := drop(c); err != nil {
			return err
		}
		if err := reachable(stateDir); err != nil {
			return err
		}
		c.DroppedUID, c.DroppedGID = c.UID, c.GID
	}
	if c.Root {
		c.User = "root"
		_, err := IDsOf(c)
		return err
	}
	if c.User = cmp.Or(c.UserName, "user"); c.UserName != "" {
		return nil
	}
	if u, err := user.LookupId(strconv.Itoa(c.UID)); err == nil && runtime.IsUserName(u.Username) && u.Username != "root" {
		c.User = u.Username
	}
	return nil
}

// IDsOf returns the ids that a sandbox with root inside has.
func IDsOf(c *statedir.Config) (userns.IDs, error) {
	of := userns.Of
	if c.DroppedUID != 0 && (c.CodebasePath == "" || c.RootTree) { // nobody's on the host but root's
		of = userns.OfRoot
	}
	ids, err := of(c.UID, c.GID)
	if err == nil {
		err = ids.Check()
	}
	if err != nil {
		return ids, runtime.Errorf(runtime.ErrUnsupported, "root inside needs subordinate ids: %w; wolffia doctor has a row subids", err)
	}
	return ids, nil
}

// drop decides which user root drops to.
func drop(c *statedir.Config) error {
	if c.CodebasePath != "" {
		var st unix.Stat_t
		if err := unix.Stat(c.CodebasePath, &st); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "codebase %s: %w", c.CodebasePath, err)
		}
		if st.Uid != 0 {
			c.UID, c.GID = int(st.Uid), int(st.Gid)
			if c.GID == 0 {
				return runtime.Errorf(runtime.ErrUnsupported, "codebase %s belongs to uid %d but to root's group: chgrp it, or run wolffia as its owner", c.CodebasePath, st.Uid)
			}
			return nil
		}
		c.RootTree = true
	}
	c.UID, c.GID = droppedUID, droppedUID
	if u, err := user.Lookup("wolffia"); err == nil {
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if cmp.Or(err1, err2) != nil || uid == 0 || gid == 0 {
			return runtime.Errorf(runtime.ErrUnavailable, "user wolffia has uid %s and gid %s: both must be those of an unprivileged user", u.Uid, u.Gid)
		}
		c.UID, c.GID = uid, gid
	}
	return nil
}

// UserOf returns the user and group that a sandbox of this caller runs as with the codebase,
// a directory; empty: none.
func UserOf(codebase string) (uid, gid int, err error) {
	if !realRoot() {
		return os.Geteuid(), os.Getegid(), nil
	}
	var c statedir.Config
	c.CodebasePath = codebase
	err = drop(&c)
	return c.UID, c.GID, err
}

// RootInside returns why a sandbox of this caller on an image cannot have root inside, or nil.
func RootInside() error {
	uid, gid, err := UserOf("")
	if err != nil {
		return err
	}
	c := &statedir.Config{UID: uid, GID: gid}
	if realRoot() {
		c.DroppedUID, c.DroppedGID = uid, gid
	}
	_, err = IDsOf(c)
	return err
}

// reachable returns an error that names the directory, at or above dir, which the user
// that root drops to cannot pass, or nil.
func reachable(dir string) error {
	for {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "state directory: %s: %w", dir, err)
		}
		if st.Mode&0o001 == 0 {
			return runtime.Errorf(runtime.ErrUnavailable, "the unprivileged user that the sandbox runs as cannot reach the state directory: chmod o+x %s, or choose another with --state-dir or WOLFFIA_STATE_DIR", dir)
		}
		if dir == "/" {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}
