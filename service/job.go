package service

import (
	"cmp"

	"wolffia/ops"
	"wolffia/runtime"
)

// Files returns the files of the sandbox.
func (i *Inside) Files() *ops.Files {
	return &ops.Files{Client: i.service.files, Sandbox: i.box.ID, MountPoint: i.box.MountPoint}
}

// Jobs returns the background jobs of a session; empty: of the owner's persistent shell.
func (i *Inside) Jobs(session string) ops.Jobs {
	return ops.Jobs{Runtime: i.service.rt, Session: runtime.SessionIn(i.box.ID, cmp.Or(session, sessionName))}
}
