package engine

import (
	"os"
	"path/filepath"
	"strings"
)

// making is the mark while a request to create the container has no answer.
const making = "making"

// adrift ends the mark of a container that has run and keeps changes to an image, if the engine
// did not see the end of that run.
const adrift = " adrift"

// setMark records that the engine may have the sandbox's container. text is making, then empty,
// then the id of a container that has run and keeps changes to an image, then perhaps adrift. dir
// is launch.Spec.Dir.
func setMark(dir, text string) error {
	return os.WriteFile(MarkFile(dir), []byte(text), 0o600)
}

// mark returns the text of the mark, empty if there is none.
func mark(dir string) string {
	text, err := os.ReadFile(MarkFile(dir))
	if err != nil {
		return ""
	}
	return string(text)
}

// Making reports whether a request to create the container has no answer: the engine may
// still be creating it.
func Making(dir string) bool { return mark(dir) == making }

// Keeps reports whether there must be a container with changes to an image.
func Keeps(dir string) bool { return mark(dir) != "" && !Making(dir) }

// SetAdrift records that the engine has not answered when a run was to end.
func SetAdrift(dir string) error {
	if !Keeps(dir) || isAdrift(dir) {
		return nil
	}
	return setMark(dir, mark(dir)+adrift)
}

func isAdrift(dir string) bool { return strings.HasSuffix(mark(dir), adrift) }

// MarkFile returns the path of the mark in launch.Spec.Dir.
func MarkFile(dir string) string { return filepath.Join(dir, "in-engine") }
