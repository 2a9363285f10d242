package maker

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"wolffia/image/store"
	"wolffia/runtime"
)

// A Config is the object config of an image's configuration file (OCI image specification,
// config.md; Docker's fields as it has them).
type Config struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	Volumes      map[string]struct{} `json:"Volumes,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
	Healthcheck  *Healthcheck        `json:"Healthcheck,omitempty"`
	Shell        []string            `json:"Shell,omitempty"`
	OnBuild      []string            `json:"OnBuild,omitempty"`
}

// A Healthcheck is recorded, and not run. Times are in nanoseconds.
type Healthcheck struct {
	Test          []string `json:"Test,omitempty"`
	Interval      int64    `json:"Interval,omitempty"`
	Timeout       int64    `json:"Timeout,omitempty"`
	StartPeriod   int64    `json:"StartPeriod,omitempty"`
	StartInterval int64    `json:"StartInterval,omitempty"`
	Retries       int      `json:"Retries,omitempty"`
}

// ConfigOf returns the Config of an image of the store.
func ConfigOf(images *store.Store, id string) (*Config, error) {
	text, err := images.ConfigFile(id)
	if err != nil {
		return nil, err
	}
	var file struct {
		Config Config `json:"config"`
	}
	if text == nil { // pulled by an earlier version
		img, err := images.Get(id)
		if err != nil {
			return nil, err
		}
		c := img.Config
		return &Config{User: c.User, Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir}, nil
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged: %w; remove it with wolffia image rm %[1]s", store.Short(id), err)
	}
	return &file.Config, nil
}

// SetLabel sets a label. It changes no map that another Config has too.
func (c *Config) SetLabel(name, value string) {
	if c.Labels = maps.Clone(c.Labels); c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[name] = value
}

// SetEnv sets a variable. It changes no list that another Config has too.
func (c *Config) SetEnv(name, value string) {
	i := slices.IndexFunc(c.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if i < 0 {
		c.Env = append(slices.Clip(c.Env), name+"="+value)
		return
	}
	c.Env = slices.Clone(c.Env)
	c.Env[i] = name + "=" + value
}
