// Program gogit reads a repository with go-git, or commits to it: gogit look, gogit commit NAME.
package main

import (
	"fmt"
	"log"
	"os"
	"sort"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	r, err := git.PlainOpenWithOptions(".", &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	check(err)
	w, err := r.Worktree()
	check(err)
	if os.Args[1] == "commit" {
		check(os.WriteFile(os.Args[2], []byte(os.Args[2]+"\n"), 0o644))
		_, err = w.Add(os.Args[2])
		check(err)
		_, err = w.Commit(os.Args[2], &git.CommitOptions{Author: &object.Signature{Name: "go-git", Email: "go@git", When: time.Unix(1700000000, 0)}})
		check(err)
		return
	}
	head, err := r.Reference(plumbing.HEAD, false)
	check(err)
	fmt.Println("HEAD", head.Target())
	refs, err := r.References()
	check(err)
	var lines []string
	check(refs.ForEach(func(ref *plumbing.Reference) error {
		if n := ref.Name(); n.IsBranch() || n.IsTag() || n.IsNote() {
			lines = append(lines, fmt.Sprintln("ref", ref.Hash(), n))
		}
		return nil
	}))
	commits, err := r.Log(&git.LogOptions{Order: git.LogOrderCommitterTime})
	check(err)
	check(commits.ForEach(func(c *object.Commit) error {
		lines = append(lines, fmt.Sprintln("commit", c.Hash, c.TreeHash))
		return nil
	}))
	index, err := r.Storer.Index()
	check(err)
	for _, e := range index.Entries {
		lines = append(lines, fmt.Sprintf("index %06o %s %s\n", uint32(e.Mode), e.Hash, e.Name))
	}
	status, err := w.Status()
	check(err)
	for name, s := range status {
		if s.Staging != git.Unmodified || s.Worktree != git.Unmodified {
			lines = append(lines, fmt.Sprintf("status %c%c %s\n", s.Staging, s.Worktree, name))
		}
	}
	sort.Strings(lines)
	for _, l := range lines {
		fmt.Print(l)
	}
}
