package config

import "wolffia/fields"

// Schema returns the JSON schema of a configuration file, for editors.
func Schema(keys []fields.Field) map[string]any {
	text := map[string]any{"type": "string"}
	properties := func() map[string]any {
		out := map[string]any{}
		for _, k := range keys {
			property := schemaOf(&k)
			property["description"] = k.Help
			out[k.Key] = property
		}
		return out
	}
	profile := properties()
	profile[keyDescription] = text
	file := properties()
	file[keyProfile] = map[string]any{"type": "string", "description": "the profile to use when --profile names none"}
	file[keyProfiles] = map[string]any{
		"type": "object", "description": "settings by name, for --profile",
		"additionalProperties": map[string]any{"type": []string{"object", "null"}, "properties": profile, "additionalProperties": false},
	}
	file[keyAllow] = map[string]any{
		"type": "array", "items": text,
		"description": "in your own file: keys that the project's file may set freely",
	}
	return map[string]any{
		"$schema":              "http://json-schema.org/draft-07/schema#",
		"title":                "wolffia configuration",
		"type":                 []string{"object", "null"},
		"properties":           file,
		"additionalProperties": false,
	}
}

func schemaOf(k *fields.Field) map[string]any {
	scalar := []string{"string", "number"}
	switch k.Kind {
	case fields.Whole:
		return map[string]any{"type": "integer"}
	case fields.Number:
		return map[string]any{"type": "number"}
	case fields.Truth:
		return map[string]any{"type": "boolean"}
	case fields.List:
		list := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		if !k.Pairs {
			return list
		}
		values := map[string]any{"type": []string{"string", "number", "boolean", "null"}}
		return map[string]any{"anyOf": []any{list, map[string]any{"type": "object", "additionalProperties": values}}}
	}
	if k.Values != nil {
		return map[string]any{"enum": k.Order()}
	}
	return map[string]any{"type": scalar}
}
