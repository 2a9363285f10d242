package gitsync

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/hostgit"
)

// Bounds of the configuration that a repository arrives with.
const (
	maxSettings = 500
	maxValue    = 1000 // bytes
)

// Addresses of remotes that cross: none names a program, or a place on the host.
var (
	urlAddress = regexp.MustCompile(`^(?:https?|ssh|git)://(?:[A-Za-z0-9_][A-Za-z0-9._~%!$&()*+,;=:-]*@)?[A-Za-z0-9\[][^\x00-\x20\x7f\\]*$`)
	scpAddress = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^\x00-\x20\x7f:\\-][^\x00-\x20\x7f\\]*$`)
)

// arrivalConfig returns those settings of a configuration that a sandbox wrote with which its repository arrives on the
// host: the identity, remotes, and which branch follows which. It also returns the format of the names of objects,
// "" for the usual one, and lines about the remotes that are left out.
func arrivalConfig(text string) (kept []gitconfig.Setting, format string, left []string) {
	all, err := gitconfig.Parse(text)
	if err != nil {
		return nil, "", nil // git inside refuses it too
	}
	known, follows := make(map[string]bool), make(map[string]bool) // remotes, and branches that follow one of them
	for _, s := range all {
		name, is := remoteOf(&s, "url")
		if !is || len(known) >= maxSettings {
			continue
		}
		plain := s
		if s.Credential() {
			if plain, is = s.WithoutCredential(); !is {
				continue
			}
		}
		if nameFault(name) != "" || !crosses(plain.Value) {
			left = append(left, `the remote "`+hostgit.Printable(s.Value[:min(len(s.Value), 100)])+`" is left out`)
			continue
		}
		known[name] = true
		kept = append(kept, plain)
	}
	for _, s := range all {
		if len(kept) >= maxSettings {
			break
		}
		switch s.Name {
		case "user.name", "user.email":
			if plainValue(s.Value) {
				kept = append(kept, s)
			}
			continue
		case "extensions.objectformat":
			if s.Value == "sha256" {
				format = s.Value
			}
			continue
		}
		if name, is := remoteOf(&s, "fetch"); is && known[name] && followsAll(s.Value, name) {
			kept = append(kept, s)
		}
		branch, is := s.Sub()
		if s.Section() != "branch" || !is || nameFault(branch) != "" {
			continue
		}
		merge, isBranch := strings.CutPrefix(s.Value, heads)
		if s.Key() == "remote" && (known[s.Value] || s.Value == ".") {
			follows[branch] = true
			kept = append(kept, s)
		} else if s.Key() == "merge" && isBranch && nameFault(merge) == "" {
			kept = append(kept, s)
		}
	}
	kept = slices.DeleteFunc(kept, func(s gitconfig.Setting) bool {
		branch, _ := s.Sub()
		return s.Section() == "branch" && !follows[branch]
	})
	return kept, format, left
}

// remoteOf returns the name of the remote that a setting with the given key is of.
func remoteOf(s *gitconfig.Setting, key string) (name string, is bool) {
	name, is = s.Sub()
	return name, is && s.Section() == "remote" && s.Key() == key && !s.Bare
}

// crosses reports whether an address of a remote may be in the host's configuration.
func crosses(address string) bool {
	return len(address) <= maxValue && utf8.ValidString(address) && hostgit.Printable(address) == address &&
		(urlAddress.MatchString(address) || scpAddress.MatchString(address))
}

// followsAll reports whether a fetch setting has the branches of a remote, or one of them, at their usual place.
func followsAll(value, remote string) bool {
	from, to, is := strings.Cut(strings.TrimPrefix(value, "+"), ":")
	branch, isBranch := strings.CutPrefix(from, heads)
	return is && isBranch && (branch == "*" || nameFault(branch) == "") && to == remotes+remote+"/"+branch
}

func plainValue(s string) bool {
	return s != "" && len(s) <= 200 && utf8.ValidString(s) && !strings.ContainsAny(s, "\n\t") && hostgit.Printable(s) == s
}
