package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxComment is how many columns a line of a comment should have at most.
const maxComment = 100

// longComments are budgets of lines of comments with more than maxComment columns, in packages with more than
// defaultLong. They only fall: wrap such a line when you change its comment.
var longComments = map[string]int{
	"bench":               35,
	"local":               42,
	"service":             68,
	"service/opensandbox": 18,
}

const defaultLong = 20

// A line that is a comment has at most maxComment columns: an editor beside another one shows it whole.
func TestCommentsAreNarrow(t *testing.T) {
	long := map[string]int{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
			if strings.HasPrefix(strings.TrimLeft(line, " "), "//") && utf8.RuneCountInString(line) > maxComment {
				long[filepath.ToSlash(pkg)]++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(long) == 0 {
		t.Fatal("no file with comments was read")
	}
	for pkg, n := range long {
		if budget := max(longComments[pkg], defaultLong); n > budget {
			t.Errorf("%s: %d lines of comments have more than %d columns, want at most %d: wrap the new ones", pkg, n, maxComment, budget)
		}
	}
	for pkg, budget := range longComments {
		if n := long[pkg]; n < budget*3/4 {
			t.Errorf("%s: %d lines of comments have more than %d columns, the budget is %d: lower it", pkg, n, maxComment, budget)
		}
	}
}
