package guest

import "testing"

func TestFindUser(t *testing.T) {
	for who, want := range map[string][2]int{"root": {0, 0}, "0": {0, 0}, "60001": {60001, 0}, "60001:7": {60001, 7}, "root:60002": {0, 60002}} {
		id, err := FindUser(who)
		if err != nil || id.UID != want[0] || id.GID != want[1] {
			t.Errorf("%s: %+v, %v", who, id, err)
		}
	}
	for _, who := range []string{"", "no-such-user", "70000", "-1", "root:no-such-group", "root:"} {
		if id, err := FindUser(who); err == nil {
			t.Errorf("%q: %+v", who, id)
		}
	}
}
