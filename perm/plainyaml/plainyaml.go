// Package plainyaml parses a plain subset of YAML: one document of mappings, lists and
// scalars.
//
// Anchors, aliases, tags and directives are errors: a configuration file does not need
// them, and a parser can take long over them. The tree has the line of each node, for
// messages.
package plainyaml

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile bounds the bytes of a file that Parse accepts.
const MaxFile = 1 << 20

const (
	maxLine = 8 << 10
	maxFlow = 4 // brackets in brackets
)

// A Kind is the kind of a Node. The zero Kind is Null.
type Kind uint8

// The kinds.
const (
	Null   Kind = iota // no value
	Text               // a string
	Int                // a whole number that fits into an int
	Number             // another number
	Bool               // true or false
	List
	Map
)

// A Node is a value in a file.
type Node struct {
	Line   int // from 1
	Kind   Kind
	Text   string  // of a scalar: the string, or the number or truth value as it is written
	Int    int     // of an Int
	Items  []*Node // of a List
	Fields []Field // of a Map, in the order of the file; a key may occur twice
}

// A Field is a key of a Map with its value.
type Field struct {
	Key   string
	Line  int
	Value *Node
}

// An Error is a problem of a file, with its line.
type Error struct {
	Line int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Parse returns the document in data; a file without content is a Null. An error is an
// *Error.
func Parse(data []byte) (*Node, error) {
	if err := bounded(data); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(string(data))
	if err := plain(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		at, text := 1, err.Error()
		if e, ok := errors.AsType[yaml.Error](err); ok {
			at, text = e.GetToken().Position.Line, e.GetMessage()
		}
		return nil, &Error{at, text}
	}
	switch len(file.Docs) {
	case 0:
		return &Node{Line: 1}, nil
	case 1:
		return node(file.Docs[0].Body)
	}
	return nil, &Error{1, fmt.Sprintf("%d documents, want one", len(file.Docs))}
}

func bounded(data []byte) error {
	switch {
	case len(data) > MaxFile:
		return &Error{1, fmt.Sprintf("larger than %d bytes", MaxFile)}
	case !utf8.Valid(data):
		return &Error{1, "not UTF-8 text"}
	}
	n := 0
	for text := range bytes.Lines(data) {
		if n++; len(text) > maxLine {
			return &Error{n, fmt.Sprintf("line longer than %d bytes", maxLine)}
		}
	}
	return nil
}

// plain refuses deep nesting, aliases, anchors, tags and the like.
func plain(tokens token.Tokens) error {
	depth := 0
	for _, t := range tokens {
		problem := ""
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			if depth++; depth > maxFlow {
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
			return &Error{t.Position.Line, problem}
		}
	}
	return nil
}

func line(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// node returns the tree below n, which may be nil.
func node(n ast.Node) (*Node, error) {
	out := &Node{Line: line(n)}
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
	case *ast.StringNode:
		out.Kind, out.Text = Text, n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, n.Value.Value
	case *ast.IntegerNode:
		out.Kind, out.Text = Number, n.GetToken().Value
		if v, err := strconv.Atoi(fmt.Sprint(n.Value)); err == nil {
			out.Kind, out.Int = Int, v
		}
	case *ast.FloatNode:
		out.Kind, out.Text = Number, n.GetToken().Value
	case *ast.BoolNode:
		out.Kind, out.Text = Bool, strconv.FormatBool(n.Value)
	case *ast.SequenceNode:
		out.Kind = List
		for _, v := range n.Values {
			item, err := node(v)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, item)
		}
	case *ast.MappingNode:
		out.Kind = Map
		for _, v := range n.Values {
			value, err := node(v.Value)
			if err != nil {
				return nil, err
			}
			key := v.Key.String()
			if s, ok := v.Key.(*ast.StringNode); ok {
				key = s.Value
			}
			out.Fields = append(out.Fields, Field{key, line(v), value})
		}
	default:
		return nil, &Error{out.Line, fmt.Sprintf("%s is not a plain value: put quotes around it", n.Type())}
	}
	return out, nil
}
