package gitguard

import "strings"

// Spelled reports whether git takes name for .git on a file system on which it is not that name: one that ignores case, dots and
// spaces at the end, what follows a colon, or characters without a width; and the short name of Windows (path.c and utf8.c of git:
// is_ntfs_dotgit, is_hfs_dotgit).
func Spelled(name string) bool {
	if name == ".git" || len(name) < len(".git") {
		return false
	}
	plain := strings.Map(func(r rune) rune {
		if ignorable(r) {
			return -1
		}
		return r
	}, name)
	plain, _, _ = strings.Cut(plain, ":")
	plain = strings.ToLower(strings.TrimRight(plain, ". "))
	return plain == ".git" || plain == "git~1"
}

// ignorable reports whether HFS+ ignores r when it compares names.
func ignorable(r rune) bool {
	return 0x200c <= r && r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x206a <= r && r <= 0x206f || r == 0xfeff
}
