package opensandbox

import (
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/fields"
	"wolffia/service"
)

// withExtensions returns settings that OpenSandbox's API has no fields for: the members of the request, and
// extensions of the same names, for clients that send only those. There a list has an item in each line.
func withExtensions(q fields.Values, extensions map[string]string) (fields.Values, error) {
	all := q
	for _, k := range slices.Sorted(maps.Keys(extensions)) {
		text, f := extensions[k], fields.Requested(k)
		if f == nil {
			keys := slices.Sorted(slices.Values(fields.Requests()))
			return nil, unsupported("extension %q: the service has %s", k, strings.Join(keys, ", "))
		}
		_, has := q[f.Name]
		switch {
		case f.Kind == fields.Truth && text == "true":
			all = all.With(f.Name, true)
		case f.Kind == fields.Truth && (text != "false" || has):
			return nil, invalid("extension %q: it must be \"true\" or \"false\", and not contradict the field %s", k, k)
		case f.Kind == fields.Truth:
		case has:
			return nil, invalid("extension %q: the request has a field %s too: leave one of them out", k, k)
		case f.Kind == fields.List:
			var items []string
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); line != "" {
					items = append(items, line)
				}
			}
			all = all.With(f.Name, items)
		case text != "":
			all = all.With(f.Name, text)
		}
	}
	return all, nil
}

// A volumeRequest asks to show a directory.
type volumeRequest struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly"`
	SubPath   string `json:"subPath"`
	Host      *struct {
		Path string `json:"path"`
	} `json:"host"`
	PVC   json.RawMessage `json:"pvc"`
	OSSFS json.RawMessage `json:"ossfs"`
}

// maxVolumes is how many volumes a request can have.
const maxVolumes = 64

var volumeName = lazily(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// volumes returns what a request asks to show.
func volumes(asked []volumeRequest) ([]service.Volume, error) {
	if len(asked) > maxVolumes {
		return nil, invalid("volumes: %d, the limit is %d", len(asked), maxVolumes)
	}
	names := map[string]bool{}
	var all []service.Volume
	for _, v := range asked {
		switch {
		case !volumeName().MatchString(v.Name) || names[v.Name]:
			return nil, invalid("volume %q: each has another name, of up to 63 lower-case letters, digits and dashes", v.Name)
		case isSet(v.PVC) || isSet(v.OSSFS):
			return nil, unsupported("volume %q: the service shows directories of the host only: host.path", v.Name)
		case v.Host == nil || !filepath.IsAbs(v.Host.Path):
			return nil, invalid("volume %q: host.path must be the absolute path of a directory", v.Name)
		case !path.IsAbs(v.MountPath):
			return nil, invalid("volume %q: mountPath must be absolute", v.Name)
		case v.SubPath != "" && !filepath.IsLocal(v.SubPath):
			return nil, invalid("volume %q: subPath must be relative, without \"..\"", v.Name)
		}
		names[v.Name] = true
		all = append(all, service.Volume{Path: filepath.Join(v.Host.Path, v.SubPath), Target: v.MountPath, Writable: !v.ReadOnly})
	}
	return all, nil
}

// isSet reports whether a field has another value than null.
func isSet(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }
