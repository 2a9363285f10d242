package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dialect are words that this code once had in place of those of the field, which CONTRIBUTING.md names:
// a reader who comes from containerd or gVisor does not know them.
const dialect = "askahead doubts forgo goon handover happening heeding leavesfirst leavetext leisure maystick " +
	"misleads openearly outlet queuemoment rehearsal rehearse retire retired serveblank settledown visitor warmturn " +
	"wasspare withoutstate"

func TestWordsOfTheField(t *testing.T) {
	read, foreign := 0, map[string]bool{}
	for word := range strings.FieldsSeq(dialect) {
		foreign[word] = true
	}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata" || d.Name() == "archtest"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".md") && (!strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go")):
			return nil
		}
		text, err := os.ReadFile(file)
		read++
		for word := range strings.FieldsFuncSeq(strings.ToLower(string(text)), func(r rune) bool { return r < 'a' || r > 'z' }) {
			if !foreign[word] {
				continue
			}
			t.Errorf("%s: %q: use the field's word (CONTRIBUTING.md, Language)", file, word)
		}
		return err
	})
	if err != nil || read == 0 {
		t.Fatalf("%d files read: %v", read, err)
	}
}
