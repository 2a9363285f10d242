package gate

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// exposed says why a key file is not taken; empty: it is a regular file that root or the user uid
// has written, and no other user can read. Either its mode says so, or, as of a credential that
// systemd gives to a service, its access control list. A file of root's may be for the group with the
// user's number, too: Kubernetes mounts a secret so.
func exposed(st *unix.Stat_t, list []byte, uid int) string {
	own := int(st.Uid) == uid
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "not a regular file"
	case own && st.Mode&0o077 == 0,
		!own && st.Uid == 0 && int(st.Gid) == uid && st.Mode&0o037 == 0 && list == nil,
		(own || st.Uid == 0) && st.Mode&0o037 == 0 && onlyFor(list, uid):
		return ""
	case !own:
		return fmt.Sprintf("the file belongs to uid %d: use a file of your own, or LoadCredential= of systemd", st.Uid)
	}
	return fmt.Sprintf("other users have access (mode %04o): chmod 600 it", st.Mode&0o7777)
}

// The entries of an access control list, as the kernel gives it (posix_acl_xattr.h, acl(5)).
const (
	listName    = "system.posix_acl_access"
	listVersion = 2
	entrySize   = 8 // tag, permissions, id

	userObject, namedUser, groupObject, mask, others = 0x01, 0x02, 0x04, 0x10, 0x20
)

// accessList returns the access control list of a file; nil: it has none; empty: it has one that
// cannot be read, or is too long for a file of one user.
func accessList(f *os.File) []byte {
	buf := make([]byte, 128)
	switch n, err := unix.Fgetxattr(int(f.Fd()), listName, buf); err {
	case nil:
		return buf[:n]
	case unix.ENODATA, unix.EOPNOTSUPP:
		return nil
	}
	return []byte{}
}

// onlyFor reports whether a list lets the user uid read the file, and no other user but the file's owner
// beside. What it does not know is false.
func onlyFor(list []byte, uid int) bool {
	if len(list) < 4 || len(list)%entrySize != 4 || binary.LittleEndian.Uint32(list) != listVersion {
		return false
	}
	named := false
	for e := list[4:]; len(e) > 0; e = e[entrySize:] {
		permissions, id := binary.LittleEndian.Uint16(e[2:]), binary.LittleEndian.Uint32(e[4:])
		switch binary.LittleEndian.Uint16(e) {
		case userObject, mask: // of the owner, and the bound that the mode shows
		case namedUser:
			if int(id) != uid {
				return false
			}
			named = true
		case groupObject, others:
			if permissions != 0 {
				return false
			}
		default: // a named group
			return false
		}
	}
	return named
}
