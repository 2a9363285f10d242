package userns

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// Count is how many subordinate ids a namespace of several users has: the ids 1 to 65535.
const Count = 65535

// IDs are the users and groups of the host that a namespace of several users has: its id 0 is the
// caller's own, and the ids 1 to Count are the caller's subordinate ids (subuid(5)).
type IDs struct {
	UID, GID       int
	SubUID, SubGID int // the first of Count
}

// The files with the ranges of subordinate ids.
const (
	subUIDs = "/etc/subuid"
	subGIDs = "/etc/subgid"
)

// A Lack is what a user or the host lacks for several ids, and the command that helps, which is
// root's.
type Lack struct{ Problem, Fix string }

// Error implements error.
func (l *Lack) Error() string { return l.Problem + ": as root, " + l.Fix }

// Of returns the IDs of a user of the host. The error may be a *Lack.
func Of(uid, gid int) (IDs, error) {
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return of(uid, gid, name)
}

// OfRoot returns the IDs of a user that root runs its own programs as. Without a range of its own
// the user has root's. The error may be a *Lack, for root.
func OfRoot(uid, gid int) (IDs, error) {
	ids, err := Of(uid, gid)
	if _, lacks := errors.AsType[*Lack](err); lacks {
		return of(uid, gid, "root")
	}
	return ids, err
}

// of returns the IDs of a user that has the ranges of a name.
func of(uid, gid int, name string) (ids IDs, err error) {
	ids = IDs{UID: uid, GID: gid}
	if ids.SubUID, err = first(subUIDs, name, uid); err == nil {
		ids.SubGID, err = first(subGIDs, name, uid)
	}
	return ids, err
}

// first returns the first id of the user's range in a file.
func first(path, name string, uid int) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	ranges := parse(string(b))
	if id, ok := own(ranges, name, uid); ok {
		return id, nil
	}
	// Both files must have it, and two users' must not overlap.
	b, _ = os.ReadFile(subUIDs)
	other, _ := os.ReadFile(subGIDs)
	from := free(parse(string(b) + "\n" + string(other)))
	return 0, &Lack{fmt.Sprintf("%s has no range of %d ids for user %s", path, Count, name), fix(name, from)}
}

// fix returns the command that gives a user, known by name or by number only, a range.
func fix(name string, from int) string {
	if _, err := strconv.Atoi(name); err == nil { // usermod(8) takes names
		return fmt.Sprintf("sh -c 'echo %s:%d:%d | tee -a %s %s'", name, from, Count+1, subUIDs, subGIDs)
	}
	return fmt.Sprintf("usermod --add-subuids %d-%[2]d --add-subgids %[1]d-%[2]d %[3]s", from, from+Count, name)
}

// A subRange is a line of subuid(5).
type subRange struct {
	owner       string // a name, or a number
	from, count int
}

// parse returns the lines of a file that are whole, in order.
func parse(text string) []subRange {
	var all []subRange
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] == "" || strings.HasPrefix(f[0], "#") {
			continue
		}
		from, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if cmp.Or(err1, err2) == nil && from > 0 && from+count < 1<<32 {
			all = append(all, subRange{f[0], int(from), int(count)})
		}
	}
	return all
}

// own returns the first id of the first range of a user that has Count ids. A range with the user's
// own id is not one: an id has one place in a namespace.
func own(all []subRange, name string, uid int) (int, bool) {
	number := strconv.Itoa(uid)
	i := slices.IndexFunc(all, func(r subRange) bool {
		return (r.owner == name || r.owner == number) && r.count >= Count && (uid < r.from || uid >= r.from+Count)
	})
	if i < 0 {
		return 0, false
	}
	return all[i].from, true
}

// free returns the first id of Count+1 ids that no range has, at 100000 or above, as usermod(8)
// counts.
func free(all []subRange) int {
	from := 100000
	for _, r := range all {
		from = max(from, r.from+r.count)
	}
	return from
}
