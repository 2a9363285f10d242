package e2b

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"wolffia/internal/image/buildcontext"
	"wolffia/internal/sys/rmtree"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/e2b/steps"
	"wolffia/service/gate"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

// Builds are how requests build templates. All of it is safe for concurrent use.
type Builds struct {
	// Allowed reports whether requests may build now.
	Allowed func() bool
	// Build makes the image of a template, and writes its progress to w.
	Build func(ctx context.Context, q *BuildRequest, w io.Writer) error
	// Command returns the command of an image of this host, by its name.
	Command func(name string) ([]string, error)
	// Names returns what follows a text in the names of images of this host that begin with it.
	Names func(begin string) ([]string, error)
	// Remove removes an image of this host by its name.
	Remove func(ctx context.Context, name string) error
	// Temp is a directory for the contexts of builds, which no other process uses. New empties it.
	Temp string
}

// A BuildRequest is what the image of a template is made of.
type BuildRequest struct {
	Dir     string   // the context
	File    string   // the Dockerfile, below Dir
	Names   []string // of the image
	NoCache bool
}

// The bounds of builds.
const (
	maxBuilds = 4             // of an owner that have not ended
	maxOpen   = 64            // of all owners that have not ended
	maxAtOnce = 4             // that run, each of another owner
	maxKept   = 100           // that have ended, of all owners
	maxUpload = 2 << 30       // bytes of one COPY
	maxCopies = 32            // of a build
	maxLog    = 10_000        // lines of a build
	maxText   = 4 << 20       // bytes of them
	buildTime = 2 * time.Hour // from its first request on
	logPage   = 100           // lines of a reply, of E2B
)

// The states of builds, of E2B.
const (
	waiting  = "waiting"
	building = "building"
	ready    = "ready"
	failed   = "error"
)

// A templateBuild is a template that is being built, or was.
type templateBuild struct {
	id, template, tag string
	owner             registry.Owner
	key               string // of the API, whose quota its uploads count for
	began             time.Time
	dir               string // its context; the Dockerfile is beside what was uploaded
	budget            *buildcontext.Budget

	mu     sync.Mutex
	status string     // guarded by mu
	copies int        // uploads that have begun; guarded by mu
	coming int        // of them, those that have not ended; guarded by mu
	log    []logEntry // guarded by mu
	text   int        // bytes of log; guarded by mu
	reason string     // guarded by mu
}

// A logEntry is a line of a build's log.
type logEntry struct {
	Time    time.Time `json:"timestamp"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
}

// Write implements [io.Writer] for the progress of a build.
func (b *templateBuild) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(text) {
		message := strings.TrimRight(string(line), "\r\n")
		if message == "" || len(b.log) == maxLog || b.text+len(message) > maxText {
			continue
		}
		b.text += len(message)
		b.log = append(b.log, logEntry{time.Now().UTC(), "info", message})
	}
	return len(text), nil
}

func (b *templateBuild) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// copy begins an upload. The caller calls copied.
func (b *templateBuild) copy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status != waiting {
		return fault.New(http.StatusConflict, "build "+b.id+": it has begun")
	}
	if b.copies++; b.copies > maxCopies {
		return fault.Invalid("COPY: a build has at most %d", maxCopies)
	}
	b.coming++
	return nil
}

// copied ends an upload.
func (b *templateBuild) copied() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming--
}

// begin begins the build itself, once, with all that is uploaded.
func (b *templateBuild) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.status != waiting:
		return fault.New(http.StatusConflict, "build "+b.id+": it has begun")
	case b.coming > 0:
		return fault.New(http.StatusConflict, "build "+b.id+": files are being uploaded: wait for the replies")
	}
	b.status = building
	return nil
}

// end ends the build; nil: its image exists.
func (b *templateBuild) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status = ready; err != nil {
		b.status, b.reason = failed, err.Error()
	}
}

func isOver(status string) bool { return status == ready || status == failed }

// A builder has the builds of a handler.
type builder struct {
	*Builds
	ctx    context.Context // until close
	cancel context.CancelFunc
	slots  chan struct{} // has a value for each build that runs
	run    sync.WaitGroup

	mu    sync.Mutex
	all   []*templateBuild                   // oldest first; guarded by mu
	turns map[registry.Owner]<-chan struct{} // closed when the last build of an owner has ended; guarded by mu
}

func newBuilder(b *Builds) *builder {
	if b == nil {
		b = &Builds{Allowed: func() bool { return false }}
	}
	n := &builder{Builds: b, slots: make(chan struct{}, maxAtOnce), turns: map[registry.Owner]<-chan struct{}{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if b.Temp != "" { // a killed service has left its own
		_ = rmtree.RemovePath(filepath.Dir(b.Temp), filepath.Base(b.Temp))
	}
	return n
}

func (n *builder) close() {
	n.cancel()
	n.run.Wait()
}

// tidy forgets builds that take too long, and the oldest that have ended. The caller has mu.
func (n *builder) tidy() {
	ended, left := 0, n.all[:0]
	for _, b := range n.all {
		switch is := b.state(); {
		case is == waiting && time.Since(b.began) > buildTime:
			b.end(context.DeadlineExceeded) // an upload that goes on drops it again
			n.drop(b)
			continue
		case isOver(is):
			ended++
		}
		left = append(left, b)
	}
	n.all = slices.DeleteFunc(left, func(b *templateBuild) bool {
		old := ended > maxKept && isOver(b.state())
		if old {
			ended--
		}
		return old
	})
}

// drop removes what was uploaded for a build.
func (n *builder) drop(b *templateBuild) { _ = rmtree.RemovePath(n.Temp, filepath.Base(b.dir)) }

// add adds a build, within the bounds. existing are the templates, NAME:TAG, that its owner has, and
// most is how many these may be.
func (n *builder) add(b *templateBuild, existing []string, most int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tidy()
	names := map[string]bool{}
	for _, name := range existing {
		names[name] = true
	}
	open, all := 0, 0
	for _, other := range n.all {
		if isOver(other.state()) {
			continue
		}
		all++
		if other.owner == b.owner {
			open++
			names[other.name()] = true
		}
	}
	if open >= maxBuilds || all >= maxOpen {
		why := "builds: " + strconv.Itoa(open) + " of yours have not ended, and " + strconv.Itoa(all) + " of all: wait for one"
		return fault.New(http.StatusTooManyRequests, why)
	}
	if !names[b.name()] {
		if err := quota.Full(quota.Party{Owner: b.owner}, "templates", len(names), most); err != nil {
			return err
		}
	}
	n.all = append(n.all, b)
	return nil
}

// name returns NAME:TAG of the template.
func (b *templateBuild) name() string { return b.template + ":" + b.tag }

// turn returns what is closed when the build of the owner before this one has ended, and the function
// that ends this one.
func (n *builder) turn(o registry.Owner) (before <-chan struct{}, end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	mine := make(chan struct{})
	if before = n.turns[o]; before == nil {
		over := make(chan struct{})
		close(over)
		before = over
	}
	n.turns[o] = mine
	return before, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if close(mine); n.turns[o] == mine {
			delete(n.turns, o)
		}
	}
}

// find returns a build that fits.
func (n *builder) find(fits func(*templateBuild) bool) (*templateBuild, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := len(n.all) - 1; i >= 0; i-- {
		if fits(n.all[i]) {
			return n.all[i], nil
		}
	}
	return nil, fault.New(http.StatusNotFound, "no such build: the service forgets them when it ends")
}

// newTemplate serves POST /v3/templates, which begins a build.
func (h *Handler) newTemplate(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := errors.Join(h.mayBuild(), h.decode(w, r, &req)); err != nil {
		return err
	}
	name, tag, tagged := strings.Cut(req.Name, ":")
	switch {
	case !isTemplateName(name) || tagged && !isTemplateName(tag):
		const why = "name %.100q: it must be NAME[:TAG] of lower-case letters, digits, - and _, at most %d"
		return fault.Invalid(why, req.Name, maxTemplateName)
	case ownSystem[name]:
		return fault.Invalid("name %q: it is the service's own template", name)
	case len(req.Tags) > 0:
		return fault.Unsupported("tags: write the one tag of a template into its name: NAME:TAG")
	}
	if err := os.MkdirAll(h.builds.Temp, 0o700); err != nil {
		return err
	}
	b := &templateBuild{
		id: runtime.NewID(), template: name, tag: orDefault(tag), owner: owner(service.CallerOf(r.Context())),
		key: service.CallerOf(r.Context()).Key, began: time.Now(), status: waiting, budget: buildcontext.NewBudget(),
	}
	b.dir = filepath.Join(h.builds.Temp, b.id)
	existing, err := h.builds.names(h.templateImage(b.owner, ""))
	if err != nil {
		return err
	}
	if err := h.builds.add(b, existing, cmp.Or(service.QuotaOf(h.service, b.owner).Templates, maxTemplates)); err != nil {
		return err
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	h.reply(w, http.StatusAccepted, map[string]any{
		"templateID": b.template, "buildID": b.id, "public": false,
		"names": []string{req.Name}, "tags": []string{b.tag}, "aliases": []string{name},
	})
	return nil
}

// mayBuild returns an error unless requests may build.
func (h *Handler) mayBuild() error {
	if !h.builds.Allowed() {
		return fault.Unsupported(noBuilds)
	}
	return nil
}

// waitingBuild returns the last build of a template of the caller that waits for files.
func (h *Handler) waitingBuild(r *http.Request) (*templateBuild, error) {
	if err := h.mayBuild(); err != nil {
		return nil, err
	}
	of := owner(service.CallerOf(r.Context()))
	return h.builds.find(func(b *templateBuild) bool {
		return b.owner == of && b.template == r.PathValue("id") && b.state() == waiting
	})
}

// uploadToken is the purpose of the tokens of uploads, by build and digest.
const uploadToken = "e2b upload"

// uploadLink serves GET /templates/{id}/files/{hash}: where to send the files of a COPY.
func (h *Handler) uploadLink(w http.ResponseWriter, r *http.Request) error {
	b, err := h.waitingBuild(r)
	if err != nil {
		return err
	}
	hash := r.PathValue("hash")
	if !steps.IsDigest(hash) {
		return fault.Invalid("files hash %.100q: it must be hexadecimal", hash)
	}
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	at := b.id + "/" + hash
	h.reply(w, http.StatusCreated, map[string]any{
		"present": false,
		"url":     scheme + "://" + r.Host + uploads + at + "?token=" + h.service.Token(uploadToken, at),
	})
	return nil
}

// uploads begins the paths of uploads, which need no key.
const uploads = "/templatefiles/"

// upload serves PUT /templatefiles/BUILD/HASH: an archive of the files of a COPY.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request) error {
	at := strings.TrimPrefix(r.URL.Path, uploads)
	q, err := gate.Query(r)
	if err != nil {
		return err
	}
	id, hash, _ := strings.Cut(at, "/")
	if r.Method != http.MethodPut || !steps.IsDigest(hash) || !h.service.IsToken(q.Get("token"), uploadToken, at) {
		return fault.New(http.StatusUnauthorized, "token: the request needs the URL of GET /templates/{id}/files/{hash}")
	}
	if err := h.mayBuild(); err != nil {
		return err
	}
	b, err := h.builds.find(func(b *templateBuild) bool { return b.id == id })
	if err != nil {
		return err
	}
	if err := h.service.AdmitRequest(service.Caller{Key: b.key}); err != nil {
		return err
	}
	if err := b.copy(); err != nil {
		return err
	}
	defer b.copied()
	dir := filepath.Join(b.dir, hash)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fault.New(http.StatusConflict, "files "+hash+": the build has them")
	}
	body := &stream.Body{ReadCloser: r.Body, Control: http.NewResponseController(w), Limit: h.opts.BodyLimit}
	if err := buildcontext.Unpack(dir, http.MaxBytesReader(w, body, maxUpload), b.budget); err != nil {
		return errors.Join(err, rmtree.RemovePath(b.dir, hash))
	}
	if isOver(b.state()) {
		h.builds.drop(b)
	}
	h.reply(w, http.StatusOK, nil)
	return nil
}

// startBuild serves POST /v2/templates/{id}/builds/{build}.
func (h *Handler) startBuild(w http.ResponseWriter, r *http.Request) error {
	var req steps.Request
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	b, err := h.waitingBuild(r)
	if err == nil && b.id != r.PathValue("build") {
		err = fault.New(http.StatusNotFound, "build "+r.PathValue("build")+": not found")
	}
	if err != nil {
		return err
	}
	if req.FromTemplate != "" {
		if req.FromImage, err = h.imageOf(b.owner, req.FromTemplate); err == nil && req.FromImage == "" {
			const why = "fromTemplate %q: it is the system of the service's host, and no image: name one by fromImage"
			err = fault.Unsupported(why, req.FromTemplate)
		}
		if err != nil {
			return err
		}
	}
	text, err := req.Dockerfile(func(hash string) bool {
		st, err := os.Stat(filepath.Join(b.dir, hash))
		return err == nil && st.IsDir()
	})
	if err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	names := []string{h.templateImage(b.owner, b.name())}
	before, end := h.builds.turn(b.owner)
	h.builds.run.Go(func() { // ends with the build, or close
		defer end()
		file := filepath.Join(b.dir, "Dockerfile")
		err := os.WriteFile(file, []byte(text), 0o600)
		if err == nil {
			err = h.builds.build(b, before, &BuildRequest{Dir: b.dir, File: file, NoCache: req.Force, Names: names})
		}
		h.builds.drop(b)
		b.end(err)
	})
	h.reply(w, http.StatusAccepted, nil)
	return nil
}

// build builds, after the one of its owner before it.
func (n *builder) build(b *templateBuild, before <-chan struct{}, q *BuildRequest) error {
	ctx, cancel := context.WithTimeout(n.ctx, buildTime)
	defer cancel()
	select {
	case <-before:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return n.Build(ctx, q, b)
}

// buildStatus serves GET /templates/{id}/builds/{build}/status.
func (h *Handler) buildStatus(w http.ResponseWriter, r *http.Request) error {
	q, err := gate.Query(r)
	if err != nil {
		return err
	}
	from, err := numberOf(q, "logsOffset", 0)
	if err != nil {
		return err
	}
	of := owner(service.CallerOf(r.Context()))
	b, err := h.builds.find(func(b *templateBuild) bool {
		return b.owner == of && b.template == r.PathValue("id") && b.id == r.PathValue("build")
	})
	if err != nil {
		return err
	}
	h.reply(w, http.StatusOK, b.describe(int(from)))
	return nil
}

// describe returns the build on the wire, with its log from a line on. Nothing waits for a client
// that does not read it.
func (b *templateBuild) describe(from int) map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := min(from, len(b.log))
	reply := map[string]any{
		"templateID": b.template, "buildID": b.id, "status": b.status, "logs": []string{},
		"logEntries": append([]logEntry{}, b.log[at:min(at+logPage, len(b.log))]...),
	}
	if b.status == failed {
		reply["reason"] = map[string]string{"message": b.reason}
	}
	return reply
}

// templateImage returns the name of the image of an owner's template, without its tag. No other
// owner can guess it, by whatever interface.
func (h *Handler) templateImage(o registry.Owner, template string) string {
	text, _ := json.Marshal(o) // never fails: it has texts
	sum := sha256.Sum256([]byte(h.service.Token("e2b templates", string(text))))
	return "e2b-" + hex.EncodeToString(sum[:16]) + "/" + template
}

func orDefault(tag string) string {
	if tag == "" {
		return "default"
	}
	return tag
}

// maxTemplateName is the largest name of a template, and of a tag, in bytes.
const maxTemplateName = 64

// isTemplateName reports whether a text can be a part of an image's name, and a tag.
func isTemplateName(s string) bool {
	alone := func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'z') }
	other := func(c rune) bool { return alone(c) && c != '-' && c != '_' && c != '.' }
	return s != "" && len(s) <= maxTemplateName && !strings.ContainsFunc(s, other) &&
		!strings.ContainsFunc(s[:1]+s[len(s)-1:], alone)
}
