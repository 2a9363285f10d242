// Package steps makes Dockerfiles of the steps of E2B's templates.
package steps

import (
	"encoding/json"
	"strings"

	"wolffia/runtime"
)

func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

func unsupported(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrUnsupported, format, args...)
}

// A Request is the body of POST /v2/templates/{id}/builds/{build}.
type Request struct {
	FromImage    string          `json:"fromImage"`
	FromTemplate string          `json:"fromTemplate"`
	Registry     json.RawMessage `json:"fromImageRegistry"`
	Steps        []Step          `json:"steps"`
	Start        string          `json:"startCmd"`
	Ready        string          `json:"readyCmd"`
	Force        bool            `json:"force"`
}

// A Step is one instruction.
type Step struct {
	Type string   `json:"type"`
	Args []string `json:"args"`
	Hash string   `json:"filesHash"` // of COPY
}

// at returns an argument; empty: it is missing.
func (s *Step) at(n int) string {
	if n < len(s.Args) {
		return s.Args[n]
	}
	return ""
}

// login runs a command as E2B does, where the image has bash.
const login = `[ -x /bin/bash ] && exec /bin/bash -l -c "$1"; exec /bin/sh -c "$1"`

// ReadyMark is $0 of the shell of a template's start command: its $1 is the ready command.
const ReadyMark = "e2b-ready"

// Dockerfile returns the steps as a Dockerfile. uploaded reports whether files were sent. The error
// wraps [runtime.ErrInvalid], or [runtime.ErrUnsupported] with the step that the builder does not
// have.
func (q *Request) Dockerfile(uploaded func(hash string) bool) (string, error) {
	if len(q.Registry) > 0 && string(q.Registry) != "null" {
		return "", unsupported("fromImageRegistry: the service takes no credentials: pull the image on its host")
	}
	if q.FromImage == "" || strings.ContainsAny(q.FromImage, " \t\r\n\\$") || strings.HasPrefix(q.FromImage, "-") {
		return "", invalid("fromImage %.100q: it must be the name of an image", q.FromImage)
	}
	// RUN and relative paths begin at E2B's home
	lines := []string{"FROM " + q.FromImage, "WORKDIR /home/user"}
	user := "root" // who is in force
	for n := range q.Steps {
		s := &q.Steps[n]
		more, err := s.lines(&user, uploaded)
		if err != nil {
			return "", err
		}
		lines = append(lines, more...)
	}
	command := []string{}
	if q.Start != "" {
		command = []string{"/bin/bash", "-l", "-c", q.Start, ReadyMark, q.Ready}
	} else if q.Ready != "" {
		return "", unsupported("readyCmd: it needs a startCmd")
	}
	lines = append(lines, "ENTRYPOINT []", "CMD "+quoted(command))
	return strings.Join(lines, "\n") + "\n", nil
}

// quoted returns a text or texts as JSON, which a Dockerfile has on one line.
func quoted(v any) string {
	var text strings.Builder
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false) // logs have it
	_ = to.Encode(v)        // never fails: it has texts
	return strings.TrimSuffix(text.String(), "\n")
}

// lines returns the instructions of a step. user is the user in force.
func (s *Step) lines(user *string, uploaded func(string) bool) ([]string, error) {
	switch s.Type {
	case "RUN":
		lines := []string{"RUN " + quoted([]string{"/bin/sh", "-c", login, "sh", s.at(0)})}
		if as := s.at(1); as != "" && as != *user {
			if !isWord(as) {
				return nil, invalid("RUN: user %.100q", as)
			}
			lines = []string{"USER " + userOf(as), lines[0], "USER " + userOf(*user)}
		}
		return lines, nil
	case "USER":
		if !isWord(s.at(0)) {
			return nil, invalid("USER: user %.100q", s.at(0))
		}
		*user = s.at(0)
		return []string{"USER " + userOf(*user)}, nil
	case "WORKDIR":
		if !plain(s.at(0)) {
			return nil, invalid("WORKDIR: path %.100q: it must have a name, and one line", s.at(0))
		}
		return []string{"WORKDIR " + word(s.at(0))}, nil
	case "ENV":
		if len(s.Args) == 0 || len(s.Args)%2 != 0 {
			return nil, invalid("ENV: it must have names and values")
		}
		var lines []string
		for n := 0; n < len(s.Args); n += 2 {
			if !isWord(s.Args[n]) || strings.ContainsAny(s.Args[n+1], "\r\n") {
				return nil, invalid("ENV %.100q: the name must be a word, and the value one line", s.Args[n])
			}
			lines = append(lines, "ENV "+s.Args[n]+"="+word(s.Args[n+1]))
		}
		return lines, nil
	case "COPY":
		return s.copy(*user, uploaded)
	}
	return nil, unsupported("step %.40q: the builder has RUN, COPY, ENV, WORKDIR and USER: use wolffia build", s.Type)
}

// copy returns the instruction of COPY: source, target, user and mode.
func (s *Step) copy(user string, uploaded func(string) bool) ([]string, error) {
	from, to, as, mode := s.at(0), s.at(1), s.at(2), s.at(3)
	switch {
	case !IsDigest(s.Hash) || !uploaded(s.Hash):
		return nil, invalid("COPY %.100q: its files were not uploaded", from)
	case from == "" || to == "" || strings.HasPrefix(from, "/") || strings.ContainsAny(from+to, "\r\n"):
		return nil, invalid("COPY %.100q: the source must be relative, and the target a path", from)
	case as != "" && !isWord(strings.ReplaceAll(as, ":", "")) || mode != "" && strings.Trim(mode, "01234567") != "":
		return nil, invalid("COPY: user %.40q, mode %.40q", as, mode)
	}
	line := "COPY "
	if as == "" {
		as = user
	}
	if as = userOf(as); as != "root" {
		line += "--chown=" + as + " "
	}
	if mode != "" {
		line += "--chmod=" + mode + " "
	}
	return []string{line + quoted([]string{word(s.Hash + "/" + strings.TrimPrefix(from, "./")), word(to)})}, nil
}

// userOf returns a user of a build: E2B's "user" is the sandbox's own, whose files those of root in
// an image are.
func userOf(name string) string {
	if name == "user" {
		return "root"
	}
	return name
}

// isWord reports whether a text is one word of a Dockerfile.
func isWord(s string) bool {
	other := func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("_-.", c)
	}
	return s != "" && !strings.ContainsFunc(s, other) && s[0] != '-'
}

// plain reports whether a text is a path that a line can have.
func plain(s string) bool { return s != "" && !strings.ContainsAny(s, "\r\n") }

// word returns a text as one word of a Dockerfile, which has it as it is.
func word(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}

// IsDigest reports whether a text can be the digest of uploaded files, which is a file's name.
func IsDigest(s string) bool {
	return len(s) >= 32 && len(s) <= 128 && strings.Trim(s, "0123456789abcdef") == ""
}
