package integrations

import (
	"path/filepath"
	"testing"

	"wolffia/internal/test/packaged"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// Versions of packages for JavaScript, and of what they depend on, are in package-lock.json, with their digests.

func TestDeepagentsJS(t *testing.T) {
	testenv.Soak(t, "the package for Python stands for both in each run")
	npm(t, "deepagents-js", func(address string) []string {
		return []string{"WOLFFIA_ADDRESS=" + address, "WOLFFIA_API_KEY=" + key}
	})
}

// OpenAI's Agents SDK has a client of E2B of its own.
func TestOpenAIAgentsJS(t *testing.T) {
	testenv.Soak(t, "E2B's own SDK stands for its clients in each run")
	npm(t, "openai-agents-js", func(address string) []string {
		return []string{"E2B_API_URL=" + address, "E2B_SANDBOX_URL=" + address, "E2B_API_KEY=" + key, "E2B_VALIDATE_API_KEY=false"}
	}, "--cow")
}

// npm runs the tests of a package against a service that has more flags.
func npm(t *testing.T, name string, env func(address string) []string, more ...string) {
	t.Helper()
	dir := packaged.Node(t, filepath.Join(packages, name))
	w := servetest.NewProcess(t, key+"\n", more...)
	text, err := packaged.Run(t, dir, env("http://"+w.Address), "npm", "test")
	if t.Log(text); err != nil {
		t.Errorf("npm test: %v", err)
	}
}
