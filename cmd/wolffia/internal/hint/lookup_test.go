package hint

import (
	"strings"
	"testing"
)

func TestLookedUp(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "-",
		"make: *** [all] Error 1":        "-",
		"could not resolve the conflict": "-",
		"curl: (6) Could not resolve host: a.example":                                                                                           "a.example",
		"fatal: unable to access 'https://a.example/x/': Could not resolve host: a.example":                                                     "a.example",
		"ssh: Could not resolve hostname git.example: Name or service not known":                                                                "git.example",
		"npm error network request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND r.example":                                      "r.example",
		"Error: getaddrinfo EAI_AGAIN r.example":                                                                                                "r.example",
		"go: m.example@v1: Get \"https://p.example/m\": dial tcp: lookup p.example: no such host":                                               "p.example",
		"dial tcp: lookup p.example on 127.0.0.1:53: read udp 127.0.0.1:1->127.0.0.1:53: read: connection refused":                              "p.example",
		"socket.gaierror: [Errno -2] Name or service not known":                                                                                 "",
		"NameResolutionError(\"<x>: Failed to resolve 'pypi.example' ([Errno -2] Name or service not known)\")":                                 "pypi.example",
		"E: Failed to fetch http://d.example/x  Temporary failure resolving 'd.example'":                                                        "d.example",
		"wget: unable to resolve host address ‘w.example’":                                                                                      "w.example",
		"wget: bad address 'b.example'":                                                                                                         "b.example",
		"ERROR: Could not find a version that satisfies the requirement x (from versions: none)\nERROR: No matching distribution found for x\n": "pypi.org",
		"failed to resolve address for github.com: Name or service not known":                                                                   "github.com",
		"java.net.UnknownHostException: j.example":                                                                                              "j.example",
		"Could not resolve host: a.example\nCould not resolve host: b.example\n":                                                                "b.example",
		"Could not resolve host: 10.0.0.1":                                                                                                      "",
		"Could not resolve host: " + strings.Repeat("x.", 5000):                                                                                 "",
	} {
		name, found := lookedUp(text)
		if !found {
			name = "-"
		}
		if name != want {
			t.Errorf("%q: %q, want %q", text, name, want)
		}
	}
}

// An old cargo reads its index from a host of git's: it needs the list of crates by git.
func TestNoNetworkHint(t *testing.T) {
	const cargo = "  failed to fetch `https://github.com/rust-lang/crates.io-index`\n"
	for _, row := range []struct{ name, text, want string }{
		{"github.com", cargo, "--allow-host @crates-git"},
		{"github.com", "", "--allow-host @github"},
		{"a.example", "", "looked up a.example: to allow it, add --allow-host a.example"},
		{"", "", "looked up a name: to allow it, add --allow-host NAME"},
	} {
		if got := noNetworkHint(row.name, row.text, true); !strings.Contains(got, row.want) {
			t.Errorf("%q: %q, want %q", row.name, got, row.want)
		}
	}
}
