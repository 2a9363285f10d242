package perm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wolffia/perm/plainyaml"
)

// A PolicyFile is a parsed policy file. Its text is YAML:
//
//	version: 1
//	extends: agent-safe         # a preset; optional
//	rules:
//	  - /docs/=read             # PATTERN=LEVEL
//	  - pattern: "*.key"        # or in full
//	    level: none
//	    type: file              # glob, directory or file; default glob
//	    except: public.key      # optional
//	    not_below: testdata     # optional
//	    fold: true              # letters of either case; optional
//	    copies: true            # copies of such files, too; optional
//	    at_most: false          # optional
//	    priority: 1000          # default 100
//	network:                    # optional; package policy reads the names
//	  allow-host: ["@npm", registry.example:443]
//	  add-host: [db.internal:127.0.0.1]
//	  no-sni-check: [db.internal]
type PolicyFile struct {
	Name    string         // for messages
	Extends string         // the preset to start from; "" means none
	Rules   []Rule         // in the order of the file; Source is NAME:LINE
	Network []NetworkEntry // in the order of the file
}

// A NetworkEntry is one text of a policy file's field network. This package does not look at it.
type NetworkEntry struct {
	Key    string // allow-host, add-host or no-sni-check
	Text   string
	Source string // NAME:LINE
}

// networkKeys are the values of NetworkEntry.Key.
var networkKeys = []string{"allow-host", "add-host", "no-sni-check"}

// ParsePolicy parses data, the content of a policy file of at most 1 MiB. name is for
// messages and for the Source of the rules. An error matches ErrInvalid and lists all
// problems, each with its line, up to a hundred.
func ParsePolicy(name string, data []byte) (*PolicyFile, error) {
	r := reader{name: name}
	body := r.parse(data)
	f := &PolicyFile{Name: name}
	if body != nil {
		r.file(f, body)
	}
	if r.errs != nil {
		return nil, &inputError{errors.Join(r.errs...)}
	}
	return f, nil
}

// A reader walks a policy file and collects its errors.
type reader struct {
	name string
	errs []error
}

func (r *reader) fail(line int, format string, args ...any) {
	if len(r.errs) < 100 {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: %w", r.name, line, fmt.Errorf(format, args...)))
	}
}

// parse returns the document in data, or nil.
func (r *reader) parse(data []byte) *plainyaml.Node {
	body, err := plainyaml.Parse(data)
	if at, ok := errors.AsType[*plainyaml.Error](err); ok {
		r.fail(at.Line, "%s", at.Text)
		return nil
	}
	if body.Kind != plainyaml.Map {
		r.fail(1, "want the fields version and rules")
		return nil
	}
	return body
}

// fields calls set for each field of n. A field must be among known and appear once.
func (r *reader) fields(n *plainyaml.Node, known []string, set func(key string, value *plainyaml.Node)) {
	var seen []string
	for _, v := range n.Fields {
		switch {
		case !slices.Contains(known, v.Key):
			r.fail(v.Line, "unknown field %q: want one of %s", v.Key, strings.Join(known, ", "))
		case slices.Contains(seen, v.Key):
			r.fail(v.Line, "field %q twice", v.Key)
		default:
			seen = append(seen, v.Key)
			set(v.Key, v.Value)
		}
	}
}

func (r *reader) file(f *PolicyFile, body *plainyaml.Node) {
	version := 0
	r.fields(body, []string{"version", "extends", "rules", "network"}, func(key string, value *plainyaml.Node) {
		switch key {
		case "version":
			version = r.integer(value)
		case "extends":
			f.Extends = r.text(value)
			if _, err := PresetByName(f.Extends); err != nil {
				r.fail(value.Line, "%w", err)
			}
		case "rules":
			if value.Kind != plainyaml.List {
				r.fail(value.Line, "rules: want a list")
				return
			}
			r.rules(f, value)
		case "network":
			r.network(f, value)
		}
	})
	if version != 1 {
		r.fail(body.Line, "want version: 1")
	}
}

func (r *reader) network(f *PolicyFile, n *plainyaml.Node) {
	if n.Kind != plainyaml.Map {
		r.fail(n.Line, "network: want the fields %s", strings.Join(networkKeys, ", "))
		return
	}
	r.fields(n, networkKeys, func(key string, value *plainyaml.Node) {
		if value.Kind != plainyaml.List {
			r.fail(value.Line, "%s: want a list", key)
		}
		for _, item := range value.Items {
			f.Network = append(f.Network, NetworkEntry{key, r.text(item), fmt.Sprintf("%s:%d", r.name, item.Line)})
		}
	})
}

func (r *reader) rules(f *PolicyFile, list *plainyaml.Node) {
	if len(list.Items) > maxRules {
		r.fail(list.Line, "%d rules: at most %d", len(list.Items), maxRules)
		return
	}
	first := map[Rule]int{} // the line of a rule, by what must differ
	for _, n := range list.Items {
		rule, ok := r.rule(n)
		if !ok {
			continue
		}
		key := rule
		key.Level, key.Ask = None, false
		if at := first[key]; at != 0 {
			r.fail(n.Line, "rule repeats the one of line %d: remove one of them", at)
			continue
		}
		first[key] = n.Line
		rule.Source = fmt.Sprintf("%s:%d", r.name, n.Line)
		f.Rules = append(f.Rules, rule)
	}
}

// rule returns one rule in either form; ok is false if it is malformed.
func (r *reader) rule(n *plainyaml.Node) (rule Rule, ok bool) {
	before := len(r.errs)
	if n.Kind != plainyaml.Map {
		s := r.text(n)
		if len(r.errs) > before {
			return Rule{}, false
		}
		rule, err := ParseRule(s)
		if err != nil {
			r.fail(n.Line, "%w", err)
			return Rule{}, false
		}
		rule.Priority = PriorityFile
		return rule, true
	}
	rule.Priority = PriorityFile
	hasLevel := false
	r.fields(n, []string{"pattern", "level", "type", "except", "not_below", "fold", "copies", "at_most", "priority"}, func(key string, value *plainyaml.Node) {
		var err error
		switch key {
		case "pattern":
			rule.Pattern = r.text(value)
		case "level":
			hasLevel = true
			err = rule.setLevel(r.text(value))
		case "type":
			err = rule.Type.UnmarshalText([]byte(cmp.Or(r.text(value), "?")))
		case "except":
			rule.Except = r.text(value)
		case "not_below":
			rule.NotBelow = r.text(value)
		case "fold":
			rule.Fold = r.boolean(value)
		case "copies":
			rule.Copies = r.boolean(value)
		case "at_most":
			rule.AtMost = r.boolean(value)
		case "priority":
			rule.Priority = r.integer(value)
		}
		if err != nil {
			r.fail(value.Line, "%w", err)
		}
	})
	if !hasLevel {
		r.fail(n.Line, "rule without a level")
	}
	if len(r.errs) == before {
		if err := rule.checkWritten(); err != nil {
			r.fail(n.Line, "rule %q: %w", rule.String(), err)
		}
	}
	return rule, len(r.errs) == before
}

func (r *reader) text(n *plainyaml.Node) string {
	if n.Kind != plainyaml.Text {
		r.fail(n.Line, "want text: put quotes around it")
	}
	return n.Text
}

func (r *reader) integer(n *plainyaml.Node) int {
	if n.Kind != plainyaml.Int {
		r.fail(n.Line, "want a whole number")
	}
	return n.Int
}

func (r *reader) boolean(n *plainyaml.Node) bool {
	if n.Kind != plainyaml.Bool {
		r.fail(n.Line, "want true or false")
	}
	return n.Text == "true"
}
