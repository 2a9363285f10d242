package fusefs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

// copiedSeed makes what the host has before the programs of copiedWork run.
const copiedSeed = `set -e; cd "$1"; umask 022
mkdir -p src/deep/er text db
printf 'int util(void);\n' > src/util.h
printf '#include "util.h"\nint util(void) { return 41; }\n' > src/util.c
printf '#include <stdio.h>\n#include "util.h"\nint main(void) { printf("%%d\\n", util()); return 0; }\n' > src/main.c
printf 'CC = cc\nprog: main.o util.o\n\t$(CC) -o $@ main.o util.o\nmain.o util.o: util.h\nclean:\n\trm -f prog *.o\n' > src/Makefile
for i in 1 2 3 4 5 6 7 8 9; do seq $i 60 | sed 's/^/line one /' > text/t$i; done
cp text/t1 text/new; sed -i 's/line one 7/line seven/; s/line one 50/line fifty/' text/new; diff -u --label a --label b text/t1 text/new > text/change.patch || true; rm text/new
echo deep > src/deep/er/file; ln -s ../text src/link; chmod 755 text/t9; mkdir old; cp text/t* old/
sqlite3 db/data.db 'create table t(a, b); with recursive n(x) as (select 1 union all select x+1 from n where x < 500) insert into t select x, hex(zeroblob(40)) from n;'
tar cf db/all.tar --mtime=@0 --owner=0 --group=0 --numeric-owner --sort=name src text; printf 'a=1\nb=2\n' > db/conf`

// copiedWork changes all of it with the programs that people use, and prints what comes of it.
const copiedWork = `set -e; cd "$1"; umask 022; exec 2>&1
if command -v cc >/dev/null && command -v make >/dev/null; then
	make -s -C src; src/prog; sed -i s/41/42/ src/util.c; make -s -C src; src/prog; make -s -C src clean; ls src
fi
(cd text && patch -s t1 < change.patch && patch -s -R t1 < change.patch && patch -s t1 < change.patch && patch -s --backup t2 < change.patch || echo "patch $?")
printf ',s/line/LINE/\n1,3d\n$a\nend\n.\nw\nq\n' | ed -s text/t3
sed -i 's/one/two/' text/t4 text/t5; sed -i.orig 's/one/three/' text/t6
python3 - <<'PY'
import os, mmap, shutil, tempfile, json
with open("text/t7", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0); m[0:4] = b"MMAP"; m.flush(); m.close()
with tempfile.NamedTemporaryFile("w", dir="text", delete=False) as f:
    json.dump({"a": 1}, f)
os.chmod(f.name, 0o640); os.replace(f.name, "text/t8")
fd = os.open("text/t9", os.O_RDWR | os.O_APPEND); os.write(fd, b"appended\n"); os.ftruncate(fd, 20); os.pwrite(fd, b"x", 100); os.close(fd)
shutil.copytree("src", "copy", symlinks=True); os.rename("copy", "renamed"); shutil.rmtree("renamed/deep")
os.link("text/t4", "text/linked"); os.utime("text/t4", (1e9, 1e9)); print(sorted(os.listdir(".")), int(os.stat("text/t4").st_mtime))
PY
sqlite3 db/data.db "pragma journal_mode=wal; update t set b = a where a % 3 = 0; delete from t where a % 7 = 0; vacuum; select count(*), sum(a) from t; pragma integrity_check; pragma journal_mode=delete;"
mkdir out; tar xf db/all.tar -C out; tar xf db/all.tar; tar rf db/all.tar --mtime=@0 --owner=0 --group=0 --numeric-owner db/conf; tar tvf db/all.tar
rsync -a --delete src/ mirror/; echo more >> src/deep/er/file; rsync -ai --no-t --delete src/ mirror/ | grep -v '/$'; rsync -a --inplace --no-whole-file text/ old/
cp -a old older; mv old/t1 old/t2 older/; rm -r old/t3; mv older/t1 text/; mv src/deep src/moved; rmdir old 2>/dev/null || echo "not empty"; rm -rf out; mv older out
gzip -n text/t5; gunzip -c text/t5.gz | md5sum; install -m 600 text/t6 db/conf; dd if=text/t1 of=text/t2 bs=7 seek=3 count=5 conv=notrunc status=none; truncate -s 11 text/t1
find . -type f -name '*.orig' -delete; find . -empty; chmod -R go-w .; ln -sfn deep src/link; grep -rl two . | LC_ALL=C sort`

const copiedTree = `cd "$1" && find . -mindepth 1 \( -type d -printf '%P %y %m\n' -o -printf '%P %y %m %s %l\n' \) | LC_ALL=C sort && find . -type f | LC_ALL=C sort | xargs -d '\n' md5sum`

// Acceptance test 1 of copy-on-write: the programs that people use do the same in a copied tree
// over files of the host's as in a plain directory, and nothing of the host's changes.
func TestCopiedPrograms(t *testing.T) {
	testenv.Tools(t, "tar", "rsync", "sqlite3", "patch", "diff", "sed", "ed", "python3", "gzip", "md5sum")
	sh := func(t *testing.T, script, dir string) string {
		t.Helper()
		return run(t, dir, "sh", "-c", script, "script", dir)
	}
	for _, borrow := range []bool{false, true} {
		if borrow && !testenv.Full() {
			continue
		}
		t.Run(map[bool]string{false: "Copies", true: "Borrows"}[borrow], func(t *testing.T) {
			s := copiedSetup(func(t *testing.T, dir string) { sh(t, copiedSeed, dir) })
			s.Borrow = borrow
			mounted(t, s, func(t *testing.T, c *client) {
				plain := filepath.Join(filepath.Dir(c.host), "plain")
				if err := os.Mkdir(plain, 0o755); err != nil {
					t.Fatal(err)
				}
				sh(t, copiedSeed, plain)
				host := sh(t, copiedTree, c.host)
				same := func(what, got, want string) {
					t.Helper()
					g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
					for i := range min(len(g), len(w)) {
						if g[i] != w[i] {
							t.Fatalf("%s: line %d is %q, and %q in a plain directory, of\n%s", what, i+1, g[i], w[i], want)
						}
					}
					if got != want {
						t.Errorf("%s:\n%s\nin a plain directory:\n%s", what, got, want)
					}
				}
				same("programs", sh(t, copiedWork, c.dir), sh(t, copiedWork, plain))
				same("the tree", sh(t, copiedTree, c.dir), sh(t, copiedTree, plain))
				same("the host", sh(t, copiedTree, c.host), host)
			})
		})
	}
}

// TestCopiedBattery is TestPrograms, which begins with an empty directory, for a copied tree.
func TestCopiedBattery(t *testing.T) {
	for i, p := range programs {
		if !testenv.Picked(i, 4) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			testenv.Tools(t, p.tools...)
			s := copiedSetup(nil)
			mounted(t, s, p.compare)
		})
	}
}
