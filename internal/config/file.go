package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/fields"
	"wolffia/perm"
	"wolffia/perm/plainyaml"
)

// A Source is where a value comes from.
type Source struct {
	File    string // as shown to the user; "" for a built-in profile
	Line    int
	Profile string // the name of the profile that has the value, or ""
	Project bool   // the project's file has the value, or has selected the profile
}

// String returns FILE:LINE and the profile.
func (s Source) String() string {
	switch {
	case s.File == "":
		return "built-in profile " + s.Profile
	case s.Profile != "":
		return fmt.Sprintf("%s:%d, profile %s", s.File, s.Line, s.Profile)
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// A Setting is the value of a key at one place.
type Setting struct {
	Key    string
	Values []string // of a List all, else one
	Source Source
}

// A Profile is a named list of settings.
type Profile struct {
	Name        string
	Description string
	Settings    []Setting
	Source      Source // where it begins
}

// A File is a parsed configuration file.
type File struct {
	Settings []Setting
	Profile  *Setting // the profile to use, or nil
	Allow    []string // keys that a project's file may set freely
	Profiles []Profile
}

// A Place says what file is parsed.
type Place struct {
	Name    string // for messages
	Dir     string // what relative paths begin at
	Home    string // what ~ stands for; "" if that is unknown
	Project bool   // the file is a project's
}

// Parse parses the content of a configuration file. An error lists all problems, each
// with its line, up to a hundred.
func Parse(keys []fields.Field, at Place, data []byte) (*File, error) {
	p := &parser{Place: at, keys: keys}
	f := new(File)
	root, err := plainyaml.Parse(data)
	if bad, ok := errors.AsType[*plainyaml.Error](err); ok {
		p.fail(bad.Line, "%s", bad.Text)
	} else {
		p.file(f, root)
	}
	if p.errs != nil {
		return nil, errors.Join(p.errs...)
	}
	return f, nil
}

// A parser walks a file and collects its errors.
type parser struct {
	Place
	keys []fields.Field
	errs []error
}

func (p *parser) fail(line int, format string, args ...any) {
	if len(p.errs) < 100 {
		p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.Name, line, fmt.Errorf(format, args...)))
	}
}

func (p *parser) file(f *File, root *plainyaml.Node) {
	special := []string{keyProfile, keyProfiles}
	if !p.Project {
		special = append(special, keyAllow)
	}
	f.Settings = p.settings(root, "", special, func(field *plainyaml.Field) {
		n := field.Value
		switch field.Key {
		case keyProfile:
			f.Profile = &Setting{Key: keyProfile, Values: []string{p.text(field)}, Source: p.source(n.Line, "")}
		case keyAllow:
			f.Allow = p.allow(n)
		case keyProfiles:
			for _, v := range p.fields(n, keyProfiles) {
				f.Profiles = append(f.Profiles, p.profile(&v))
			}
		}
	})
}

func (p *parser) profile(field *plainyaml.Field) Profile {
	out := Profile{Name: field.Key, Source: p.source(field.Line, field.Key)}
	if !profileName(field.Key) {
		p.fail(field.Line, "profile %q: a name has up to 64 letters, digits, - _ and .", field.Key)
	}
	out.Settings = p.settings(field.Value, field.Key, []string{keyDescription}, func(f *plainyaml.Field) {
		out.Description = p.text(f)
	})
	return out
}

// profileName reports whether a profile can have a name. Messages show it as it is.
func profileName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// fields returns the fields of a mapping, each key once. Null is an empty one.
func (p *parser) fields(n *plainyaml.Node, what string) []plainyaml.Field {
	switch n.Kind {
	case plainyaml.Map:
	case plainyaml.Null:
		return nil
	default:
		p.fail(n.Line, "%s: want KEY: VALUE on each line", what)
		return nil
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(n.Fields), func(f plainyaml.Field) bool {
		twice := seen[f.Key]
		if seen[f.Key] = true; twice {
			p.fail(f.Line, "key %q twice", f.Key)
		}
		return twice
	})
}

// settings returns the settings of a mapping. It calls set for the keys in special.
func (p *parser) settings(n *plainyaml.Node, profile string, special []string, set func(*plainyaml.Field)) (all []Setting) {
	what := "the file"
	if profile != "" {
		what = "profile " + profile
	}
	for _, f := range p.fields(n, what) {
		if slices.Contains(special, f.Key) {
			set(&f)
			continue
		}
		k := key(p.keys, f.Key)
		switch {
		case k == nil:
			p.fail(f.Line, "unknown key %q%s", f.Key, p.suggest(f.Key, special))
		case p.Project && k.Bound.How == fields.Never:
			p.fail(f.Line, "%s cannot be in a project's file", k.Key)
		default:
			all = append(all, Setting{Key: k.Key, Values: p.values(k, f.Value), Source: p.source(f.Line, profile)})
		}
	}
	return all
}

// suggest returns the end of the message about an unknown key.
func (p *parser) suggest(name string, special []string) string {
	if p.Project && name == keyAllow {
		return ": it belongs into the user's own file"
	}
	names := slices.Clone(special)
	for _, k := range p.keys {
		if names = append(names, k.Key); k.Name == name {
			return ": the key of --" + name + " is " + k.Key
		}
	}
	return suggestion(name, names)
}

func (p *parser) source(line int, profile string) Source {
	return Source{File: p.Name, Line: line, Profile: profile, Project: p.Project}
}

func (p *parser) allow(n *plainyaml.Node) (all []string) {
	if n.Kind != plainyaml.List {
		p.fail(n.Line, "%s: want a list of keys", keyAllow)
	}
	for _, item := range n.Items {
		k := key(p.keys, item.Text)
		switch {
		case k == nil:
			p.fail(item.Line, "%s: unknown key %q%s", keyAllow, item.Text, p.suggest(item.Text, nil))
		case slices.Contains([]fields.How{fields.Free, fields.Never, fields.Ordered}, k.Bound.How):
			p.fail(item.Line, "%s: %s is not a key that has to be allowed", keyAllow, k.Key)
		default:
			all = append(all, k.Key)
		}
	}
	return all
}

func (p *parser) text(f *plainyaml.Field) string {
	if f.Value.Kind != plainyaml.Text {
		p.fail(f.Line, "%s: want text", f.Key)
	}
	return f.Value.Text
}

// values returns the checked value of a key, with paths made absolute.
func (p *parser) values(k *fields.Field, n *plainyaml.Node) (values []string) {
	add := func(n *plainyaml.Node, text string) {
		v, err := p.value(k, text)
		if err != nil {
			p.fail(n.Line, "%s: %w", k.Key, err)
		}
		values = append(values, v)
	}
	scalar := n.Kind == plainyaml.Text || n.Kind == plainyaml.Int || n.Kind == plainyaml.Number
	want := ""
	switch {
	case k.Kind == fields.List && n.Kind == plainyaml.List:
		for _, item := range n.Items {
			if item.Kind != plainyaml.Text {
				p.fail(item.Line, "%s: want a list of texts: put quotes around a number", k.Key)
				continue
			}
			add(item, item.Text)
		}
	case k.Kind == fields.List && n.Kind == plainyaml.Map && k.Pairs:
		for _, f := range p.fields(n, k.Key) {
			switch f.Value.Kind {
			case plainyaml.Null:
				add(f.Value, f.Key)
			case plainyaml.List, plainyaml.Map:
				p.fail(f.Line, "%s: %q: want text", k.Key, f.Key)
			default:
				add(f.Value, f.Key+"="+f.Value.Text)
			}
		}
	case k.Kind == fields.List:
		if want = "a list"; k.Pairs {
			want = "a list, or NAME: VALUE on each line"
		}
	case isText(k.Kind) && scalar,
		k.Kind == fields.Whole && n.Kind == plainyaml.Int,
		k.Kind == fields.Number && (n.Kind == plainyaml.Int || n.Kind == plainyaml.Number),
		k.Kind == fields.Truth && n.Kind == plainyaml.Bool:
		add(n, n.Text)
	default:
		want = cmp.Or(wanted[k.Kind], "text")
	}
	if want != "" {
		p.fail(n.Line, "%s: want %s", k.Key, want)
	}
	return values
}

// wanted says what a value of a kind is; text if it has no entry.
var wanted = map[fields.Kind]string{
	fields.Whole: "a whole number", fields.Number: "a number", fields.Truth: "true or false",
}

func isText(k fields.Kind) bool { return k == fields.Text || k == fields.Size || k == fields.Duration }

// value checks a text of a key's value, and makes a path in it absolute.
func (p *parser) value(k *fields.Field, text string) (string, error) {
	names := k.Order()
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "", errors.New("NUL byte")
	case names != nil && !slices.Contains(names, text):
		return "", fmt.Errorf("unknown value %q%s", text, suggestion(text, names))
	case k.Bound.How == fields.Most:
		_, err := amount(k, text)
		return text, err
	case k.Bound.How == fields.Ordered:
		_, err := perm.ParseRule(text)
		return text, err
	case k.Path == fields.WholePath:
		return p.path(text)
	case k.Path == fields.ValuePath:
		before, file, ok := strings.Cut(text, "=@")
		if !ok {
			return text, nil // the flag says what is wrong
		}
		file, err := p.path(file)
		return before + "=@" + file, err
	case k.Path == fields.MountPath:
		var parts []string
		for i, part := range strings.SplitN(text, ":", 3) {
			if i == 0 || strings.HasPrefix(part, "~") {
				var err error
				if part, err = p.path(part); err != nil {
					return "", err
				}
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ":"), nil
	}
	return text, nil
}

// path returns an absolute path: ~ is the home directory, and a relative path begins at
// the file's directory.
func (p *parser) path(s string) (string, error) {
	rest, tilde := strings.CutPrefix(s, "~")
	switch {
	case s == "":
		return "", errors.New("empty path")
	case tilde && rest != "" && rest[0] != '/':
		return "", fmt.Errorf("path %q: only ~/ is known; write the whole path", s)
	case tilde && p.Home == "":
		return "", fmt.Errorf("path %q: HOME is not set", s)
	case tilde:
		return filepath.Join(p.Home, rest), nil
	case filepath.IsAbs(s):
		return s, nil
	}
	return filepath.Join(p.Dir, s), nil
}
