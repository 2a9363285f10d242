package treeserver

import (
	"cmp"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/fusefs/carry"
	"wolffia/internal/archive"
	"wolffia/internal/git/gitstore"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// A treeServer is the state of Main.
type treeServer struct {
	boot    *boot.TreeParams
	control *os.File
	server  *fusefs.Server
	audit   *audit.Log
	recent  audit.Recent
	policy  atomic.Pointer[perm.Policy] // the rules in force

	root     int             // the codebase, if it is copied
	copied   *copied         // nil: it is not
	git      *gitstore.Store // of a copied codebase; nil: its git directories are not the sandbox's own
	pod      carry.Known     // the copy in the sandbox's pod; nil: none was sent; exchange's own
	changing atomic.Bool     // rules are being replaced
	codebase string          // its path, once there is one; only serve changes it, and served, before there is a user
	served   boot.Dir        // the directory that was there then, which stays open; zero: none yet
	pooled   bool            // it has no user yet; serve's own
	expected *expected       // the rules that it will probably get with its codebase; nil: not known; serve's own

	questions questions
	reviewing atomic.Bool // a review is in progress
	ending    atomic.Bool // the sandbox has ended: a review stops
	reviews   sync.WaitGroup
}

// serve answers the shim's requests until the shim ends.
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
		if req.Op == boot.AskActivate || t.pooled { // not in the background: the shim waits for it alone
			err := runtime.Errorf(runtime.ErrConflict, "the tree server waits for a user, or has one")
			switch {
			case req.Op == boot.AskActivate && t.pooled:
				err = t.attach(req.Path, req.Git, file)
			case req.Op == boot.AskWarmUp && t.pooled:
				err = t.warmUp(req.Path, file)
			}
			_ = file.Close() // nil is fine
			t.reply(req.ID, nil, err)
			continue
		}
		if req.Op == boot.AskRules && t.changing.CompareAndSwap(false, true) {
			// In the background, since it takes time and serve must notice the shim's end.
			go func() { // ends when the rules are in force
				err := t.setRules(req.At, file)
				_ = file.Close()
				t.changing.Store(false)
				t.reply(req.ID, nil, err)
			}()
			continue
		}
		if req.Op == boot.AskReview && req.Review != nil && t.reviewing.CompareAndSwap(false, true) {
			t.reviews.Go(func() { // ends with the work, or when its answer is not read
				err := t.review(req.Review, file)
				t.reviewing.Store(false)
				t.reply(req.ID, nil, err)
			})
			continue
		}
		switch req.Op {
		case boot.AskVerdict:
			t.answered(&req)
		case boot.AskReview:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrConflict, "another process works on the changes of the sandbox: try again"))
		case boot.AskStats:
			t.reply(req.ID, t.stats(), nil)
		case boot.AskAudit:
			t.audit.Flush(boot.StatsLimit / 2)
			t.reply(req.ID, nil, nil)
		case boot.AskHostChanges:
			t.send(&boot.TreeReply{ID: req.ID, HostChanges: t.hostChanges(req.Thread)})
		case boot.AskDenials:
			t.send(&boot.TreeReply{ID: req.ID, Denied: t.denials(req.Since)})
		case boot.AskRules:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrConflict, "the rules of the sandbox are being changed: try again"))
		default:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrUnsupported, "the tree server does not know the request"))
		}
		_ = file.Close()
	}
}

// reply answers a request. It drops the answer if the shim does not read.
func (t *treeServer) reply(id uint64, stats *boot.TreeStats, err error) {
	r := boot.TreeReply{ID: id, Stats: stats, Failure: boot.Failed(err)}
	const most = 8 << 10 // bytes of an error, which may quote rules
	r.Error = r.Error[:min(len(r.Error), most)]
	t.send(&r)
}

// send sends an answer; see reply.
func (t *treeServer) send(r *boot.TreeReply) { _ = boot.SendPacket(t.control, r, nil) }

func (t *treeServer) stats() *boot.TreeStats {
	stats := new(boot.TreeStats)
	if t.server != nil { // else a pod has a copy
		s := t.server.Stats()
		stats.Messages, stats.Nodes, stats.FDs = s.Messages, s.Nodes, s.FDs
	}
	if !t.changing.Load() {
		stats.Rules = boot.Fingerprint(t.policy.Load().Rules())
	}
	return stats
}

// hostChanges returns some of the host's changes for a thread of the shim; without one it drops
// them.
func (t *treeServer) hostChanges(thread int) json.RawMessage {
	if t.server == nil {
		return nil
	}
	if thread <= 0 {
		t.server.DropHostChanges()
		return nil
	}
	b, _ := json.Marshal(t.server.HostChanges(thread))
	return b
}

// serves returns an error if another directory is served than the one that a client finds at the
// codebase's path.
func (t *treeServer) serves(at boot.Dir) error {
	if at == t.served && at != (boot.Dir{}) {
		return nil
	}
	return runtime.Errorf(runtime.ErrConflict, "the sandbox serves the directory that was %s at its start, which was moved, replaced or unmounted since: put it back there, or stop the sandbox", t.codebase)
}

// setRules replaces the rules in force by those that were made for the directory at. Invalid rules
// are ErrInvalid and change nothing.
//
// A tree server that runs as root can reach more than the shim, which does not; so it accepts only
// the rules that root has recorded.
func (t *treeServer) setRules(at boot.Dir, file *os.File) error {
	if err := t.serves(at); err != nil {
		return err
	}
	if t.server == nil {
		return runtime.Errorf(runtime.ErrConflict,
			"the sandbox has a copy of what its rules showed at its start: stop it before its rules are changed")
	}
	rules, err := boot.ReadRules(file)
	if err != nil {
		return err
	}
	if t.boot.RootTree {
		recorded, err := statedir.ConfigFrom(t.boot.Run)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "read the recorded rules: %w", err)
		}
		if !slices.Equal(recorded.Permissions, rules) {
			return runtime.Errorf(runtime.ErrDenied, "the rules differ from those recorded for the sandbox: set them again")
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

// denied adds a refusal to the audit log. Several goroutines call it; it does not block.
//
// It leaves out the names under which wolffia's own tools inside begin a file: where one is
// refused they try the file itself, and that is what the user can allow.
func (t *treeServer) denied(d fusefs.Denial) {
	if archive.IsTemporary(path.Base(d.Path)) && slices.Contains([]string{"lookup", "create", "symlink"}, d.Op) {
		return
	}
	if d.UID == 0 && !t.boot.HostIDs {
		d.UID = uint32(t.boot.UID) // the only id of the shim's user namespace
	}
	policy, _ := d.Rules.(*perm.Policy)
	r := recordOf(&d)
	t.audit.Add(r, policy)
	if d.Asked != fusefs.AskedAllowed {
		t.remember(r, policy)
	}
}

// recordOf returns a refusal for the log, which the rules explain.
func recordOf(d *fusefs.Denial) audit.Record {
	return audit.Record{
		Op: d.Op, Path: cmp.Or(d.Path, "."), Level: d.Level, Need: d.Need, Errno: errnoName(d.Errno),
		PID: d.PID, UID: d.UID, Reason: d.Reason, Asked: d.Asked, By: audit.Printable(d.By),
	}
}

// errnoName returns the symbolic name of an error, such as "EACCES"; "" for none.
func errnoName(e syscall.Errno) string {
	if e == 0 {
		return ""
	}
	return cmp.Or(unix.ErrnoName(e), "errno "+strconv.Itoa(int(e)))
}
