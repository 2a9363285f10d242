package guest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An address that refuses connections is reached, too.
func TestAnyReached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	for _, what := range []string{"open", "refuses"} {
		if got := anyReached([]string{"127.0.0.1:bad", address}); got != address {
			t.Errorf("%s: got %q", what, got)
		}
		_ = listener.Close()
	}
	if got := anyReached([]string{"127.0.0.1:bad"}); got != "" {
		t.Errorf("got %q", got)
	}
}

// This process has what a pod must not have.
func TestCheckPod(t *testing.T) {
	if err := CheckPod(false); err == nil || !strings.HasPrefix(err.Error(), "the pod ") {
		t.Errorf("CheckPod: %v", err)
	}
}

// The program can be executed by others, and not read.
func TestInstall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guest")
	if err := Install(path); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	own, oerr := os.Stat("/proc/self/exe")
	if err != nil || oerr != nil || st.Mode() != 0o711 || st.Size() != own.Size() {
		t.Errorf("%v, %v, %v", st, err, oerr)
	}
	if err := Install(path); err == nil {
		t.Error("it replaces a file")
	}
	_ = unix.Unlink(path)
}
