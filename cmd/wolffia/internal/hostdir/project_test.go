package hostdir

import (
	"path"
	"strings"
	"testing"
)

// The nearest top counts, else the outermost member, as far up as may permits.
func TestSearch(t *testing.T) {
	for _, tt := range []struct{ marks, here, end, want, workspace string }{
		{"", "/h/a/b", "/h", "/h/a/b", ""},
		{"/h/a=top /h/a/b=top", "/h/a/b/c/d", "/h", "/h/a/b", ""},
		{"/h/a=top /h/a/b=member", "/h/a/b/c", "/h", "/h/a", ""},
		{"/h=top /h/a=member /h/a/b/c=member", "/h/a/b/c/d", "/h", "/h/a", "member of /h/a"},
		{"/h/a=member", "/h/a", "/h", "/h/a", ""},
		{"/h=top", "/h", "/h", "/h", ""},
		{"/h=top", "/h/a", "/h", "/h/a", ""},
		{"/h/a=top /h/a/b=foreign", "/h/a/b/c", "/h", "/h/a/b/c", ""},
		{"/=member", "/a", "", "/", "member of /"},
	} {
		mark := func(dir string, uid uint32) (kind, string) {
			for f := range strings.FieldsSeq(tt.marks) {
				if at, is, _ := strings.Cut(f, "="); at == dir && uid == 7 {
					return map[string]kind{"top": top, "member": member, "foreign": foreign}[is], is + " of " + dir
				}
			}
			return plain, ""
		}
		may := func(dir string) (uint32, bool) {
			return 7, dir == tt.here || dir != tt.end && dir != path.Dir(tt.end) || tt.end == ""
		}
		if dir, workspace := search(tt.here, mark, may); dir != tt.want || workspace != tt.workspace {
			t.Errorf("%s of %s: %s, %q; want %s, %q", tt.here, tt.marks, dir, workspace, tt.want, tt.workspace)
		}
	}
}
