package statedir

import (
	"errors"
	"io/fs"
)

// Written returns the directories and files of the host that sandboxes can change, as far as this
// state directory records them: codebases and writable mounts, and itself, which has the volumes.
// An error comes with what could be read.
func (d *Dir) Written() ([]string, error) {
	all := []string{d.path}
	err := d.Each(func(c *Config) {
		all = append(all, Changes(c)...)
	})
	if errors.Is(err, fs.ErrNotExist) { // the state directory was removed
		err = nil
	}
	return all, err
}

// Changes returns what of the host the sandbox of a configuration can change, beside its volumes.
func Changes(c *Config) []string {
	var all []string
	if c.CodebasePath != "" {
		all = append(all, c.CodebasePath)
	}
	for _, m := range c.Mounts {
		if m.Writable {
			all = append(all, m.Source)
		}
	}
	return all
}
