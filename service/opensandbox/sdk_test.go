package opensandbox_test

import (
	"path/filepath"
	"testing"

	"wolffia/internal/test/packaged"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// The official SDK of OpenSandbox for JavaScript drives a service: in a full test all of its methods. Its version, and those of
// what it depends on, are in testdata/sdk/package-lock.json, with their digests.
func TestSDK(t *testing.T) {
	testenv.Tools(t, "python3")
	drive := "short.mjs"
	if testenv.Full() {
		drive = "drive.mjs"
	}
	dir := packaged.Node(t, filepath.Join("testdata", "sdk"))
	w := &world{servetest.New(t, keyAll)}
	if text, err := packaged.Run(t, dir, nil, "node", drive, w.Address, keyAll); err != nil {
		t.Errorf(`node: got err %v, text %s, %s; want err == nil`, err, text, w.Log.String())
	}
}
