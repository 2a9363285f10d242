package recipes

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"wolffia/internal/test/testpack"
)

// serve starts registries with one small package for each language, until the end of the
// test, and returns a configuration file that leads the tools in sandboxes to them.
func serve(t *testing.T) (config []byte) {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(path string, content []byte, kind string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(content)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	const name = "registry.test" // of the host's loopback, inside
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at := name + ":" + port
	url := "http://" + at

	const module = "example.invalid/dep@v1.0.0"
	gomod := []byte("module example.invalid/dep\n\ngo 1.19\n")
	reply("/go/example.invalid/dep/@v/list", []byte("v1.0.0\n"), "text/plain")
	reply("/go/example.invalid/dep/@v/v1.0.0.info", []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`), "application/json")
	reply("/go/example.invalid/dep/@v/v1.0.0.mod", gomod, "text/plain")
	reply("/go/example.invalid/dep/@v/v1.0.0.zip", testpack.Zip(t, []testpack.File{
		{module + "/go.mod", string(gomod)},
		{module + "/dep.go", "package dep\n\n// Name is a name.\nconst Name = \"dep\"\n"},
	}), "application/zip")

	pack := map[string]any{
		"name": "dep", "version": "1.0.0", "main": "index.js",
		"scripts": map[string]string{"install": "node -e \"require('fs').writeFileSync('installed', '')\""},
	}
	text, err := json.Marshal(pack)
	if err != nil {
		t.Fatal(err)
	}
	pack["dist"] = map[string]string{"tarball": url + "/npm/dep/-/dep-1.0.0.tgz"}
	index, err := json.Marshal(map[string]any{
		"name": "dep", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": pack},
	})
	if err != nil {
		t.Fatal(err)
	}
	reply("/npm/dep", index, "application/json")
	reply("/npm/dep/-/dep-1.0.0.tgz", testpack.TarGz(t, []testpack.File{
		{"package/package.json", string(text)},
		{"package/index.js", "exports.name = 'dep'\n"},
	}), "application/octet-stream")

	const info = "dep-1.0.dist-info"
	reply("/pip/dep/", []byte(`<!DOCTYPE html><html><body><a href="dep-1.0-py3-none-any.whl">dep-1.0-py3-none-any.whl</a></body></html>`), "text/html")
	reply("/pip/dep/dep-1.0-py3-none-any.whl", testpack.Zip(t, []testpack.File{
		{"dep.py", "NAME = 'dep'\n"},
		{info + "/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n"},
		{info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "/RECORD", "dep.py,,\n" + info + "/METADATA,,\n" + info + "/WHEEL,,\n" + info + "/RECORD,,\n"},
	}), "application/octet-stream")

	env := map[string]string{
		"GOPROXY": url + "/go", "GOSUMDB": "off", "GOTOOLCHAIN": "local",
		"npm_config_registry": url + "/npm/", "npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
		"PIP_INDEX_URL": url + "/pip/", "PIP_TRUSTED_HOST": name, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
	}
	config, err = json.Marshal(map[string]any{ // which is YAML
		"env": env, "add-host": []string{name + ":127.0.0.1"}, "allow-host": []string{at},
	})
	if err != nil {
		t.Fatal(err)
	}
	return config
}
