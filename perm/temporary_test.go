package perm

import "testing"

// Programs of the host write a file with secrets by another name for a moment. Where that
// is made from the name of the file, it is hidden with it. Where it is not, nothing tells
// that it is a secret's: SECURITY.md says so, and this test which ones those are.
func TestTemporaryNamesOfSecrets(t *testing.T) {
	p := mustCompile(t, preset(t, DefaultPreset)...)
	for name, by := range map[string]string{
		".env.swp": "nano", "..env.swp": "vim", "..env.swo": "vim", ".env~": "vim, emacs, patch",
		".env.tmp": "many", ".env.bak": "sed -i.bak", ".env.1234": "write-file-atomic", ".env.lock": "git and others",
		".npmrc.1234567": "npm", ".npmrc~": "an editor", ".env.orig": "patch", ".env.save": "nano",
	} {
		if l := p.Level(name, false); l != None {
			t.Errorf("%s, as %s names it, is at %v", name, by, l)
		}
	}
	for name, by := range map[string]string{
		"sedAbC123": "sed -i", "4913": "vim, which writes nothing to it", ".goutputstream-ABC123": "GLib",
		"tmpabcd1234": "python's tempfile",
	} {
		if l := p.Level(name, false); l == None {
			t.Errorf("%s, as %s names it, is hidden: SECURITY.md says that it is not", name, by)
		}
	}
}
