// Package mark records whether an engine may have a sandbox, for the next keeper.
package mark

import (
	"os"
	"path/filepath"
	"strings"
)

// InMaking is the mark while a request to create the container has no answer.
const InMaking = "making"

// adrift ends the mark of a container that has run and keeps changes to an image, if the engine
// did not see the end of that run.
const adrift = " adrift"

// Set records that the engine may have the sandbox's container. text is InMaking, then empty,
// then the id of a container that has run and keeps changes to an image, then perhaps adrift. dir
// is launch.Spec.Dir.
func Set(dir, text string) error {
	return os.WriteFile(File(dir), []byte(text), 0o600)
}

// text returns the text of the mark, empty if there is none.
func text(dir string) string {
	text, err := os.ReadFile(File(dir))
	if err != nil {
		return ""
	}
	return string(text)
}

// Making reports whether a request to create the container has no answer: the engine may
// still be creating it.
func Making(dir string) bool { return text(dir) == InMaking }

// Keeps reports whether there must be a container with changes to an image.
func Keeps(dir string) bool { return text(dir) != "" && !Making(dir) }

// SetAdrift records that the engine has not answered when a run was to end.
func SetAdrift(dir string) error {
	if !Keeps(dir) || IsAdrift(dir) {
		return nil
	}
	return Set(dir, text(dir)+adrift)
}

// IsAdrift reports whether SetAdrift has recorded so.
func IsAdrift(dir string) bool { return strings.HasSuffix(text(dir), adrift) }

// File returns the path of the mark in launch.Spec.Dir.
func File(dir string) string { return filepath.Join(dir, "in-engine") }
