package gitscan

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// maxTops bounds the working trees for which the user's own configuration is followed.
const maxTops = 200

// ownFiles returns where the configurations may be that git reads for the user whatever the
// repository: git-config(1), "FILES". Programs with other variables than ours read others of them,
// so all count.
func ownFiles(home string, getenv func(string) string) (files []string) {
	dirs := []string{getenv("XDG_CONFIG_HOME")}
	if home != "" {
		dirs = append(dirs, home+"/.config")
		files = append(files, home+"/.gitconfig")
	}
	for _, dir := range dirs {
		if dir != "" {
			files = append(files, filepath.Join(dir, "git/config"))
		}
	}
	files = append(files, getenv("GIT_CONFIG_GLOBAL"), cmp.Or(getenv("GIT_CONFIG_SYSTEM"), "/etc/gitconfig"))
	return slices.DeleteFunc(files, func(file string) bool { return !filepath.IsAbs(file) })
}

// own records what the user's own configurations make git execute and include in the working trees
// that were found, and in the root, which may become one.
func (r *reader) own(files []string) {
	seen := set{}
	tops := slices.DeleteFunc(append([]string{r.root}, r.tops...), func(top string) bool {
		known := seen[top]
		seen.add(top)
		return known
	})
	slices.SortStableFunc(tops, func(a, b string) int { return cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")) })
	c := config{reader: r, tops: tops[:min(len(tops), maxTops)], moreTops: len(tops) > maxTops, seen: set{}}
	for _, file := range files {
		c.runs(file)
		c.read(file, 0)
	}
}
