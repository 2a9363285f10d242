package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// auditLimit is how long a tree server that ends waits for its audit log.
const auditLimit = 2 * time.Second

// TreeStats are what a tree server has done and holds.
type TreeStats struct {
	Messages map[string]uint64 `json:"messages"` // requests of the kernel that were answered, by operation
	Nodes    int               `json:"nodes"`    // names that the kernel knows
	FDs      int               `json:"fds"`      // descriptors kept open
	// Rules is the fingerprint of the rules that are in force; empty while they
	// are being changed.
	Rules string `json:"rules"`
}

// A treeServer is the state of Tree.
type treeServer struct {
	boot    *boot
	control *os.File
	server  *fusefs.Server
	audit   *audit.Log
	policy  atomic.Pointer[perm.Policy] // what is served by

	changing atomic.Bool // rules are being replaced
}

// serve answers the shim until that is gone.
func (t *treeServer) serve() {
	for buf := make([]byte, maxPacket); ; {
		packet, file, err := receivePacket(t.control, buf)
		if len(packet) == 0 {
			return
		}
		var req treeRequest
		if err != nil || json.Unmarshal(packet, &req) != nil {
			req.Op = "nonsense"
		}
		if req.Op == askRules && t.changing.CompareAndSwap(false, true) {
			// This may take its time; that the shim ends is to be noticed.
			go func() { // ends when the rules bind
				err := t.setRules(file)
				_ = closeFile(file)
				t.changing.Store(false)
				t.reply(req.ID, nil, err)
			}()
			continue
		}
		switch req.Op {
		case askStats:
			t.reply(req.ID, t.stats(), nil)
		case askAudit:
			t.audit.Flush(statsLimit / 2)
			t.reply(req.ID, nil, nil)
		case askRules:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrConflict, "its rules are being changed: try again"))
		default:
			t.reply(req.ID, nil, runtime.Errorf(runtime.ErrUnsupported, "the tree server does not know what it is asked for"))
		}
		_ = closeFile(file)
	}
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// reply answers a request. If the shim does not read, it goes without.
func (t *treeServer) reply(id uint64, stats *TreeStats, err error) {
	r := treeReply{ID: id, Stats: stats}
	if err != nil {
		why := failed(err)
		const most = 8 << 10 // bytes of an error: rules can be quoted in it
		r.Error, r.Class = why.Error[:min(len(why.Error), most)], why.Class
	}
	_ = sendPacket(t.control, &r, nil)
}

func (t *treeServer) stats() *TreeStats {
	s := t.server.Stats()
	stats := &TreeStats{Messages: s.Messages, Nodes: s.Nodes, FDs: s.FDs}
	if !t.changing.Load() {
		stats.Rules = fingerprint(t.policy.Load().Rules())
	}
	return stats
}

// setRules replaces the rules that are served by. Rules that are not valid
// change nothing: ErrInvalid.
//
// A tree server that is root's can reach more than the shim, which is not; so
// it takes no other rules from it than those that root has recorded.
func (t *treeServer) setRules(file *os.File) error {
	rules, err := readRules(file)
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

// fingerprint tells sets of rules apart. It is no proof of anything.
func fingerprint(rules []perm.Rule) string {
	h := fnv.New64a()
	if len(rules) == 0 {
		rules = nil // not an empty list
	}
	if err := json.NewEncoder(h).Encode(rules); err != nil {
		return ""
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// replyOf is what a client is told of the tree server's answer.
func replyOf(r treeReply, err error) *reply {
	if err == nil {
		return &reply{Stats: r.Stats}
	}
	why := failed(err)
	return &reply{Error: why.Error, Class: why.Class, Unknown: errors.Is(err, errNoAnswer) || errors.Is(err, errTreeGone)}
}
