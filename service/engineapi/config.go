package engineapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"wolffia/runtime"
)

// harmless are values of fields that nothing here has: they ask for what is so anyway.
var harmless = map[string][]string{
	"RestartPolicy": {
		`{"Name":"no","MaximumRetryCount":0}`, `{"Name":"no"}`,
		`{"MaximumRetryCount":0,"Name":"no"}`,
	},
	"MemorySwappiness": {"-1"},
	"LogConfig": {
		`{"Type":"json-file","Config":{}}`, `{"Type":"json-file"}`,
		`{"Config":{},"Type":"json-file"}`,
	},
	"IpcMode":      {`"private"`},
	"CgroupnsMode": {`"private"`},
	"Isolation":    {`"default"`},
}

// decode decodes JSON into to. A field that to does not have must be empty, or harmless: what a
// client asks for is never dropped.
func decode(b []byte, to any) error {
	var all map[string]json.RawMessage
	err := json.Unmarshal(b, &all)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "the request's body: %w", err)
	}
	return leftover("", all, reflect.TypeOf(to).Elem())
}

// leftover returns an error for the first field that a type does not have, also in lists and maps.
func leftover(place string, all map[string]json.RawMessage, t reflect.Type) error {
	known := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		known[strings.ToLower(name)] = f.Type
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if of, has := known[strings.ToLower(k)]; has {
			if err := leftoverIn(place+k, all[k], of); err != nil {
				return err
			}
			continue
		}
		var v any
		if err := json.Unmarshal(all[k], &v); err != nil || !isEmpty(k, v) && !slices.Contains(harmless[k], compact(all[k])) {
			return runtime.Errorf(runtime.ErrUnsupported,
				"%s%s: wolffia does not have this option of docker's: leave it out", place, k)
		}
	}
	return nil
}

// leftoverIn is leftover for a value of any type. What has another form was refused before.
func leftoverIn(place string, text json.RawMessage, t reflect.Type) error {
	var parts map[string]json.RawMessage
	var list []json.RawMessage
	switch t.Kind() {
	case reflect.Struct:
		_ = json.Unmarshal(text, &parts)
		return leftover(place+".", parts, t)
	case reflect.Slice:
		_ = json.Unmarshal(text, &list)
	case reflect.Map:
		_ = json.Unmarshal(text, &parts)
		list = slices.Collect(maps.Values(parts))
	}
	for _, one := range list {
		if err := leftoverIn(place, one, t.Elem()); err != nil {
			return err
		}
	}
	return nil
}

func compact(b []byte) string {
	var out bytes.Buffer
	_ = json.Compact(&out, b) // it was decoded
	return out.String()
}

// named are objects whose keys ask for something, whatever they have; but for those here.
var named = map[string][]string{
	"Tmpfs": nil, "Sysctls": nil, "StorageOpt": nil, "Annotations": nil,
	"EndpointsConfig": {"default", "none", "bridge", "host"}, // HostConfig.NetworkMode says it
}

// isEmpty reports whether the value of a field asks for nothing.
func isEmpty(field string, v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !isEmpty("", one) })
	case map[string]any:
		without, is := named[field]
		for k, one := range v {
			if is && !slices.Contains(without, k) || !isEmpty(k, one) {
				return false
			}
		}
	}
	return true
}
