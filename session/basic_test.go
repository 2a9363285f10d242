package session_test

import "testing"

func TestBasics(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			s.alive(t)
			s.alive(t)
			if r := s.run(t, "cd /usr; x=1; printf 'a\\0b\\377'"); r.stdout != "a\x00b\xff" || r.Cwd != "/usr" || r.Code != 0 {
				t.Errorf(`run %q: got r %v; want r.stdout == %q and r.Cwd == "/usr" and r.Code == 0`,
					"cd /usr; x=1; printf 'a\\0b\\377'", r, "a\x00b\xff")
			}
			if got := s.exec(t, "echo $x; pwd"); got != "1\n/usr\n" {
				t.Errorf(`exec "echo $x; pwd": got %q, want %q`, got, "1\n/usr\n")
			}
			if r := s.run(t, "exit 3"); r.Code != 3 || !r.SessionEnded {
				t.Errorf(`run "exit 3": got r %v; want r.Code == 3 and r.SessionEnded`, r)
			}
			if r := s.run(t, "echo $x; pwd"); r.stdout != "1\n/usr\n" || r.Restored == "" {
				t.Errorf(`run "echo $x; pwd": got r %v; want r.stdout == %q and r.Restored != ""`, r, "1\n/usr\n")
			}
			s.alive(t)
		})
	}
}
