package statedir

import "path/filepath"

// Volumes returns the directory of the volumes in the state directory state.
func Volumes(state string) string { return filepath.Join(state, "volumes") }

// VolumeData returns the directory that sandboxes with the volume see; volumes is what
// Volumes returns.
func VolumeData(volumes, name string) string { return filepath.Join(volumes, name, "data") }
