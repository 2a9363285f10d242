package fusefs

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"wolffia/fusefs/fusemount"
	"wolffia/perm"
)

// TestServeTree is not a test: scripts/pjdfstest uses it to mount and serve a directory with
// everything writable, until it is unmounted. WOLFFIA_TREE is MOUNT:DIRECTORY:READY; the FIFO READY
// gets a line once the tree is served.
func TestServeTree(t *testing.T) {
	args := strings.Split(os.Getenv("WOLFFIA_TREE"), ":")
	if len(args) != 3 {
		t.Skip("for scripts/pjdfstest")
	}
	policy, err := perm.Compile([]perm.Rule{{Pattern: "**", Level: perm.Write}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(args[1])
	if err != nil {
		t.Fatal(err)
	}
	dev, err := fusemount.Mount(args[0], &fusemount.MountOptions{AllowOther: os.Getuid() == 0})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	srv, err := Serve(ctx, dev, &Options{
		Root: int(root.Fd()), Rules: policy, Owner: Owner{uint32(os.Getuid()), uint32(os.Getgid())},
	})
	if err != nil {
		t.Fatal(err)
	}
	root.Close()
	if err := os.WriteFile(args[2], []byte("served\n"), 0); err != nil {
		t.Fatal(err)
	}
	srv.Wait()
}
