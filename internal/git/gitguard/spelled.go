package gitguard

import (
	"strings"
	"unicode"
)

// Spelled reports whether git, or a file system, takes name for .git although it is not that name:
// where case is ignored, dots and spaces at the end, what follows a colon, or characters without a
// width; and the short name of Windows (path.c and utf8.c of git: is_ntfs_dotgit, is_hfs_dotgit;
// directories of ext4 and tmpfs with the attribute +F).
func Spelled(name string) bool {
	if len(name) < len(".git") || name == ".git" || plainly(name[0], '.') && plainly(name[0], 'g') || name[0] == '.' && plainly(name[1], 'g') {
		return false // mostly
	}
	plain := strings.Map(func(r rune) rune {
		if unicode.Is(ignorable, r) {
			return -1
		}
		return r
	}, name)
	plain, _, _ = strings.Cut(plain, ":")
	plain = strings.ToLower(strings.TrimRight(plain, ". "))
	return plain == ".git" || plain == "git~1"
}

// plainly reports whether c, in a name, is not the character want in any spelling, nor one without
// a width.
func plainly(c, want byte) bool { return c|0x20 != want|0x20 && c < 0x80 }

// ignorable are the characters that HFS+, or Linux with +F, ignores in a comparison of names
// (Default_Ignorable_Code_Point).
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0xad, Hi: 0xad, Stride: 1},
		{Lo: 0x34f, Hi: 0x34f, Stride: 1},
		{Lo: 0x61c, Hi: 0x61c, Stride: 1},
		{Lo: 0x115f, Hi: 0x1160, Stride: 1},
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1},
		{Lo: 0x180b, Hi: 0x180f, Stride: 1},
		{Lo: 0x200b, Hi: 0x200f, Stride: 1},
		{Lo: 0x202a, Hi: 0x202e, Stride: 1},
		{Lo: 0x2060, Hi: 0x206f, Stride: 1},
		{Lo: 0x3164, Hi: 0x3164, Stride: 1},
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1},
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1},
		{Lo: 0xfff0, Hi: 0xfff8, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1}, {Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, {Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}},
}
