package gitscan

import (
	"io"
	"os"
	"strings"
)

const (
	maxFile  = 1 << 20 // bytes of a configuration or .git file that are read
	maxLinks = 40      // symbolic links in one path, as the kernel has it
)

// resolve returns an absolute path with all symbolic links followed, as open(2)
// does, and the links that it followed. Names that do not exist stay as they are.
// ok is false if there are more links than the kernel follows.
func resolve(path string) (real string, links []string, ok bool) {
	pending := strings.Split(path, "/")
	for len(pending) > 0 {
		name := pending[0]
		pending = pending[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = real[:max(0, strings.LastIndexByte(real, '/'))]
			continue
		}
		next := real + "/" + name
		target, err := os.Readlink(next)
		if err != nil {
			real = next
			continue
		}
		if links = append(links, next); len(links) > maxLinks {
			return "", links, false
		}
		if strings.HasPrefix(target, "/") {
			real = ""
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	if real == "" {
		real = "/"
	}
	return real, links, true
}

// Reach returns the paths below root, relative to it, that an absolute path depends on:
// the symbolic links that are followed on the way, and the file or directory that it
// leads to, whether or not that exists. root must be absolute and without links.
func Reach(root, path string) []string {
	real, links, ok := resolve(path)
	if ok {
		links = append(links, real)
	}
	var below []string
	for _, p := range links {
		if rel, ok := relative(root, p); ok {
			below = append(below, rel)
		}
	}
	return below
}

// relative returns path relative to root, "." for root itself. ok is false if path is
// not at or below root. Both must be absolute, clean and resolved.
func relative(root, path string) (rel string, ok bool) {
	if path == root {
		return ".", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// readRegular returns the first maxFile bytes of a regular file. It follows links, as
// git does.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}
