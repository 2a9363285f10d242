//go:build !small

package serving

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/asker"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/internal/sys/hostpath"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/service"
	page "wolffia/service/console"
	"wolffia/service/gate"
)

// The limits of requests of the page.
const (
	headerLimit = 10 * time.Second
	idleLimit   = 2 * time.Minute
	endLimit    = 2 * time.Second
)

// show serves the page until a signal ends it.
func (p *consolePage) show(cmd *cobra.Command) error {
	ctx := cmd.Context()
	rt, err := p.Open("")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(p.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := service.New(rt, &service.Options{
		Every: true, AllowApply: true, Log: log, Record: recorder(rt.StateDir(), "console", log),
		MayReach: func(*service.Params) error { return nil },
		Config: func(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
			d, err := rt.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			return &d.Config, nil
		},
	})
	l, loopback, err := gate.Listen(ctx, p.listen, false)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	token := newToken()
	h := newPage(p.Host, rt, s, "local", log)
	server := &http.Server{
		Handler: admitted(h, gate.New(gate.OneKey(token, service.Caller{All: true}), loopback)), ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends with Shutdown or Close
	address := fmt.Sprintf("http://%s%s#token=%s", l.Addr(), page.Root, token)
	fmt.Fprintln(p.Out, address)
	p.Note("Ctrl-C ends the page; sandboxes go on")
	if !p.noOpen {
		browse(ctx, address)
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
		h.Drain()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		if server.Shutdown(within) != nil {
			_ = server.Close()
		}
		<-ended
	}
	h.Close()
	return errors.Join(err, s.Close())
}

// newToken returns 256 random bits as text.
func newToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it does not fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// admitted serves the requests for h that a gate admits.
func admitted(h *page.Handler, g *gate.Gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, page.Root, http.StatusFound)
			return
		}
		caller, err := service.Caller{}, g.Checked(r)
		if err == nil && h.Keyed(r) {
			caller, err = g.Admit(r)
		}
		if err != nil {
			h.Refuse(w, r, err)
			return
		}
		h.ServeHTTP(w, r.WithContext(service.WithCaller(r.Context(), caller)))
	})
}

// browse opens an address in the user's browser, if there is a screen and a program that knows it.
func browse(ctx context.Context, address string) {
	if cmp.Or(os.Getenv("DISPLAY"), os.Getenv("WAYLAND_DISPLAY")) == "" {
		return
	}
	program, err := hostpath.Look("xdg-open")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, address)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // ends with the program
	}
}

// newPage returns the page over a service of a runtime.
func newPage(h *host.Host, rt *local.Runtime, s *service.Service, mode string, log *slog.Logger) *page.Handler {
	o := &page.Options{
		Service: s, Version: h.Version, Mode: mode, Log: log,
		Rules: &ruleEditor{rt, h.StateDir}, Commits: &commitTaker{review.New(h, rt), rt},
	}
	o.Asker, o.Evidence = rt, &evidence{rt.StateDir()}
	if mode != "local" { // a service writes no configuration file
		return page.New(o)
	}
	o.Answer = func(ctx context.Context, id string, q *runtime.Question, a *runtime.Answer) (string, error) {
		return asker.Answer(ctx, h, rt, id, q, a)
	}
	return page.New(o)
}

// A ruleEditor changes the rules that flags have given to sandboxes.
type ruleEditor struct {
	rt       *local.Runtime
	stateDir string
}

// Chosen implements [page.Rules].
func (e *ruleEditor) Chosen(ctx context.Context, id string) (rules, reveals []perm.Rule, preset string, err error) {
	d, err := e.rt.Inspect(ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	c, err := policy.ChoiceOf(d.Config.Permissions)
	if err != nil {
		return nil, nil, "", err
	}
	for _, r := range c.Rules {
		switch r.Priority {
		case perm.PriorityRule:
			rules = append(rules, r)
		case perm.PriorityReveal:
			reveals = append(reveals, r)
		}
	}
	return rules, reveals, c.Preset, nil
}

// make returns the rules that a sandbox has, and those that it would have with others by flags.
func (e *ruleEditor) make(ctx context.Context, id string, rules, reveals []perm.Rule) (was, made []perm.Rule, err error) {
	d, err := e.rt.Inspect(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if d.CodebasePath == "" {
		return nil, nil, runtime.Errorf(runtime.ErrInvalid, "sandbox %s has no codebase: rules have nothing to filter", id)
	}
	o := &policy.Options{Rules: rules, Reveals: reveals, StateDir: e.stateDir}
	if o.Choice, err = policy.ChoiceOf(d.Config.Permissions); err != nil {
		return nil, nil, err
	}
	var rest []perm.Rule
	for _, r := range o.Choice.Rules {
		if r.Priority != perm.PriorityRule && r.Priority != perm.PriorityReveal {
			rest = append(rest, r)
		}
	}
	o.Choice.Rules = rest
	p, err := policy.For(ctx, d.CodebasePath, o)
	if err != nil {
		return nil, nil, err
	}
	return d.Config.Permissions, p.Rules, nil
}

// Make implements [page.Rules].
func (e *ruleEditor) Make(ctx context.Context, id string, rules, reveals []perm.Rule) ([]perm.Rule, error) {
	_, made, err := e.make(ctx, id, rules, reveals)
	return made, err
}

// Replace implements [page.Rules].
func (e *ruleEditor) Replace(ctx context.Context, id string, rules, reveals []perm.Rule) error {
	was, made, err := e.make(ctx, id, rules, reveals)
	if err != nil {
		return err
	}
	return e.rt.ReplacePermissions(ctx, id, was, made)
}

// A commitTaker takes commits out of sandboxes.
type commitTaker struct {
	reviewer *review.Reviewer
	rt       *local.Runtime
}

// Ahead implements [page.Commits].
func (t *commitTaker) Ahead(ctx context.Context, id string) ([]page.Repository, error) {
	s, err := t.rt.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	changes, err := t.rt.Changes(ctx, id, runtime.ChangesOptions{})
	if err != nil {
		return nil, err
	}
	all, err := t.reviewer.Repositories(ctx, s, changes)
	var list []page.Repository
	for _, r := range all {
		list = append(list, page.Repository{Dir: r.Dir, Ahead: r.Commits, Hosted: r.Hosted})
	}
	return list, err
}

// Export implements [page.Commits].
func (t *commitTaker) Export(ctx context.Context, id, dir, branch string, dry bool) ([]page.Branch, error) {
	made, err := t.rt.ExportGit(ctx, id, dir, branch, dry)
	var list []page.Branch
	for _, b := range made {
		list = append(list, page.Branch{Name: b.Name, At: b.At})
	}
	return list, err
}
