# Reads a repository with libgit2 (pygit2), or commits to it: libgit2.py look, libgit2.py commit NAME.
import sys
import pygit2

r = pygit2.Repository(".")
if sys.argv[1] == "commit":
    name = sys.argv[2]
    open(name, "w").write(name + "\n")
    r.index.add(name)
    r.index.write()
    me = pygit2.Signature("libgit2", "lib@git2", 1700000000, 0)
    r.create_commit("HEAD", me, me, name, r.index.write_tree(), [r.head.target])
    sys.exit()

print("HEAD", r.lookup_reference("HEAD").target)
lines = []
for name in r.references:
    if name.startswith(("refs/heads/", "refs/tags/", "refs/notes/")):
        lines.append(f"ref {r.lookup_reference(name).target} {name}")
for c in r.walk(r.head.target):
    lines.append(f"commit {c.id} {c.tree_id}")
for e in r.index:
    lines.append(f"index {int(e.mode):06o} {e.id} {e.path}")
S = pygit2
staged = {S.GIT_STATUS_INDEX_NEW: "A", S.GIT_STATUS_INDEX_MODIFIED: "M", S.GIT_STATUS_INDEX_DELETED: "D", S.GIT_STATUS_INDEX_TYPECHANGE: "T"}
tree = {S.GIT_STATUS_WT_MODIFIED: "M", S.GIT_STATUS_WT_DELETED: "D", S.GIT_STATUS_WT_TYPECHANGE: "T"}
for path, flags in r.status().items():
    if flags & (S.GIT_STATUS_IGNORED):
        continue
    x = "".join(c for f, c in staged.items() if flags & f) or " "
    y = "".join(c for f, c in tree.items() if flags & f) or " "
    if flags & S.GIT_STATUS_WT_NEW:
        x, y = (x, "?") if x != " " else ("?", "?")
    lines.append(f"status {x}{y} {path}")
print("\n".join(sorted(lines)))
