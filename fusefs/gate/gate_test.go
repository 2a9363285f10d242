package gate

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// wantGate is the specification: the errno of each operation at none, view, read and
// write.
var wantGate = map[string][4]syscall.Errno{
	"lookup":               {unix.ENOENT, 0, 0, 0},
	"getattr":              {unix.ENOENT, 0, 0, 0},
	"setattr":              {unix.ENOENT, unix.EACCES, unix.EACCES, 0},
	"readlink":             {unix.ENOENT, unix.EACCES, 0, 0},
	"read":                 {unix.ENOENT, unix.EACCES, 0, 0},
	"write":                {unix.ENOENT, unix.EACCES, unix.EACCES, 0},
	"fsync":                {unix.ENOENT, unix.EACCES, 0, 0},
	"fallocate":            {unix.ENOENT, unix.EACCES, unix.EACCES, 0},
	"lseek":                {unix.ENOENT, unix.EACCES, 0, 0},
	"copy_file_range from": {unix.ENOENT, unix.EACCES, 0, 0},
	"copy_file_range to":   {unix.ENOENT, unix.EACCES, unix.EACCES, 0},
	"readdir":              {unix.ENOENT, 0, 0, 0},
	"readdirplus":          {unix.ENOENT, 0, 0, 0},
	"fsyncdir":             {unix.ENOENT, 0, 0, 0},
	"statfs":               {unix.ENOENT, 0, 0, 0},
	"link from":            {unix.ENOENT, unix.EACCES, unix.EACCES, 0},

	"create":  {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"mknod":   {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"mkdir":   {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"symlink": {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"link":    {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"unlink":  {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"rmdir":   {unix.EACCES, unix.EACCES, unix.EACCES, 0},
	"rename":  {unix.EACCES, unix.EACCES, unix.EACCES, 0},

	"open":        {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"opendir":     {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"flush":       {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"access":      {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"interrupt":   {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"tmpfile":     {unix.EOPNOTSUPP, unix.EOPNOTSUPP, unix.EOPNOTSUPP, unix.EOPNOTSUPP},
	"getxattr":    {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"setxattr":    {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"listxattr":   {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"removexattr": {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"getlk":       {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"setlk":       {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"setlkw":      {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
	"ioctl":       {unix.ENOTTY, unix.ENOTTY, unix.ENOTTY, unix.ENOTTY},
	"statx":       {unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},

	"forget": {}, "release": {}, "releasedir": {},
}

func TestGateIsTheSpecification(t *testing.T) {
	rows := 0
	for o := range table {
		if table[o].name == "" {
			continue
		}
		rows++
		want, ok := wantGate[table[o].name]
		if !ok {
			t.Errorf("operation %d (%q) is not in the specification", o, table[o].name)
			continue
		}
		for _, l := range perm.Levels() {
			if got := Check(Op(o), l); got != want[l] {
				t.Errorf("%s at %v: %v, want %v", table[o].name, l, got, want[l])
			}
		}
	}
	if len(wantGate) != rows {
		t.Errorf("%d operations, %d specified", rows, len(wantGate))
	}
}

func TestGateRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, o := range []Op{OpNone, 7, OpBatchForget, 53, OpUnknown, OpLinkFrom + 1, 255} {
		for _, l := range perm.Levels() {
			if got := Check(o, l); got != unix.ENOSYS {
				t.Errorf("operation %d at %v: %v, want ENOSYS", o, l, got)
			}
		}
	}
	if got := Check(OpGetattr, perm.Write+1); got != unix.ENOENT {
		t.Errorf("a level that is none: %v, want ENOENT", got)
	}
}
