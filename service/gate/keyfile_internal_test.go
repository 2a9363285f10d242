package gate

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A listEntry is one of an access control list.
type listEntry struct {
	tag, permissions uint16
	id               uint32
}

func makeList(entries ...listEntry) []byte {
	list := binary.LittleEndian.AppendUint32(nil, listVersion)
	for _, e := range entries {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.permissions)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

const nobodys = ^uint32(0) // of entries for no named user

// credential is the list that systemd gives the credential of a service of the user uid, with more.
func credential(uid uint32, more ...listEntry) []byte {
	return makeList(append([]listEntry{
		{userObject, 4, nobodys}, {namedUser, 4, uid}, {groupObject, 0, nobodys}, {mask, 4, nobodys}, {others, 0, nobodys},
	}, more...)...)
}

func TestExposed(t *testing.T) {
	const self, other = 1000, 1001
	const namedGroup = 0x08
	for _, c := range []struct {
		name  string
		owner uint32
		mode  uint32
		list  []byte
		taken bool
	}{
		{"a file of one's own", self, 0o600, nil, true},
		{"a credential", 0, 0o440, credential(self), true},
		{"a credential of one's own", self, 0o400, nil, true},
		{"a list beside one's own file", self, 0o640, credential(self), true},
		{"root's, without a list", 0, 0o400, nil, false},
		{"root's, for a group", 0, 0o440, nil, false},
		{"another user's", other, 0o440, credential(self), false},
		{"another user's, for all", other, 0o444, credential(self), false},
		{"for another user", 0, 0o440, credential(other), false},
		{"for another user too", 0, 0o440, credential(self, listEntry{namedUser, 4, other}), false},
		{"for a named group", 0, 0o440, credential(self, listEntry{namedGroup, 4, 5}), false},
		{"for its group", 0, 0o440, makeList(listEntry{namedUser, 4, self}, listEntry{groupObject, 4, nobodys}), false},
		{"for all, by the list", 0, 0o440, makeList(listEntry{namedUser, 4, self}, listEntry{others, 4, nobodys}), false},
		{"for all", 0, 0o444, credential(self), false},
		{"that its group may write", 0, 0o460, credential(self), false},
		{"an entry that is unknown", 0, 0o440, credential(self, listEntry{0x40, 0, nobodys}), false},
		{"a list that is cut off", 0, 0o440, credential(self)[:11], false},
		{"an empty list", 0, 0o440, makeList(), false},
		{"a list of another version", 0, 0o440, append([]byte{3, 0, 0, 0}, credential(self)[4:]...), false},
	} {
		st := unix.Stat_t{Uid: c.owner, Mode: unix.S_IFREG | c.mode}
		if problem := exposed(&st, c.list, self); (problem == "") != c.taken {
			t.Errorf("%s: got %q; want it taken: %v", c.name, problem, c.taken)
		}
	}
}

// A secret of Kubernetes is root's, and for the group with the user's number.
func TestExposedToGroup(t *testing.T) {
	for _, c := range []struct {
		owner, group, mode uint32
		list               []byte
		taken              bool
	}{
		{0, 1000, 0o440, nil, true},
		{0, 1000, 0o400, nil, true},
		{0, 1001, 0o440, nil, false},
		{0, 1000, 0o444, nil, false},
		{0, 1000, 0o460, nil, false},
		{0, 1000, 0o440, []byte{}, false}, // it has a list that cannot be read
		{1001, 1000, 0o440, nil, false},
		{1000, 1000, 0o440, nil, false}, // who has written it can chmod it
	} {
		st := unix.Stat_t{Uid: c.owner, Gid: c.group, Mode: unix.S_IFREG | c.mode}
		if problem := exposed(&st, c.list, 1000); (problem == "") != c.taken {
			t.Errorf("%+v: got %q", c, problem)
		}
	}
}

// The kernel's list is read as it is written here.
func TestReadKeysOfCredential(t *testing.T) {
	for uid, taken := range map[int]bool{os.Geteuid(): true, os.Geteuid() + 1: false} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte("0123456789abcdef"), 0o400); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setxattr(path, listName, credential(uint32(uid)), 0); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o440 {
			t.Fatalf("got mode %v, err %v; want the list to show as the group's bits", st.Mode(), err)
		}
		if _, err := ReadKeys(path); (err == nil) != taken {
			t.Errorf("a list for uid %d: got err %v; want it taken: %v", uid, err, taken)
		}
	}
}
