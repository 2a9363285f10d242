package hostdir

import "testing"

func TestNotByDefault(t *testing.T) {
	homes := []string{"/home/ann", "/data/home/bob"}
	for dir, want := range map[string]bool{
		"/": false, "/home": false, "/home/ann": false, "/data/home": false, "/data": false, "/data/home/bob": false,
		"/tmp": false, "/var/tmp": false, "/run/user/1000": false, "/etc/nginx": false, "/usr/lib": false, "/usr/src": false, "/boot": false,
		"/home/ann/.ssh": false, "/home/ann/.local/bin": false, "/root": false, "/dev/shm": false,
		"/home/ann/src": true, "/home/ann/.dotfiles": true, "/home/anna": true, "/tmp/x": true, "/var/www/site": true, "/srv/x": true,
		"/usr/src/app": true, "/usr/local/src/x": true, "/dev/shm/x": true, "/workspace": true, "/work": true, "/etcetera": true,
	} {
		if err := NotByDefault(dir, homes); (err == nil) != want {
			t.Errorf("%s: got err %v; want (err == nil) == %v", dir, err, want)
		}
	}
}

func TestHasPlace(t *testing.T) {
	for dir, want := range map[string]bool{
		"/home/ann/src/x": true, "/tmp/x": true, "/work": true, "/run/user/1000/x": true,
		"/usr/src/app": false, "/dev/shm/x": false, "/etc/x": false, "/var/tmp/x": false, "/a\xff": false,
	} {
		if HasPlace(dir) != want {
			t.Errorf("got dir %s, %v; want HasPlace(dir) == %v", dir, !want, want)
		}
	}
}
