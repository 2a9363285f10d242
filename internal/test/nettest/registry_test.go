package nettest

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"wolffia/internal/test/testpack"
)

// npmIntegrity is what a lock file has for the npm package; serveRegistries returns it.
type npmIntegrity string

// registries serves a small package for each language, and a repository of Debian packages, below
// a path of each registry's own.
func registries(t *testing.T, mux *http.ServeMux) npmIntegrity {
	t.Helper()
	reply := func(path string, content []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(content)
		})
	}
	const module = "dep.example/dep@v1.0.0"
	gomod := "module dep.example/dep\n\ngo 1.19\n"
	reply("/go/dep.example/dep/@v/list", []byte("v1.0.0\n"))
	reply("/go/dep.example/dep/@v/v1.0.0.info", []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`))
	reply("/go/dep.example/dep/@v/v1.0.0.mod", []byte(gomod))
	reply("/go/dep.example/dep/@v/v1.0.0.zip", testpack.Zip(t, []testpack.File{
		{module + "/go.mod", gomod},
		{module + "/dep.go", "package dep\n"},
	}))

	pack := map[string]any{"name": "dep", "version": "1.0.0", "main": "index.js"}
	text, err := json.Marshal(pack)
	if err != nil {
		t.Fatal(err)
	}
	tarball := testpack.TarGz(t, []testpack.File{{"package/package.json", string(text)}, {"package/index.js", "exports.name = 'dep'\n"}})
	sum := sha512.Sum512(tarball)
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	reply("/npm/dep/-/dep-1.0.0.tgz", tarball)
	mux.HandleFunc("GET /npm/dep", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "dep", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "dep", "version": "1.0.0", "main": "index.js",
				"dist": map[string]string{"tarball": "https://" + r.Host + "/npm/dep/-/dep-1.0.0.tgz", "integrity": integrity},
			}},
		})
	})

	const info = "dep-1.0.dist-info"
	mux.HandleFunc("GET /pip/dep/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!DOCTYPE html><html><body><a href="dep-1.0-py3-none-any.whl">dep-1.0-py3-none-any.whl</a></body></html>`)
	})
	reply("/pip/dep/dep-1.0-py3-none-any.whl", testpack.Zip(t, []testpack.File{
		{"dep.py", "NAME = 'dep'\n"},
		{info + "/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n"},
		{info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "/RECORD", "dep.py,,\n" + info + "/METADATA,,\n" + info + "/WHEEL,,\n" + info + "/RECORD,,\n"},
	}))

	crate := testpack.TarGz(t, []testpack.File{
		{"dep-1.0.0/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"},
		{"dep-1.0.0/src/lib.rs", "pub const NAME: &str = \"dep\";\n"},
	})
	mux.HandleFunc("GET /cargo/config.json", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"dl":"https://%s/cargo/crates"}`, r.Host)
	})
	reply("/cargo/3/d/dep", fmt.Appendf(nil, "{\"name\":\"dep\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"%s\",\"features\":{},\"yanked\":false}\n", digest(crate)))
	reply("/cargo/crates/dep/1.0.0/download", crate)

	packages := "Package: dep\nVersion: 1.0\nArchitecture: all\nMaintainer: tests <tests@example.invalid>\nFilename: dep.deb\nSize: 1\nSHA256: " +
		digest([]byte("x")) + "\nDescription: nothing\n"
	release := fmt.Sprintf("Origin: nettest\nSuite: stable\nDate: %s\nSHA256:\n %s %d Packages\n", time.Now().UTC().Format(time.RFC1123), digest([]byte(packages)), len(packages))
	reply("/debian/Packages", []byte(packages))
	reply("/debian/Release", []byte(release))
	return npmIntegrity(integrity)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
