package suite

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Git runs git in dir, without the configuration of the user who runs the test, and
// returns what it prints. A failure ends the test.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b",
		"-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false",
	}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}
