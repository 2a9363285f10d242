package boot

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/internal/host/staticfs"
	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
)

// The operations of a Request.
const (
	OpAlive   = "alive"    // answer once PID 1 has
	OpStop    = "stop"     // end the sandbox
	OpTouch   = "touch"    // begin the idle time anew
	OpRenew   = "renew"    // replace the deadline; the idle timeout stays
	OpStats   = AskStats   // return what the tree server does
	OpAudit   = AskAudit   // return when all denials so far are in the log
	OpRules   = AskRules   // replace the rules by those in the descriptor, a sealed memory file; return when they are in force
	OpDenials = AskDenials // return what was denied since Request.Since, ten kinds of it at most
	OpNetwork = "network"  // replace the names that the sandbox can reach
	OpEgress  = "egress"   // return what the network has refused since Request.Since
	// OpDial: connect to Request.Port of the sandbox's loopback, and send the socket with the
	// answer. The connection has no other request, and keeps the sandbox in use until it ends.
	// Where the kernel has no such socket (gVisor), the answer is ErrUnsupported.
	OpDial = "dial"
	// OpDirect: send a connection to PID 1 with the answer, which keeps the sandbox in use as if
	// OpAcquire had been sent. It is the first request of its connection, whose end ends the use.
	// Where PID 1 cannot have such a connection, the answer is ErrUnsupported, and this one is as
	// others.
	OpDirect = "direct"
	// begin to keep the sandbox in use: a process is to be started by the connection to PID 1
	OpAcquire = "acquire"
	OpRelease = "release" // end that; nothing has run for Request.IdleMS
	OpPause   = "pause"   // have all processes stand still; of a sandbox that is paused: nothing
	OpResume  = "resume"  // have them run on; of one that runs: nothing
	// OpQuestions: return the questions that wait, once they are others than at Request.Since. Its
	// connection asks no other thing, and counts as an asker until it ends.
	OpQuestions = "questions"
	OpAnswer    = "answer" // answer one
	// OpClaim: return the question of Request.Answer, which nobody else can answer until the connection
	// ends: the caller is about to add a rule
	OpClaim = "claim"
	// keep the sandbox's memory in the empty directory whose descriptor comes with the request;
	// with Review, the tree server does that first, while nothing runs. With End no descriptor
	// comes: it hibernates
	OpSave = "save"
)

// A Request is a request of a client to the shim itself. Those for rules and review come with a
// descriptor (SCM_RIGHTS), which the shim passes on to the tree server: as of AskRules and
// AskReview. That of save is the shim's own.
type Request struct {
	Op string `json:"op"`
	// for stop: between SIGTERM and SIGKILL; nil is StopGrace
	GraceMS *int64 `json:"graceMs,omitempty"`
	// for stop: the client has nothing under way inside, and starts nothing any more
	Idle bool `json:"idle,omitempty"`
	At   Dir  `json:"at,omitzero"` // for rules: as TreeRequest.At
	// for denials and egress: how many are known already; for questions: Reply.Seen
	Since  int64           `json:"since,omitempty"`
	Egress *network.Policy `json:"egress,omitempty"` // for network
	Review *Review         `json:"review,omitempty"` // for review and save
	Port   int             `json:"port,omitempty"`   // for dial
	IdleMS int64           `json:"idleMs,omitempty"` // for rest
	End    bool            `json:"end,omitempty"`    // for save: end all processes once it is complete
	Sync   bool            `json:"sync,omitempty"`   // for save: on the disk; else it counts until the machine restarts

	Answer   *runtime.Answer    `json:"answer,omitempty"`   // for answer
	Lifetime *statedir.Lifetime `json:"lifetime,omitempty"` // for renew; the idle timeout stays
}

// A Reply answers a request.
type Reply struct {
	Failure
	Stats  *TreeStats       `json:"stats,omitempty"`
	Denied *runtime.Denials `json:"denied,omitempty"`
	// Refused answers egress, and Seen is how many refusals there were since the start.
	Refused *runtime.Refusals `json:"refused,omitempty"`
	// Questions answers questions, and Seen is how often they have changed.
	Questions *[]runtime.Question `json:"questions,omitempty"`
	Seen      int64               `json:"seen,omitempty"`
	// Reached answers egress too: NAME:PORT of each host that was connected to, with spaces between.
	Reached string `json:"reached,omitempty"`
	// Sent and Received answer egress too: bytes to and from those hosts since the start.
	Sent     int64 `json:"sent,omitempty"`
	Received int64 `json:"received,omitempty"`
	// Errno is the kernel's error number for dial, if that has failed with one.
	Errno int `json:"errno,omitempty"`
	// Unknown says that the request may or may not have taken effect.
	Unknown bool `json:"unknown,omitempty"`
}

// A KeeperRequest is a packet of the shim's to the keeper, after PID 1 has started: OpPause, OpResume or,
// of a pooled sandbox, OpActivate, which the keeper answers with a Report of that Step, or OpRenew, which
// it does not; without an operation it ends the sandbox.
type KeeperRequest struct {
	Op       string    `json:"op,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"` // launch.Spec.Deadline, of OpRenew
	// What the engine records of the sandbox, for OpActivate: name, labels, BoundToCaller, and
	// statedir.Config.CreatedAt.
	Config    *runtime.SandboxConfig `json:"config,omitempty"`
	CreatedAt int64                  `json:"createdAt,omitempty"`
}

// TreeStats are figures of a tree server.
type TreeStats struct {
	// requests of the kernel that were answered, by operation
	Messages map[string]uint64 `json:"messages"`
	Nodes    int               `json:"nodes"` // names that the kernel knows
	FDs      int               `json:"fds"`   // descriptors kept open
	// Rules is the fingerprint of the rules that are in force; empty while they
	// are being changed.
	Rules string `json:"rules"`
	// Static are the figures of a static filter, which has no tree server; then all
	// others but Rules are zero.
	Static *staticfs.Stats `json:"static,omitempty"`
}

// Fingerprint returns a short text that differs for different rules. It is not a
// cryptographic hash.
func Fingerprint(rules []perm.Rule) string {
	h := fnv.New64a()
	if len(rules) == 0 {
		rules = nil // not an empty list
	}
	if err := json.NewEncoder(h).Encode(rules); err != nil {
		return ""
	}
	return strconv.FormatUint(h.Sum64(), 16)
}
