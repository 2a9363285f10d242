package session_test

import "testing"

func TestBasics(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			s.alive(t)
			s.alive(t)
			if r := s.run(t, "cd /usr; x=1; printf 'a\\0b\\377'"); r.stdout != "a\x00b\xff" || r.Cwd != "/usr" || r.Code != 0 {
				t.Errorf("%v", r)
			}
			if got := s.exec(t, "echo $x; pwd"); got != "1\n/usr\n" {
				t.Errorf("%q", got)
			}
			if r := s.run(t, "exit 3"); r.Code != 3 || !r.SessionEnded {
				t.Errorf("%v", r)
			}
			if r := s.run(t, "echo $x; pwd"); r.stdout != "1\n/usr\n" || r.Restored == "" {
				t.Errorf("%v", r)
			}
			s.alive(t)
		})
	}
}
