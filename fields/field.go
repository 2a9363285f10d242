package fields

import (
	"slices"
	"strings"
)

// A Field is a row of [Table]. Zero values are the most restrictive ones: a project's file may
// not set the field, nor may a request, and sandboxes with different values do not share a pool.
type Field struct {
	Name   string // the long name of the flag; empty: the field has no flag
	Letter string // the flag's short name; empty: none
	// in configuration files and requests, after [Keys] and [Requested]; empty in Table: Name
	Key string
	// the JSON key in runtime.SandboxConfig, with a dot below resources; empty: it is not recorded
	Record  string
	Kind    Kind    // of value
	Default string  // as text; empty: the kind's zero value
	On      Command // commands that have the flag
	Hidden  Command // commands whose help leaves the flag out
	Once    bool    // of one call: configuration files cannot have it
	Group   Group   // in help
	Values  []Value // all values; with Ranked from the strictest on; nil: any
	Names   Names   // what completion offers if Values is nil
	// which part of a value is a path of the host, relative to the configuration file
	Path   Path
	Pairs  bool  // a List of K=V, which a file may write as a mapping
	Commas bool  // a List whose flag also splits its value at commas
	Bound  Bound // what a project's file may say
	Pool   Pool  // what the field means for a pooled sandbox
	// a create request may set it; the code that applies the value checks it, the table does not
	API  bool
	Help string
}

// A Kind is the kind of value that a field has. The zero Kind is Text.
type Kind uint8

// The kinds.
const (
	Text     Kind = iota
	Size          // bytes as text, such as 512m: see package config
	Duration      // time as text, such as 90s: see package config
	Whole         // an integer
	Number        // a floating-point number
	Truth         // true or false
	List          // of texts
)

// A Value is one of the values that a field can have.
type Value struct {
	Name string
	Doc  string // for completion; may be empty
}

// A Command is a set of commands that have a flag.
type Command uint16

// The commands.
const (
	Run Command = 1 << iota
	Learn
	Create
	Shell
	MCP
	Pooling // pool start
	Serve
	Explain  // policy explain
	SetRules // policy set
	AddRules // policy add
	Allow    // network allow
	Build
)

// sandbox are the commands that make a sandbox of the caller's directory.
const sandbox = Run | Learn | Create | Shell | MCP | Pooling

// A Pool says what a field means for a sandbox that was started ahead.
type Pool uint8

// The meanings.
const (
	Shape Pool = iota // only a sandbox that was started with the same value fits
	Claim             // the value is set when the sandbox is claimed
	Cold              // a sandbox with a value is never started ahead
)

// A Path says which part of a value is a path of the host.
type Path uint8

// The parts.
const (
	NoPath    Path = iota
	WholePath      // all of it
	MountPath      // SRC of SRC:DST, and DST if it begins with ~
	ValuePath      // FILE of NAME:HEADER=@FILE
)

// Names say what completion offers for a value.
type Names uint8

// The names.
const (
	ShellNames Names = iota // what the shell does by itself
	NoNames
	Presets
	Backends
	Images
	Caches
	Toolchains
	Volumes
	Homes
	HostLists
	Sandboxes
	Directories
	YAMLFiles
)

// Of returns the fields whose flags a command has, in the order of [Table].
func Of(c Command) (all []*Field) {
	for i := range Table {
		if Table[i].On&c != 0 {
			all = append(all, &Table[i])
		}
	}
	return all
}

// Flag returns the first field with a flag of this name, or nil: all of that name have the same
// group, kind and completion.
func Flag(name string) *Field {
	for i := range Table {
		if f := &Table[i]; f.Name == name && name != "" {
			return f
		}
	}
	return nil
}

// Find returns the field whose flag of this name a command has, or nil.
func Find(c Command, name string) *Field {
	for i := range Table {
		if f := &Table[i]; f.On&c != 0 && f.Name == name {
			return f
		}
	}
	return nil
}

// Keys returns the fields that configuration files can have, with their Key, sorted by name. They
// are the flags of run.
func Keys() []Field { return keys(Run, func(f *Field) bool { return !f.Once }) }

// ServiceKeys returns the fields that the file of wolffia serve --config can have, sorted, with
// their keys.
func ServiceKeys() []Field {
	return keys(Serve, func(f *Field) bool { return f.Hidden&Serve == 0 && f.Name != "config" })
}

func keys(of Command, has func(*Field) bool) (keys []Field) {
	for _, f := range Of(of) {
		if has(f) {
			keys = append(keys, f.keyed())
		}
	}
	slices.SortFunc(keys, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

// keyed returns a copy of f with its Key.
func (f *Field) keyed() Field {
	k := *f
	if k.Key == "" {
		k.Key = k.Name
	}
	return k
}

// Records returns the JSON keys of a sandbox's record that mean p for a pool.
func Records(p Pool) (keys []string) {
	for i := range Table {
		if f := &Table[i]; f.Record != "" && f.Pool == p && !slices.Contains(keys, f.Record) {
			keys = append(keys, f.Record)
		}
	}
	return keys
}

// Order returns the names of f.Values.
func (f *Field) Order() (names []string) {
	for _, v := range f.Values {
		names = append(names, v.Name)
	}
	return names
}
