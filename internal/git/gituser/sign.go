package gituser

import (
	"strings"
	"unicode/utf8"

	"wolffia/internal/git/gitconfig"
)

// noKey follows the name of a program, so that the whole names a program that does not exist. git
// reports that it cannot run it, and makes no commit or tag. A program that exists and fails would
// not do: git before 2.41 shows nothing of gpg's output, and git 2.39 makes a tag without a
// signature where ssh-keygen fails.
const noKey = ` of the host, whose keys the sandbox does not have: leave the signature out ` +
	`(git commit --no-gpg-sign, git tag --no-sign, git -c commit.gpgSign=false), ` +
	`or sign by ssh: gpg.format=ssh on the host, and wolffia with --socket "$SSH_AUTH_SOCK"`

// signing returns settings by which no commit or tag is unsigned in silence, if the user signs:
// the keys of gpg are on the host, those of ssh with the agent. They come first.
func (r *reader) signing() []gitconfig.Setting {
	if !r.signs {
		return nil
	}
	all := []gitconfig.Setting{{Name: "gpg.program", Value: "gpg" + noKey}, {Name: "gpg.x509.program", Value: "gpgsm" + noKey}}
	if !r.place.Agent { // ssh-keygen stays, to verify
		all = append(all, gitconfig.Setting{Name: "gpg.ssh.defaultkeycommand", Value: "'ssh-agent" + noKey + "'"})
	}
	return all
}

// key returns a signing key as it can be given inside: the public key in place of a file of the
// host's.
func (r *reader) key(value, file string) string {
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~/") {
		return value // a key, or the id of one
	}
	path := r.expand(value, file)
	for _, name := range []string{path, path + ".pub"} {
		words := strings.Fields(r.read(name))
		switch {
		case len(words) < 2 || !utf8.ValidString(words[1]):
		case strings.HasPrefix(words[0], "ssh-"):
			return words[0] + " " + words[1]
		case strings.HasPrefix(words[0], "ecdsa-sha2-"), strings.HasPrefix(words[0], "sk-"):
			return "key::" + words[0] + " " + words[1]
		}
	}
	return value
}
