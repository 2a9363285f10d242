package perm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a policy file, in bytes.
const (
	maxFile = 1 << 20
	maxLine = 8 << 10
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
//	    at_most: false          # optional
//	    priority: 1000          # default 100
type PolicyFile struct {
	Name    string // for messages
	Extends string // the preset to start from; "" means none
	Rules   []Rule // in the order of the file; Source is NAME:LINE
}

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

func line(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// parse returns the one document in data, or nil.
func (r *reader) parse(data []byte) *ast.MappingNode {
	switch {
	case len(data) > maxFile:
		r.fail(1, "larger than %d bytes", maxFile)
		return nil
	case !utf8.Valid(data):
		r.fail(1, "not UTF-8 text")
		return nil
	}
	n := 0
	for text := range bytes.Lines(data) {
		if n++; len(text) > maxLine {
			r.fail(n, "line longer than %d bytes", maxLine)
			return nil
		}
	}
	tokens := lexer.Tokenize(string(data))
	if !r.plain(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		at, text := 1, err.Error()
		if e := yaml.Error(nil); errors.As(err, &e) {
			at, text = e.GetToken().Position.Line, e.GetMessage()
		}
		r.fail(at, "%s", text)
		return nil
	}
	if len(file.Docs) != 1 {
		r.fail(1, "%d documents, want one", len(file.Docs))
		return nil
	}
	body, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		r.fail(1, "want the fields version and rules")
		return nil
	}
	return body
}

// plain refuses deep nesting, aliases, anchors, tags and the like: a policy file needs
// none of them, and the parser can take long over them.
func (r *reader) plain(tokens token.Tokens) bool {
	depth := 0
	for _, t := range tokens {
		problem := ""
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			if depth++; depth > 3 {
				problem = "nested too deep"
			}
		case token.MappingEndType, token.SequenceEndType:
			if depth--; depth < 0 {
				problem = "closing bracket without an opening bracket"
			}
		case token.SequenceEntryType:
			if t.Prev != nil && t.Prev.Type == token.SequenceEntryType && t.Prev.Position.Line == t.Position.Line {
				problem = "a list in a list"
			}
		case token.AliasType, token.AnchorType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			problem = fmt.Sprintf("%q has a special meaning in YAML: put quotes around a pattern that starts with * & ! ? or %%", t.Value)
		}
		if problem != "" {
			r.fail(t.Position.Line, "%s", problem)
			return false
		}
	}
	return true
}

// fields calls set for each field of n. A field must be among known and appear once.
func (r *reader) fields(n *ast.MappingNode, known []string, set func(key string, value ast.Node)) {
	var seen []string
	for _, v := range n.Values {
		key := v.Key.String()
		switch {
		case !slices.Contains(known, key):
			r.fail(line(v), "unknown field %q: want one of %s", key, strings.Join(known, ", "))
		case slices.Contains(seen, key):
			r.fail(line(v), "field %q twice", key)
		default:
			seen = append(seen, key)
			set(key, v.Value)
		}
	}
}

func (r *reader) file(f *PolicyFile, body *ast.MappingNode) {
	version := 0
	r.fields(body, []string{"version", "extends", "rules"}, func(key string, value ast.Node) {
		switch key {
		case "version":
			version = r.integer(value)
		case "extends":
			f.Extends = r.text(value)
			if _, err := PresetByName(f.Extends); err != nil {
				r.fail(line(value), "%w", err)
			}
		case "rules":
			list, ok := value.(*ast.SequenceNode)
			if !ok {
				r.fail(line(value), "rules: want a list")
				return
			}
			r.rules(f, list)
		}
	})
	if version != 1 {
		r.fail(line(body), "want version: 1")
	}
}

func (r *reader) rules(f *PolicyFile, list *ast.SequenceNode) {
	if len(list.Values) > maxRules {
		r.fail(line(list), "%d rules: at most %d", len(list.Values), maxRules)
		return
	}
	first := map[Rule]int{} // the line of a rule, by what must differ
	for _, n := range list.Values {
		rule, ok := r.rule(n)
		if !ok {
			continue
		}
		key := rule
		key.Level = None
		if at := first[key]; at != 0 {
			r.fail(line(n), "rule repeats the one of line %d: remove one of them", at)
			continue
		}
		first[key] = line(n)
		rule.Source = fmt.Sprintf("%s:%d", r.name, line(n))
		f.Rules = append(f.Rules, rule)
	}
}

// rule returns one rule in either form; ok is false if it is malformed.
func (r *reader) rule(n ast.Node) (rule Rule, ok bool) {
	before := len(r.errs)
	fields, full := n.(*ast.MappingNode)
	if !full {
		s := r.text(n)
		if len(r.errs) > before {
			return Rule{}, false
		}
		rule, err := ParseRule(s)
		if err != nil {
			r.fail(line(n), "%w", err)
			return Rule{}, false
		}
		rule.Priority = PriorityFile
		return rule, true
	}
	rule.Priority = PriorityFile
	hasLevel := false
	r.fields(fields, []string{"pattern", "level", "type", "except", "not_below", "fold", "at_most", "priority"}, func(key string, value ast.Node) {
		var err error
		switch key {
		case "pattern":
			rule.Pattern = r.text(value)
		case "level":
			hasLevel = true
			err = rule.Level.UnmarshalText([]byte(r.text(value)))
		case "type":
			err = rule.Type.UnmarshalText([]byte(cmp.Or(r.text(value), "?")))
		case "except":
			rule.Except = r.text(value)
		case "not_below":
			rule.NotBelow = r.text(value)
		case "fold":
			rule.Fold = r.boolean(value)
		case "at_most":
			rule.AtMost = r.boolean(value)
		case "priority":
			rule.Priority = r.integer(value)
		}
		if err != nil {
			r.fail(line(value), "%w", err)
		}
	})
	if !hasLevel {
		r.fail(line(n), "rule without a level")
	}
	if len(r.errs) == before {
		if _, err := rule.alternatives(exceptions{}); err != nil {
			r.fail(line(n), "rule %q: %w", rule.String(), err)
		}
	}
	return rule, len(r.errs) == before
}

func (r *reader) text(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	}
	r.fail(line(n), "want text: put quotes around it")
	return ""
}

func (r *reader) integer(n ast.Node) int {
	if n, ok := n.(*ast.IntegerNode); ok {
		if v, err := strconv.Atoi(fmt.Sprint(n.Value)); err == nil {
			return v
		}
	}
	r.fail(line(n), "want a whole number")
	return 0
}

func (r *reader) boolean(n ast.Node) bool {
	if n, ok := n.(*ast.BoolNode); ok {
		return n.Value
	}
	r.fail(line(n), "want true or false")
	return false
}
