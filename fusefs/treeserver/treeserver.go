package treeserver

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// A treeServer is the state of Tree.
type treeServer struct {
	boot    *boot.Params
	control *os.File
	server  *fusefs.Server
	audit   *audit.Log
	policy  atomic.Pointer[perm.Policy] // what is served by

	changing atomic.Bool // rules are being replaced
}

// serve answers the shim until that is gone.
func (t *treeServer) serve() {
	for buf := make([]byte, boot.MaxPacket); ; {
		packet, file, err := boot.ReceivePacket(t.control, buf)
		if len(packet) == 0 {
			return
		}
		var req boot.TreeRequest
		if err != nil || json.Unmarshal(packet, &req) != nil {
			req.Op = "nonsense"
		}
		if req.Op == boot.AskRules && t.changing.CompareAndSwap(false, true) {
			// This may take its time; that the shim ends is to be noticed.
			go func() { // ends when the rules bind
				err := t.setRules(file)
				_ = boot.CloseFile(file)
				t.changing.Store(false)
				t.reply(req.ID, nil, err)
			}()
			continue
		}
		switch req.Op {
		case boot.AskStats:
			t.reply(req.ID, t.stats(), nil)
		case boot.AskAudit:
			t.audit.Flush(boot.StatsLimit / 2)
			t.reply(req.ID, nil, nil)
		case boot.AskRules:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrConflict, "its rules are being changed: try again"))
		default:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrUnsupported, "the tree server does not know what it is asked for"))
		}
		_ = boot.CloseFile(file)
	}
}

// reply answers a request. If the shim does not read, it goes without.
func (t *treeServer) reply(id uint64, stats *boot.TreeStats, err error) {
	r := boot.TreeReply{ID: id, Stats: stats, Failure: boot.Failed(err)}
	const most = 8 << 10 // bytes of an error: rules can be quoted in it
	r.Error = r.Error[:min(len(r.Error), most)]
	_ = boot.SendPacket(t.control, &r, nil)
}

func (t *treeServer) stats() *boot.TreeStats {
	s := t.server.Stats()
	stats := &boot.TreeStats{Messages: s.Messages, Nodes: s.Nodes, FDs: s.FDs}
	if !t.changing.Load() {
		stats.Rules = boot.Fingerprint(t.policy.Load().Rules())
	}
	return stats
}

// setRules replaces the rules that are served by. Rules that are not valid
// change nothing: ErrInvalid.
//
// A tree server that is root's can reach more than the shim, which is not; so
// it takes no other rules from it than those that root has recorded.
func (t *treeServer) setRules(file *os.File) error {
	rules, err := boot.ReadRules(file)
	if err != nil {
		return err
	}
	if t.boot.Config.RootTree {
		recorded, err := statedir.ConfigFrom(t.boot.Run)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "read what rules are recorded: %w", err)
		}
		if !slices.Equal(recorded.Permissions, rules) {
			return runtime.Errorf(runtime.ErrDenied, "these are not the rules that are recorded for the sandbox")
		}
	}
	policy, err := perm.Compile(rules)
	if err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	step.Reached("rules compiled")
	t.server.SetRules(policy)
	t.policy.Store(policy)
	step.Reached("rules bind")
	return nil
}

// denied passes a refusal on to the audit log. It is called by several
// goroutines, and does not wait.
func (t *treeServer) denied(d fusefs.Denial) {
	uid := d.UID
	if uid == 0 && t.boot.Engine == "" {
		uid = uint32(t.boot.Config.UID) // the one id that is there, in the shim's user namespace
	}
	policy, _ := d.Rules.(*perm.Policy)
	t.audit.Add(audit.Record{
		Op: d.Op, Path: cmp.Or(d.Path, "."), Level: d.Level, Need: d.Need, Errno: errnoName(d.Errno),
		PID: d.PID, UID: uid, Why: d.Why,
	}, policy)
}

// errnoName is the name by which programmers know an error.
func errnoName(e syscall.Errno) string {
	return cmp.Or(unix.ErrnoName(e), "errno "+strconv.Itoa(int(e)))
}
