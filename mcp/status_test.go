package mcp

import "testing"

// A client that may be on another machine is not told the path of an image in files.
func TestImageName(t *testing.T) {
	for name, remote := range map[string]string{
		"": "", "docker.io/library/busybox:1.36": "docker.io/library/busybox:1.36",
		"docker-archive:/srv/images/tool.tar": "", "oci:/srv/images/layout:v1": "",
	} {
		if got := (&Options{Remote: true}).imageName(name); got != remote {
			t.Errorf("%s, remote: %q", name, got)
		}
		if got := (&Options{}).imageName(name); got != name {
			t.Errorf("imageName: got name %s, %q; want got == %q", name, got, name)
		}
	}
}
