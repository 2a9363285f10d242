package engineapi

import (
	"bytes"
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

// decode decodes JSON into to. A field that to does not have must be empty, or harmless: what a
// client asks for is never dropped.
func decode(b []byte, to any) error {
	var all any
	err := json.Unmarshal(b, &all)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "the request's body: %w", err)
	}
	all = asked("", all)
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	err = strict.Decode(reflect.New(reflect.TypeOf(to).Elem()).Interface())
	if err == nil {
		return nil
	}
	name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
	return runtime.Errorf(runtime.ErrUnsupported, "%s: wolffia does not have this option of docker's: leave it out",
		strings.TrimSuffix(placeOf(name, all)+name, "."))
}

// asked returns what of a field's value asks for something; nil: nothing.
func asked(field string, v any) any {
	switch of := v.(type) {
	case []any:
		some := false
		for i := range of {
			of[i] = asked("", of[i])
			some = some || of[i] != nil
		}
		if !some {
			return nil
		}
	case map[string]any:
		without, is := named[field]
		for k, one := range of {
			if one = asked(k, one); one == nil && is && !slices.Contains(without, k) {
				one = true
			}
			if of[k] = one; one == nil {
				delete(of, k)
			}
		}
		if len(of) == 0 {
			return nil
		}
	default:
		if v == nil || reflect.ValueOf(v).IsZero() {
			return nil
		}
	}
	if text, err := json.Marshal(v); err == nil && string(text) == harmless[field] {
		return nil
	}
	return v
}

// placeOf returns where a field is, with a point at the end; empty: at the top, or nowhere.
func placeOf(field string, v any) string {
	switch of := v.(type) {
	case []any:
		for _, one := range of {
			if place := placeOf(field, one); place != "" {
				return place
			}
		}
	case map[string]any:
		for k, one := range of {
			if inner, is := one.(map[string]any); is {
				if _, has := inner[field]; has {
					return k + "."
				}
			}
			if place := placeOf(field, one); place != "" {
				return k + "." + place
			}
		}
	}
	return ""
}
