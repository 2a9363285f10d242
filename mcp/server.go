package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/fileclient"
	"wolffia/runtime"
)

// A Details is what a Server tells of its sandbox beside runtime.Sandbox.
type Details struct {
	Config runtime.SandboxConfig
	Limits *runtime.LimitsState // nil: there are none
}

// Options are what a Server needs. All fields but Log, Remote and Copied are required.
type Options struct {
	Runtime runtime.RuntimeWithSession
	// Open returns the id of a running sandbox, which it makes if there is none. It is called
	// again after an error, and when the sandbox has ended, but never concurrently.
	Open func(ctx context.Context) (sandboxID string, err error)
	// Inspect returns the configuration of a sandbox.
	Inspect func(ctx context.Context, sandboxID string) (*Details, error)
	// Allow returns the beginning of a command line to which the flags are appended that
	// allow what was denied.
	Allow func(sandboxID string) string
	// AllowHost is Allow for what the network refused.
	AllowHost func(sandboxID string) string
	// Ended is called when a command of the tool bash has ended, with its exit code for callers and
	// the notes of its result; nil: not.
	Ended func(ctx context.Context, sandboxID string, command *runtime.Command, exit runtime.Result, notes []string)
	// Answer answers a question of the sandbox, also with runtime.ScopeAlways; nil: Runtime does, without
	// that scope.
	Answer func(ctx context.Context, sandboxID string, q *runtime.Question, a *runtime.Answer) error
	// Session is the name of the session in which commands run.
	Session string
	// Version is wolffia's.
	Version string
	// Log receives errors of the protocol; nil disables logging.
	Log *slog.Logger
	// Remote says that the client may be on another machine: it is not told paths of this one.
	Remote bool
	// Copied says that the sandbox has a copied codebase, or will have: there is a tool for its changes, if
	// Runtime is a [runtime.Workspace].
	Copied bool
}

// A Server serves one sandbox to one client. The caller of Serve ends the sandbox.
type Server struct {
	*Options
	sdk     *sdk.Server
	sandbox *holder
	outputs *outputs
	files   *fileclient.Client
	writing chan struct{}                     // has a value while no file is changed
	working chan struct{}                     // has a value for each file operation that may begin
	client  atomic.Pointer[sdk.ServerSession] // nil: it has not said yet what it can
	bigs    sync.Map                          // each [*big] by its name, while its request is served

	ctx context.Context // of begin
}

// maxFileCalls is how many file operations run at the same time.
const maxFileCalls = 16

// New returns a Server.
func New(o *Options) *Server { return newServer(o, newOutputs(), nil) }

// newServer returns a Server whose client, over HTTP, has the session that newID names; nil: the
// client is not one over HTTP.
func newServer(o *Options, kept *outputs, newID func() string) *Server {
	s := &Server{Options: o, outputs: kept, files: fileclient.New(o.Runtime), writing: make(chan struct{}, 1), working: make(chan struct{}, maxFileCalls)}
	s.writing <- struct{}{}
	for range maxFileCalls {
		s.working <- struct{}{}
	}
	about := instructions
	if o.Copied {
		about += copyInstructions
	}
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "wolffia", Title: "Wolffia sandbox", Version: o.Version}, &sdk.ServerOptions{
		Instructions: about,
		Logger:       o.Log,
		InitializedHandler: func(_ context.Context, r *sdk.InitializedRequest) {
			s.client.Store(r.Session)
			s.sandbox.begin()
		},
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		GetSessionID: newID,
	})
	s.addShell()
	s.addJobs()
	s.addFiles()
	s.addStatus()
	if _, can := o.Runtime.(runtime.Workspace); can && o.Copied {
		s.addChanges()
	}
	return s
}

const instructions = `All tools work in one sandbox over the project's directory. Rules hide or protect some files, such as
secrets and .git; the network may be off. bash keeps its state between calls. A result says what the rules have
denied, and what the user could do to allow it: do not try to work around a denial. status describes the sandbox,
explain_denial a path.`

// errInputEnded is why calls are given up when the client has closed its stream.
var errInputEnded = errors.New("the client's input has ended")

// Serve serves the client at the other end of in and out until in ends, or ctx. Then it
// interrupts what runs, and answers what else was asked for. It closes neither.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	calls, interrupt := context.WithCancelCause(ctx)
	s.begin(calls)
	defer s.sandbox.wait()
	defer cancel() // before the wait
	ran := make(chan error, 1)
	go func() { ran <- s.sdk.Run(ctx, newStdio(in, out, func() { interrupt(errInputEnded) })) }() // ends with us, or when the client reads
	var err error
	select {
	case err = <-ran:
	case <-calls.Done():
		select {
		case err = <-ran:
		case <-time.After(2 * lastReplies):
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// begin lets calls of tools be done until ctx ends.
func (s *Server) begin(ctx context.Context) {
	s.ctx = ctx
	s.sandbox = newHolder(ctx, func(ctx context.Context) (string, error) {
		id, err := s.Open(ctx)
		if err == nil {
			go s.elicit(ctx, id) // ends with the sandbox, or ctx
		}
		return id, err
	})
}

// A holder has the sandbox, once it is made.
type holder struct {
	ctx  context.Context
	open func(context.Context) (string, error)

	mu  sync.Mutex
	now *attempt // nil: not begun, or the sandbox was lost
	all sync.WaitGroup
}

// An attempt makes a sandbox, or has made it.
type attempt struct {
	done chan struct{}
	id   string
	err  error
}

func newHolder(ctx context.Context, open func(context.Context) (string, error)) *holder {
	return &holder{ctx: ctx, open: open}
}

// begin begins to make the sandbox unless that has begun.
func (h *holder) begin() *attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now != nil {
		return h.now
	}
	a := &attempt{done: make(chan struct{})}
	h.now = a
	h.all.Go(func() {
		a.id, a.err = h.open(h.ctx)
		if a.err != nil {
			h.lose(a)
		}
		close(a.done)
	})
	return a
}

// lose forgets the sandbox of an attempt: the next call makes another one.
func (h *holder) lose(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == a {
		h.now = nil
	}
}

// get returns the attempt that has made the sandbox.
func (h *holder) get(ctx context.Context) (*attempt, error) {
	a := h.begin()
	select {
	case <-a.done:
		return a, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait waits until no attempt runs.
func (h *holder) wait() { h.all.Wait() }
