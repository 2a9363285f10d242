package boot

import (
	"time"
)

// An ImageInfo is what an engine knows of an image.
type ImageInfo struct {
	ID  string   `json:"id"`            // SandboxConfig.ImageID
	Env []string `json:"env,omitempty"` // K=V
	Cwd string   `json:"cwd,omitempty"`
	// Command is what it runs by itself: entry point and arguments.
	Command []string `json:"command,omitempty"`
}

const (
	// endLimit is how long an engine may take to end and remove a sandbox.
	EndLimit = 30 * time.Second
	// imageLimit is how long it may take to get an image.
	ImageLimit = 30 * time.Minute
)

// A Found sandbox is one that an engine has, by what its container says.
type Found struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // those that say whose it is
	CreatedAt int64             `json:"createdAt"`        // ms since 1970
}

// LostLimit is how long an engine may take to say what it has.
const LostLimit = 10 * time.Second
