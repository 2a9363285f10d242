package boot

// An ImageInfo describes an image of an engine.
type ImageInfo struct {
	ID  string   `json:"id"`            // SandboxConfig.ImageID
	Env []string `json:"env,omitempty"` // K=V
	Cwd string   `json:"cwd,omitempty"`
	// Command is its entry point and arguments.
	Command []string `json:"command,omitempty"`
}

// A Found sandbox is one that an engine has, by the labels of its container.
type Found struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // those of its owner
	CreatedAt int64             `json:"createdAt"`        // ms since 1970
}
