package opensandbox

import (
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/service"
)

// A nativeRequest is what OpenSandbox's API has no fields for: fields of the body of POST
// /v1/sandboxes, or extensions of the same names, for clients that send only those.
type nativeRequest struct {
	Codebase string   `json:"codebase"` // a directory of the host
	Runtime  string   `json:"runtime"`
	Preset   string   `json:"preset"` // whose rules take away from the service's
	Rules    []string `json:"rules"`  // PATTERN=LEVEL, which take away; as an extension one in each line
	Cow      bool     `json:"cow"`    // keep what the sandbox changes beside the codebase; as an extension "true"
}

// with returns the request with extensions.
func (q nativeRequest) with(extensions map[string]string) (*nativeRequest, error) {
	texts := map[string]*string{"codebase": &q.Codebase, "runtime": &q.Runtime, "preset": &q.Preset}
	for _, k := range slices.Sorted(maps.Keys(extensions)) {
		v, to := extensions[k], texts[k]
		switch {
		case k == "rules" && q.Rules == nil:
			for line := range strings.Lines(v) {
				if line = strings.TrimSpace(line); line != "" {
					q.Rules = append(q.Rules, line)
				}
			}
		case k == "cow" && (v == "true" || v == "false" && !q.Cow):
			q.Cow = v == "true"
		case k == "cow":
			return nil, invalid("extension %q: it must be \"true\" or \"false\", and not contradict the field cow", k)
		case k == "rules", to != nil && *to != "":
			return nil, invalid("extension %q: the request has a field %s too: leave one of them out", k, k)
		case to != nil:
			*to = v
		default:
			return nil, unsupported("extension %q: the service has codebase, cow, preset, rules and runtime", k)
		}
	}
	return &q, nil
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
func volumes(asked []volumeRequest) ([]service.FleetVolume, error) {
	if len(asked) > maxVolumes {
		return nil, invalid("volumes: %d, the limit is %d", len(asked), maxVolumes)
	}
	names := map[string]bool{}
	var all []service.FleetVolume
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
		all = append(all, service.FleetVolume{Path: filepath.Join(v.Host.Path, v.SubPath), Target: v.MountPath, Writable: !v.ReadOnly})
	}
	return all, nil
}

// isSet reports whether a field has another value than null.
func isSet(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }
