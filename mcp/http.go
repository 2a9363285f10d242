package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// HandlerOptions are a handler's options. nil and the zero value are the defaults.
type HandlerOptions struct {
	// MaxSessions is how many sessions there are, and MaxOfParty how many of one party; 0
	// means 256 and 32.
	MaxSessions, MaxOfParty int
	// Idle is how long a session may be without a request; 0 means 30 minutes.
	Idle time.Duration
	// BodyLimit is how long a request's body may take to arrive, WriteLimit how long the
	// client may take to read a part of the reply; 0 means 60 s.
	BodyLimit, WriteLimit time.Duration
}

// A Client is the party that a request over HTTP comes from.
type Client struct {
	// Party is what sessions are counted by.
	Party string
	// Key tells clients apart: a session is found only by a Client with the same Key.
	Key string
	// Options returns the options of a new session's Server.
	Options func() *Options
}

// A Handler serves sessions of the protocol over streamable HTTP. Each has a Server of its own,
// so a session has what a client on standard input has. It is safe for concurrent use.
type Handler struct {
	opts HandlerOptions
	// sdk serves sessions, single the requests of newer versions of the protocol, which have none.
	sdk, single *sdk.StreamableHTTPHandler

	ctx  context.Context // of all sessions
	stop context.CancelFunc
	big  *turnstile

	drained context.Context // ends with Drain
	drain   context.CancelFunc

	outputs *outputs // of all sessions

	mu       sync.Mutex
	sessions map[string]*httpSession // by id
	ending   sync.WaitGroup
}

// An httpSession is a session over HTTP.
type httpSession struct {
	id, key, party string
	server         *Server
	cancel         context.CancelFunc

	// Guarded by Handler.mu.
	requests int       // that are served
	used     time.Time // the end of the last request
	timer    *time.Timer
	session  *sdk.ServerSession // nil: it is not connected yet, or the session is for single requests
}

// NewHandler returns a handler. The caller closes it.
func NewHandler(opts *HandlerOptions) *Handler {
	h := &Handler{outputs: newOutputs(), sessions: map[string]*httpSession{}, big: newTurnstile()}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.MaxSessions = cmp.Or(h.opts.MaxSessions, 256)
	h.opts.MaxOfParty = cmp.Or(h.opts.MaxOfParty, 32)
	h.opts.Idle = cmp.Or(h.opts.Idle, 30*time.Minute)
	h.opts.BodyLimit = cmp.Or(h.opts.BodyLimit, time.Minute)
	h.opts.WriteLimit = cmp.Or(h.opts.WriteLimit, time.Minute)
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.drained, h.drain = context.WithCancel(context.Background())
	server := func(r *http.Request) *sdk.Server {
		return r.Context().Value(serverKey{}).(*Server).sdk // Serve has set it
	}
	h.sdk = sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{MaxRequestBodyBytes: maxRest})
	h.single = sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		MaxRequestBodyBytes: maxRest, Stateless: true, PropagateRequestCancellation: true,
	})
	return h
}

type serverKey struct{}

const (
	sessionHeader = "Mcp-Session-Id" // has the id of a session
	versionHeader = "Mcp-Protocol-Version"
	// withoutSession is the first version of the protocol that has no sessions.
	withoutSession = "2026-07-28"
)

// Serve serves one request of a client.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, c *Client) {
	id := r.Header.Get(sessionHeader)
	r.Header.Del(bigHeader)
	newer := r.Header.Get(versionHeader) >= withoutSession
	if newer && r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "version "+withoutSession+" of the protocol has only POST", http.StatusMethodNotAllowed)
		return
	}
	// A request that does not arrive, or begins no session, takes no session's place.
	body, leave, ok := h.readBody(w, r, c.Party)
	if len(body) > maxRest {
		defer func() { go debug.FreeOSMemory() }() // it would stay for minutes
	}
	defer leave()
	if !ok {
		return
	}
	name := newBigName()
	rest, content, ok := cut(body, name)
	switch {
	case !ok:
		refuse(w, http.StatusBadRequest, refusal(nil, jsonrpc.CodeParseError, "the request is no JSON in UTF-8"))
		return
	case len(rest) > maxRest:
		tooLarge(w)
		return
	}
	var m looked
	if r.Method == http.MethodPost {
		if m, ok = lookAt(w, rest, newer); !ok {
			return
		}
	}
	single := id == "" && !m.initializes && (m.discovers || newer)
	if id == "" && !m.initializes && !single {
		http.Error(w, "the request has no "+sessionHeader+": a session begins with a POST of initialize, and without sessions "+
			versionHeader+" is "+withoutSession, http.StatusBadRequest)
		return
	}
	s := h.session(c, id, single)
	switch {
	case s == nil && id != "":
		http.Error(w, "session not found: initialize another", http.StatusNotFound)
		return
	case s == nil:
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many sessions, or the service is being stopped: end a session, by DELETE", http.StatusServiceUnavailable)
		return
	}
	defer h.release(s, r.Method == http.MethodDelete)
	if len(body) > bigMessage {
		s.server.bigs.Store(name, &big{content, leave})
		defer s.server.bigs.Delete(name)
		r.Header.Set(bigHeader, name)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(rest)), int64(len(rest))
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), serverKey{}, s.server))
	defer cancel()
	switch r.Method {
	case http.MethodGet: // it waits for messages that no request has asked for
		defer context.AfterFunc(h.drained, cancel)()
	case http.MethodDelete:
		s.cancel() // what runs ends, or the SDK waits for it
	}
	out := &patient{w, h.opts.WriteLimit}
	serve := h.sdk.ServeHTTP
	if single {
		serve = h.single.ServeHTTP
	}
	serve(out, r.WithContext(ctx))
	out.extend()
}

// tooLarge answers a request that is larger than a message may be.
func tooLarge(w http.ResponseWriter) {
	http.Error(w, fmt.Sprintf("the request is too large: a message has at most %d bytes, with the content of write_file %d", maxRest, maxMessage),
		http.StatusRequestEntityTooLarge)
}

// readBody reads the body of a request, so that it must arrive within the limit, and afterwards
// the connection has none. One that is big waits for its turn, which ends with leave. ok is whether
// to go on; if not, it has answered.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, party string) (body []byte, leave func(), ok bool) {
	leave = func() {}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(h.opts.BodyLimit)) // always supported
	in := http.MaxBytesReader(w, r.Body, maxMessage)
	body, err := io.ReadAll(io.LimitReader(in, bigMessage+1))
	if err == nil && len(body) > bigMessage {
		_ = control.SetReadDeadline(time.Time{})
		if leave, err = h.big.enter(r.Context(), party); err != nil {
			return nil, func() {}, false // the client is gone
		}
		_ = control.SetReadDeadline(time.Now().Add(h.opts.BodyLimit))
		whole := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, bigMessage), maxMessage)+bytes.MinRead))
		whole.Write(body)
		_, err = whole.ReadFrom(in)
		body = whole.Bytes()
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		tooLarge(w)
	case errors.Is(err, os.ErrDeadlineExceeded):
		http.Error(w, "the request did not arrive in time", http.StatusRequestTimeout)
	case err != nil:
		http.Error(w, "the request's body cannot be read", http.StatusBadRequest)
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, leave, err == nil
}

// A looked is what a body's messages are.
type looked struct{ initializes, discovers bool }

// methods are the requests that the library knows. Over HTTP it refuses another one as no request
// at all, and a client does not know that the server only lacks the method.
var methods = []string{
	"initialize", "ping", "server/discover", "subscriptions/listen", "tools/list", "tools/call", "logging/setLevel", "completion/complete",
	"prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
}

// lookAt looks at a body's messages. ok is false if one has an id that the library would read as
// another one, or, before [withoutSession], a method that does not exist; then it has answered.
func lookAt(w http.ResponseWriter, body []byte, newer bool) (m looked, ok bool) {
	all := split(bytes.TrimSpace(body))
	for _, text := range all {
		var has struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(text, &has) != nil {
			continue // the library says so
		}
		if refused := refuseID(has.ID); refused != nil {
			refuse(w, http.StatusBadRequest, refused)
			return m, false
		}
		if !newer && len(all) == 1 && has.ID != nil && has.Method != "" && !slices.Contains(methods, has.Method) {
			refuse(w, http.StatusOK, refusal(has.ID, jsonrpc.CodeMethodNotFound, fmt.Sprintf("method %.100q does not exist", has.Method)))
			return m, false
		}
		m.initializes = m.initializes || has.Method == "initialize"
		m.discovers = m.discovers || has.Method == "server/discover"
	}
	return m, true
}

// refuse answers a request with an error of JSON-RPC.
func refuse(w http.ResponseWriter, status int, reply []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(reply)
}

// session returns the session of a request, which it begins if id is empty: that in which a
// client's single requests are, if it is one, else another.
func (h *Handler) session(c *Client, id string, single bool) *httpSession {
	switch {
	case single:
		if s := h.find(singles+c.Key, c.Key); s != nil {
			return s
		}
		return h.begin(c, singles+c.Key)
	case id != "":
		return h.find(id, c.Key)
	}
	return h.begin(c, rand.Text())
}

// singles begins the id of a client's session for single requests. No request can name it: a
// header has no such byte.
const singles = "\x00"

// begin begins a session, of which one request is served. It is nil if there are too many: of
// those of the same party, the one that is unused for the longest time makes place.
func (h *Handler) begin(c *Client, id string) *httpSession {
	ctx, cancel := context.WithCancel(h.ctx)
	s := &httpSession{id: id, key: c.Key, party: c.Party, cancel: cancel, requests: 1}
	s.server = newServer(c.Options(), h.outputs, func() string { return id })
	s.server.begin(ctx)
	s.timer = time.AfterFunc(h.opts.Idle, func() { h.end(s, false) })
	s.timer.Stop()
	h.mu.Lock()
	if other := h.sessions[id]; other != nil { // begun meanwhile
		other.requests++
		other.timer.Stop()
		h.mu.Unlock()
		cancel()
		return other
	}
	oldest, full := h.oldest(c.Party)
	ok := (!full || oldest != nil) && h.drained.Err() == nil
	if ok {
		h.sessions[id] = s
	}
	h.mu.Unlock()
	if !ok {
		cancel()
		return nil
	}
	if full {
		h.end(oldest, false)
	}
	return s
}

// oldest returns whether there is no place for a session more of the party, and its session
// that is unused for the longest time; nil if all are used. The caller holds h.mu.
func (h *Handler) oldest(party string) (oldest *httpSession, full bool) {
	n := 0
	for _, s := range h.sessions {
		if s.party != party {
			continue
		}
		n++
		if s.requests == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	return oldest, n >= h.opts.MaxOfParty || len(h.sessions) >= h.opts.MaxSessions
}

// find returns a session, of which one request more is served then; nil if it does not exist,
// or is another client's.
func (h *Handler) find(id, key string) *httpSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[id]
	if s == nil || s.key != key {
		return nil
	}
	s.requests++
	s.timer.Stop()
	return s
}

// release notes the end of a request. A session that is not initialized after its first one ends, as does one that the
// request has closed. The library has both for a moment longer.
func (h *Handler) release(s *httpSession, closed bool) {
	var connected *sdk.ServerSession
	single := strings.HasPrefix(s.id, singles) // the library's sessions in it are those of other requests
	for c := range s.server.sdk.Sessions() {
		if !closed && !single && c.InitializeParams() != nil {
			connected = c
		}
	}
	h.mu.Lock()
	s.requests--
	s.session, s.used = connected, time.Now()
	known := h.sessions[s.id] == s
	if known && s.requests == 0 {
		s.timer.Reset(h.opts.Idle)
	}
	h.mu.Unlock()
	switch {
	case single:
	case connected == nil:
		h.end(s, true)
	case !known: // it has ended before it was connected, or it is closed already
		_ = connected.Close()
	}
}

// end ends a session, unless it is used and that matters: what runs in it is interrupted. The
// sandbox stays.
func (h *Handler) end(s *httpSession, used bool) {
	h.mu.Lock()
	if h.sessions[s.id] != s || s.requests > 0 && !used {
		h.mu.Unlock()
		return
	}
	delete(h.sessions, s.id)
	h.ending.Add(1)
	s.timer.Stop()
	connected := s.session
	h.mu.Unlock()
	s.cancel()
	go func() { // ends when the calls that run have ended
		defer h.ending.Done()
		if connected != nil {
			_ = connected.Close()
		}
		s.server.sandbox.wait()
	}()
}

// Drain begins no more sessions, and ends the requests that only wait for messages. Calls of
// tools go on.
func (h *Handler) Drain() { h.drain() }

// Close ends all sessions, and returns when what ran in them has been interrupted.
func (h *Handler) Close() {
	h.drain()
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.sessions))
	h.mu.Unlock()
	h.stop()
	for _, s := range all {
		h.end(s, true)
	}
	h.ending.Wait()
}

// A patient writer gives the client the limit anew to read each part of a reply.
type patient struct {
	http.ResponseWriter
	limit time.Duration
}

func (p *patient) extend() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.limit)) // always supported
}

// Write implements [http.ResponseWriter].
func (p *patient) Write(b []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
