package main

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
		if err := notByDefault(dir, homes); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestHasPlace(t *testing.T) {
	for dir, want := range map[string]bool{
		"/home/ann/src/x": true, "/tmp/x": true, "/work": true, "/run/user/1000/x": true,
		"/usr/src/app": false, "/dev/shm/x": false, "/etc/x": false, "/var/tmp/x": false, "/a\xff": false,
	} {
		if hasPlace(dir) != want {
			t.Errorf("%s: %v", dir, !want)
		}
	}
}

func TestToolDir(t *testing.T) {
	for program, want := range map[string]string{
		"/opt/go/bin/go": "/opt/go", "/opt/bin/x": "/opt/bin", "/home/ann/bin/x": "/home/ann/bin", "/home/ann/.local/bin/x": "/home/ann/.local/bin",
		"/home/ann/.nvm/versions/node/v20/bin/node": "/home/ann/.nvm/versions/node/v20", "/opt/tool/x": "/opt/tool",
	} {
		if got := toolDir(program, []string{"/home/ann"}); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
}
