package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testLists = regexp.MustCompile(`\(Tests: ([^)]*)\.\)`)
	testNames = regexp.MustCompile(`func (Test\w+)\(|\{"([A-Z]\w+)", `)
)

// TestSecurityNamesTests: the tests that SECURITY.md names exist.
func TestSecurityNamesTests(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testNames.FindAllSubmatch(text, -1) {
			exist[string(m[1])+string(m[2])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	holds, _, _ := strings.Cut(string(text), "## What does not hold")
	for paragraph := range strings.SplitSeq(holds, "\n\n") {
		lists := testLists.FindAllStringSubmatch(paragraph, -1)
		if strings.HasPrefix(paragraph, "**") && len(lists) == 0 {
			t.Errorf("SECURITY.md names no test of %.60q", paragraph)
		}
		for _, list := range lists {
			for name := range strings.SplitSeq(list[1], ",") {
				if name = strings.TrimSpace(name); !exist[name] {
					t.Errorf("SECURITY.md names the test %q, which does not exist", name)
				}
			}
		}
	}
}
