package hint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/internal/shellword"
)

// images are well-known images. Users of docker write one in front of the command.
var images = strings.Fields("almalinux alpine amazonlinux archlinux busybox caddy centos clojure composer debian deno dart " +
	"elixir erlang fedora gcc golang gradle haskell httpd julia mariadb maven memcached mongo mysql nginx node openjdk oven/bun " +
	"perl php postgres python r-base rabbitmq redis rockylinux ruby rust swift traefik ubuntu")

// noImage begins a line about an image in front of the command.
const noImage = "run takes no image in front of the command: "

// isImage reports whether a word that is not a program is the name of an image: a well-known one,
// one with a tag, or one of a registry with a domain.
func isImage(word string) bool {
	name, _, tagged := strings.Cut(word, ":")
	domain, _, below := strings.Cut(name, "/")
	return slices.Contains(images, name) || tagged && name != "" ||
		below && strings.Contains(strings.TrimLeft(domain, "."), ".")
}

// asImage returns the end of the command line that runs a command in the image in front of it.
func asImage(command []string) string {
	text := "--image " + shellword.Quote(command[0])
	if len(command) > 1 {
		text += " -- " + shellword.Join(command[1:])
	}
	return text
}

// imageNote returns a line about a command that has failed in a directory of the host, if its
// program is called as an image and got another program as its argument; else an empty string.
func imageNote(command []string, dir string) string {
	if len(command) < 2 || !slices.Contains(images, command[0]) || strings.Contains(command[1], "/") {
		return ""
	}
	if _, err := exec.LookPath(command[1]); err != nil {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(dir, command[1])); err == nil {
		return "" // the program was to read that
	}
	return fmt.Sprintf("%[1]s ran, and got %[2]s as its argument: %[3]sleave %[1]s out, or write %[4]s",
		command[0], shellword.Quote(command[1]), noImage, asImage(command))
}
