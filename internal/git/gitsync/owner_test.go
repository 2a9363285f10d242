package gitsync

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

// Root leaves a user's repository the user's.
func TestRootForUser(t *testing.T) {
	testenv.Root(t)
	w := newWorld(t, 1)
	for dir := w.root; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.host("git lfs install --local 2>/dev/null; chown -R 65534:65534 . && rm -f .git/ORIG_HEAD")
	const asUser = "setpriv --reuid 65534 --regid 65534 --clear-groups "
	// Root's git takes the directory only as what it is named.
	w.must("echo x >>src/a; git commit -qam x; git checkout -qb new; echo y >>src/b; git add src/b; echo z >>src/c; git commit -qm y; git tag t; git branch -D topic")
	w.must("d=$GIT_DIR/lfs/objects/2c/f2; mkdir -p $d; printf hello >$d/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
	w.sync()
	w.equal(w.said(), "topic was deleted in the sandbox: it was 22b60b85d647")
	user := func(script string) string {
		r := shell(w.repo, []string{"S=" + script}, asUser+`sh -c "$S" 2>&1`)
		return strings.TrimSpace(r.out)
	}
	w.equal(user("git rev-parse HEAD; git symbolic-ref HEAD; git status --porcelain -uno"), w.in("git rev-parse HEAD; git symbolic-ref HEAD; git status --porcelain -uno"))
	w.equal(w.try("find .git ! -user 65534; ls .git/lfs/objects/2c/f2"), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
	user("git config user.name u; git config user.email u@x; git commit -q --allow-empty -m u")
	w.sync()
	w.equal(user("git rev-parse HEAD"), w.revIn("HEAD"))
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		for _, e := range left {
			if strings.HasPrefix(e.Name(), "wolffia-empty-") {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
}
