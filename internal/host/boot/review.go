package boot

import (
	"time"

	"wolffia/runtime"
)

// AskReview: do what TreeRequest.Review says, and answer by the connection in the descriptor. An
// earlier version, which took none, knew it by another name.
const AskReview = "review-by"

// OpReview is a request of a client that the shim passes on to the tree server.
const OpReview = AskReview

// ReviewLimit is how long a review may take.
const ReviewLimit = 15 * time.Minute

// ReviewStopLimit is how long a review takes at most to stop: a batch of files may have to be
// flushed.
const ReviewStopLimit = 10 * time.Second

// The works of a Review.
const (
	ReviewChanges  = "changes"  // answers with a JSON value of each runtime.Change
	ReviewDiff     = "diff"     // answers with the text
	ReviewApply    = "apply"    // answers with a JSON value of each Applied
	ReviewHunks    = "hunks"    // is ReviewApply with Hunks, which an older tree server does not know
	ReviewDiscard  = "discard"  // answers with a number
	ReviewSnapshot = "snapshot" // makes the snapshot Name, as a copy of the snapshot From if that is set
	// makes the changes those of the snapshot Name; not while the tree is served
	ReviewRestore = "restore"
	// takes the changes of the sandbox's pod, by a connection in the descriptor to replica.Serve, and
	// with Send sends it what it has otherwise. The shim alone asks for it.
	ReviewExchange = "exchange"
	ReviewRecover  = "recover" // puts right what an apply that was killed has left on the host
)

// A Review is work on the changes of a copied codebase. The tree server does it, since it may read
// the codebase and has the rules.
type Review struct {
	Do     string   `json:"do"`
	Paths  [][]byte `json:"paths,omitempty"`
	Lines  bool     `json:"lines,omitempty"`
	DryRun bool     `json:"dryRun,omitempty"`
	Force  bool     `json:"force,omitempty"`
	Hunks  []Hunks  `json:"hunks,omitempty"` // of ReviewHunks
	Name   string   `json:"name,omitempty"`
	From   string   `json:"from,omitempty"`
	Send   bool     `json:"send,omitempty"` // of ReviewExchange
	// Memory has a snapshot of a sandbox that does not run take the memory of its next start too.
	Memory bool `json:"memory,omitempty"`
	// At is the directory that the client finds at the codebase's path. What compares with it, or
	// changes it, is refused if it is not the one that is served.
	At Dir `json:"at,omitzero"`
	// Answer says that the request comes with a descriptor, an end of a connection: the answer,
	// which can be longer than a packet, goes there, and comes before the TreeReply. A client that
	// ends its direction of the connection has the work stopped, and gets how far it came.
	Answer bool `json:"answer,omitempty"`
}

// Hunks are as [runtime.Hunks]; a path is arbitrary bytes.
type Hunks struct {
	Path   []byte `json:"path"`
	Digest string `json:"digest"`
	Only   []int  `json:"only"`
}

// An Applied is one line of the answer to ReviewApply.
type Applied struct {
	Change *runtime.Change `json:"change"`
	Done   bool            `json:"done,omitempty"` // else it was left
}
