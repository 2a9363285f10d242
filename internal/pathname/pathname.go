// Package pathname compares paths by their text: it looks at no file.
package pathname

import "strings"

// Within reports whether an absolute, clean path is dir, which is one too, or below it. Nothing is within "".
func Within(name, dir string) bool {
	return dir != "" && (name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/"))
}
