package hostgit

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// An owner is the user whose git directory root works on: git runs as that user, so that what it writes is the user's. nil is the caller.
type owner struct {
	uid, gid int
	home     string
}

// ownerOf returns the owner of what st describes, if the caller is root and the owner is not.
func ownerOf(st fs.FileInfo) *owner {
	own, is := st.Sys().(*syscall.Stat_t)
	if !is || os.Geteuid() != 0 || own.Uid == 0 {
		return nil
	}
	o := &owner{int(own.Uid), int(own.Gid), "/"} // root's own configuration is not for others
	if u, err := user.LookupId(strconv.Itoa(o.uid)); err == nil {
		o.home = u.HomeDir
		if gid, err := strconv.Atoi(u.Gid); err == nil {
			o.gid = gid
		}
	}
	return o
}

// attr returns what has a program run as the owner.
func (o *owner) attr() *syscall.SysProcAttr {
	if o == nil {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}}
}

// environ returns env with the owner's home directory.
func (o *owner) environ(env []string) []string {
	if o == nil {
		return env
	}
	var own []string
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); name != "HOME" && name != "XDG_CONFIG_HOME" && name != "USER" && name != "LOGNAME" {
			own = append(own, v)
		}
	}
	return append(own, "HOME="+o.home)
}
