package console

import (
	"context"
	"slices"
	"strings"

	"wolffia/network"
	"wolffia/ops"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/service"
)

// Rules are how rules of sandboxes are changed. It is safe for concurrent use.
type Rules interface {
	// Chosen returns the rules that were given for a sandbox by flags, and the preset of the others.
	Chosen(ctx context.Context, sandboxID string) (rules, reveals []perm.Rule, preset string, err error)
	// Make returns all rules that a sandbox would have with others by flags.
	Make(ctx context.Context, sandboxID string, rules, reveals []perm.Rule) ([]perm.Rule, error)
	// Replace gives a sandbox these rules by flags. When it returns they are in force.
	Replace(ctx context.Context, sandboxID string, rules, reveals []perm.Rule) error
}

// A shownRules is what the page shows of rules.
type shownRules struct {
	*service.Rules
	Text   string `json:"text"` // of the editor
	Preset string `json:"preset"`
}

func (h *Handler) rules(c *call) (any, error) {
	r, err := h.watch.Rules(c.Context(), c.caller, c.id, c.URL.Query().Get("path"))
	if err != nil {
		return nil, err
	}
	s := shownRules{Rules: r}
	if h.opts.Rules == nil || !c.caller.All {
		return s, nil
	}
	rules, reveals, preset, err := h.opts.Rules.Chosen(c.Context(), c.id)
	if err != nil {
		return s, nil //nolint:nilerr // a program has made the rules: they are only shown
	}
	s.Text, s.Preset = textOf(rules, reveals), preset
	return s, nil
}

// revealWord begins the line of a rule that outranks the preset's secrets.
const revealWord = "reveal "

// textOf returns the text of the editor: a rule in each line.
func textOf(rules, reveals []perm.Rule) string {
	var b strings.Builder
	for _, r := range rules {
		b.WriteString(r.String() + "\n")
	}
	for _, r := range reveals {
		b.WriteString(revealWord + r.String() + "\n")
	}
	return b.String()
}

// A problem is what is wrong with a line of the editor, from 1 on; 0: with all together.
type problem struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// rulesOf reads the text of the editor.
func rulesOf(text string) (rules, reveals []perm.Rule, problems []problem) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		own, reveal := strings.CutPrefix(line, revealWord)
		r, err := perm.ParseRule(strings.TrimSpace(own))
		switch {
		case err != nil:
			problems = append(problems, problem{n, err.Error()})
		case reveal:
			reveals = append(reveals, r)
		default:
			rules = append(rules, r)
		}
	}
	return rules, reveals, problems
}

type rulesRequest struct {
	Text  string   `json:"text"`
	Paths []string `json:"paths"` // to explain
}

// maxExplained is how many paths a check explains.
const maxExplained = 200

// An explained says what rules give for a path now, and what others would.
type explained struct {
	Path string        `json:"path"`
	Now  string        `json:"now"`
	Then string        `json:"then"`
	Rule *service.Rule `json:"rule,omitempty"` // that would decide
}

// editor returns what changes rules, for a caller who may.
func (h *Handler) editor(c *call) (Rules, error) {
	if err := c.all("rules"); err != nil {
		return nil, err
	}
	if h.opts.Rules == nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this console changes no rules: wolffia policy does")
	}
	_, err := h.opts.Service.Get(c.Context(), c.caller, c.id)
	return h.opts.Rules, err
}

func checkRules(h *Handler, c *call, q *rulesRequest) (any, error) {
	editor, err := h.editor(c)
	if err != nil {
		return nil, err
	}
	rules, reveals, problems := rulesOf(q.Text)
	reply := map[string]any{"ok": false, "problems": problems, "paths": []explained{}, "rules": 0}
	if len(problems) > 0 {
		return reply, nil
	}
	made, err := editor.Make(c.Context(), c.id, rules, reveals)
	var then *perm.Policy
	if err == nil {
		then, err = perm.Compile(made)
	}
	if err != nil {
		reply["problems"] = []problem{{0, err.Error()}}
		return reply, nil
	}
	config, err := h.opts.Service.Config(c.Context(), c.id)
	if err != nil {
		return nil, err
	}
	now, err := perm.Compile(config.Permissions)
	if err != nil {
		return nil, err
	}
	var list []explained
	for _, p := range q.Paths[:min(len(q.Paths), maxExplained)] {
		kind := perm.Glob
		if strings.HasSuffix(p, "/") {
			kind = perm.Directory
		}
		before, after := ops.Explain(now, p, kind), ops.Explain(then, p, kind)
		e := explained{Path: p, Now: before.Level.String(), Then: after.Level.String()}
		if after.Rule != nil {
			e.Rule = &service.Rule{Rule: after.Rule.String(), Source: perm.SourceName(after.Rule.Source), Reason: after.Rule.Reason()}
		}
		list = append(list, e)
	}
	reply["ok"], reply["problems"], reply["rules"] = true, []problem{}, len(made)
	reply["paths"] = append([]explained{}, list...)
	return reply, nil
}

func setRules(h *Handler, c *call, q *rulesRequest) (any, error) {
	editor, err := h.editor(c)
	if err != nil {
		return nil, err
	}
	rules, reveals, problems := rulesOf(q.Text)
	if len(problems) > 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "line %d: %s", problems[0].Line, problems[0].Message)
	}
	if err := editor.Replace(c.Context(), c.id, rules, reveals); err != nil {
		return nil, err
	}
	return map[string]int{"rules": len(rules) + len(reveals)}, nil
}

type networkRequest struct {
	Allow []string `json:"allow"`
}

// setNetwork replaces the names that a filtered network reaches. The addresses and headers that the
// sandbox's creator has chosen stay.
func setNetwork(h *Handler, c *call, q *networkRequest) (any, error) {
	p, err := h.opts.Service.ChangeEgress(c.Context(), c.caller, c.id, func(p *network.Policy) error {
		p.Allow = slices.Clone(q.Allow)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"allow": append([]string{}, p.Allow...)}, nil
}
