package engineapi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/test/packaged"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// PostgreSQL on an image that wolffia build makes of Debian's packages is a server for
// testcontainers, for Python and for Go.
func TestPostgres(t *testing.T) {
	testenv.Soak(t, "it makes a Debian, with packages of its mirror")
	testenv.Tools(t, "go")
	testenv.SubIDs(t)
	w := newWorld(t)
	layer, err := os.ReadFile(packaged.Debian(t, "bookworm"))
	w.OK(err)
	w.ImportLayer("debian:12", store.Config{Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}, layer)
	text, err := packaged.Run(t, "", nil, filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", w.State, "build",
		"--network", "host", "-t", "postgres:15", filepath.Join("testdata", "postgres"))
	if err != nil {
		t.Fatalf("wolffia build: %v\n%s", err, text)
	}
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	t.Run("python", func(t *testing.T) {
		python(t, packaged.Python(t, filepath.Join("testdata", "testcontainers.txt")))
		got := w.run(t, 0, "", "python3", "-W", "ignore", filepath.Join("testdata", "postgres.py"), "postgres:15")
		if !regexp.MustCompile(`(?s)^.*1000 500500 15\.[0-9]+\nrefused\n$`).MatchString(got) {
			t.Errorf("postgres.py: %s", got)
		}
	})
	t.Run("go", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "program")
		text, err := packaged.Run(t, filepath.Join("testdata", "testcontainers-go"), nil, "go", "build", "-o", program, ".")
		if err != nil {
			testenv.Lacks(t, "the proxy of Go's modules", "go build: "+err.Error()+"\n"+text)
		}
		got := w.run(t, 0, "", program, "postgres:15")
		if !regexp.MustCompile(`(?s)^.*5050 3\n$`).MatchString(got) {
			t.Errorf("testcontainers-go: %s", got)
		}
	})
}
