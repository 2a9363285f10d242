package hint

import "testing"

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
