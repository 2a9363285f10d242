package guest

import (
	"os"
	"path/filepath"
)

// LinkCodebase makes a symbolic link to target at name, which is another name of the codebase on
// the host, and the directories above. What is there already stays: the link is a convenience.
func LinkCodebase(target, name string) {
	if os.MkdirAll(filepath.Dir(name), 0o755) == nil {
		_ = os.Symlink(target, name)
	}
}
