package engineapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"wolffia/runtime"
)

// harmless are values of fields that nothing here has: they ask for what is so anyway.
var harmless = map[string]string{
	"RestartPolicy": `{"Name":"no"}`, "LogConfig": `{"Type":"json-file"}`, "MemorySwappiness": "-1",
	"IpcMode": `"private"`, "CgroupnsMode": `"private"`, "Isolation": `"default"`,
}

// named are objects whose keys ask for something, whatever they have; but for those here.
var named = map[string][]string{
	"Tmpfs": nil, "Sysctls": nil, "StorageOpt": nil, "Annotations": nil,
	"EndpointsConfig": {"default", "none", "bridge", "host"}, // HostConfig.NetworkMode says it
}

// decode decodes JSON into to. A field that to does not have must ask for nothing: what a client
// asks for is never dropped.
func decode(b []byte, to any) error {
	var all any
	err := json.Unmarshal(b, &all)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "the request's body: %w", err)
	}
	if name := lacking(reflect.TypeOf(to), "", all); name != "" {
		return runtime.Errorf(runtime.ErrUnsupported,
			"%s: wolffia does not have this option of docker's: leave it out", strings.TrimPrefix(name, "."))
	}
	return nil
}

// lacking returns the name of a field of v that asks for something, and that the type t does not
// have; empty: there is none. name is that of v.
func lacking(t reflect.Type, name string, v any) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch of := v.(type) {
	case []any:
		for _, one := range of {
			if found := lacking(t.Elem(), name, one); found != "" {
				return found
			}
		}
	case map[string]any:
		for k, one := range of {
			inner := t
			if t.Kind() == reflect.Map {
				inner = t.Elem()
			} else if f, has := t.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, k) }); has {
				inner = f.Type
			} else if asks(k, one) {
				return name + "." + k
			} else {
				continue
			}
			if found := lacking(inner, name+"."+k, one); found != "" {
				return found
			}
		}
	}
	return ""
}

// asks reports whether a field's value asks for something.
func asks(field string, v any) bool {
	some := false
	switch of := v.(type) {
	case nil:
	case []any:
		some = slices.ContainsFunc(of, func(one any) bool { return asks("", one) })
	case map[string]any:
		own := map[string]any{}
		without, is := named[field]
		for k, one := range of {
			if asks(k, one) || is && !slices.Contains(without, k) {
				own[k] = one
			}
		}
		v, some = own, len(own) > 0
	default:
		some = !reflect.ValueOf(v).IsZero()
	}
	text, err := json.Marshal(v)
	return some && (err != nil || string(text) != harmless[field])
}
