package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// Strict returns an error if other parsers may read data differently than encoding/json,
// which has decoded it into to without error: if an object, at any depth, has a name
// twice, where encoding/json takes the last value; or if a name differs from that of a
// field in letter case, which encoding/json ignores. The error names fields of to, and
// unknown names, but shows no values and no keys of maps.
func Strict(data []byte, to any) error {
	s := strict{data: data}
	return s.value(reflect.TypeOf(to))
}

// A strict reads valid JSON.
type strict struct {
	data []byte
	pos  int
}

// next returns the next byte that is not white space.
func (s *strict) next() byte {
	for strings.IndexByte(" \t\r\n", s.data[s.pos]) >= 0 {
		s.pos++
	}
	return s.data[s.pos]
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value reads a value that is decoded into a t; nil: the type is not known.
func (s *strict) value(t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	if t != nil && (t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler)) {
		t = nil
	}
	switch s.next() {
	case '{':
		return s.object(t)
	case '[':
		return s.array(t)
	case '"':
		s.text()
	default:
		s.pos += len(s.data[s.pos:]) - len(bytes.TrimLeft(s.data[s.pos:], "+-.0123456789aeflnrstuE"))
	}
	return nil
}

func (s *strict) object(t reflect.Type) error {
	var known map[string]reflect.Type // nil: any name is allowed
	var elem reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		known = fields(t)
	case t.Kind() == reflect.Map:
		elem = t.Elem()
	}
	seen := map[string]bool{}
	for s.pos++; s.next() != '}'; {
		if s.data[s.pos] == ',' {
			s.pos++
			s.next()
		}
		name := s.text()
		inner := elem
		if known != nil {
			var is bool
			if inner, is = known[name]; !is {
				return fmt.Errorf("unknown field %q", name)
			}
		}
		switch {
		case seen[name] && known != nil:
			return fmt.Errorf("field %q appears twice", name)
		case seen[name]:
			return fmt.Errorf("an object has the same name twice")
		}
		seen[name] = true
		s.next() // :
		s.pos++
		if err := s.value(inner); err != nil {
			return err
		}
	}
	s.pos++
	return nil
}

func (s *strict) array(t reflect.Type) error {
	var elem reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		elem = t.Elem()
	}
	for s.pos++; s.next() != ']'; {
		if s.data[s.pos] == ',' {
			s.pos++
		}
		if err := s.value(elem); err != nil {
			return err
		}
	}
	s.pos++
	return nil
}

// text reads a string and returns its value.
func (s *strict) text() string {
	start := s.pos
	for s.pos++; ; s.pos++ {
		s.pos += bytes.IndexByte(s.data[s.pos:], '"')
		slashes := 0
		for s.data[s.pos-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			break
		}
	}
	s.pos++
	raw := s.data[start:s.pos]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}

// fields returns the types of a struct's fields by their names in JSON, with those of
// embedded structs, and those that an embedded one decodes by itself: its MemberType has them.
func fields(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if d, is := reflect.Zero(f.Type).Interface().(interface{ MemberType() reflect.Type }); f.Anonymous && is {
			maps.Copy(all, fields(d.MemberType()))
			continue
		}
		switch {
		case tag == "-", f.Anonymous && name == "", !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		all[name] = f.Type
	}
	return all
}
