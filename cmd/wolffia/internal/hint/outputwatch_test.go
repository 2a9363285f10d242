package hint

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"wolffia/network"
	"wolffia/runtime"
)

// A name is proposed for a sandbox without a network only, and the output passes as it is.
func TestWatchOutput(t *testing.T) {
	lists := network.Lists()
	npm := lists[slices.IndexFunc(lists, func(l network.List) bool { return l.Name == "npm" })]
	host, _, _ := strings.Cut(npm.Hosts[0], ":")
	failure := "Could not resolve host: " + host + "\n"
	var out, errs bytes.Buffer
	watch, w := WatchOutput(&runtime.Sandbox{Network: runtime.NetworkNone}, nil, &out, &errs)
	if _, err := io.WriteString(w[0], strings.Repeat("x", 3*watchedTail)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w[1], failure); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 3*watchedTail || errs.String() != failure {
		t.Errorf("%d bytes, %q", out.Len(), errs.String())
	}
	if got := watch.Hint(6, true); !strings.HasSuffix(got, "looked up "+host+": to allow it, add --allow-host @npm") {
		t.Errorf("Hint: got %q; want got ends with %q", got, "looked up "+host+": to allow it, add --allow-host @npm")
	}
	if got := watch.Hint(6, false); !strings.HasSuffix(got, "create the sandbox with --allow-host @npm") {
		t.Errorf(`Hint: got %q; want got ends with "create the sandbox with --allow-host @npm"`, got)
	}
	if got := watch.Hint(0, true); got != "" {
		t.Errorf(`Hint: got %q, want ""`, got)
	}
	for _, n := range []runtime.Network{runtime.NetworkFiltered, runtime.NetworkHost} {
		watch, w := WatchOutput(&runtime.Sandbox{Network: n}, nil, &out)
		if _, err := io.WriteString(w[0], failure); err != nil {
			t.Fatal(err)
		}
		if got := watch.Hint(1, true); got != "" {
			t.Errorf(`%s: got %s, want ""`, n, got)
		}
	}
}
