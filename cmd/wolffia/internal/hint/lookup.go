package hint

import (
	"regexp"
	"strings"

	"wolffia/network"
)

// lookupFailures are what programs print when a name is not found: of glibc, curl and git, ssh,
// Node, Go, Python's urllib3, apt, wget, busybox, Java, libgit2 and Rust. The group is the name.
var lookupFailures = []string{
	`getaddrinfo (?:ENOTFOUND|EAI_AGAIN) ([\w.-]+)`,
	`[Cc]ould not resolve (?:host|hostname|proxy):? '?([\w.-]+)`,
	`Could not resolve '([\w.-]+)'`,
	`lookup ([\w.-]+)(?: on [^ ]+)?: (?:no such host|server misbehaving|.*connection refused)`,
	`[Ff]ailed to resolve '([\w.-]+)'`,
	`Temporary failure resolving '([\w.-]+)'`,
	`unable to resolve host address [^\w]*([\w.-]+)`,
	`bad address '([\w.-]+)'`,
	`UnknownHostException: ([\w.-]+)`,
	`failed to resolve address for ([\w.-]+)`,
	`failed to lookup address information()`,
	`(?:Name or service not known|Temporary failure in name resolution|Name does not resolve)()`,
}

// lookedUp returns the last name of which a text says that it was not found, if a text says so.
// The name is empty if the text has none that can be allowed.
func lookedUp(text string) (name string, found bool) {
	all := regexp.MustCompile(strings.Join(lookupFailures, "|")).FindAllStringSubmatch(text, -1)
	for i := len(all) - 1; i >= 0; i-- {
		for _, group := range all[i][1:] {
			if normal, err := network.NormalName(strings.TrimRight(group, ".")); group != "" && err == nil {
				return normal, true
			}
		}
		found = true
	}
	if !found && strings.Contains(text, "ERROR: No matching distribution found for ") {
		return "pypi.org", true // pip does not say which name it looked up
	}
	return "", found
}

// crateIndex is what cargo before 1.70 reads with git.
const crateIndex = "https://github.com/rust-lang/crates.io-index"

// noNetworkHint says how to let a sandbox reach a name, which may be empty, that a program did not
// find as it says in text.
func noNetworkHint(name, text string, create bool) string {
	flag := "--allow-host NAME"
	switch {
	case strings.Contains(text, crateIndex):
		flag = "--allow-host @crates-git"
	case name != "":
		flag = network.Remedy(name, 0)
	}
	s := startDiagnosis{create: create}
	what := "a name"
	if name != "" {
		what = name
	}
	return "the sandbox has no network, and the command looked up " + what + ": to allow it, " + s.with(flag)
}
