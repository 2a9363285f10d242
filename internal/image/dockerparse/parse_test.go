package dockerparse

import (
	"strings"
	"testing"

	"wolffia/runtime"
)

func TestParse(t *testing.T) {
	f, err := Parse([]byte("# escape=`\nARG A=1\nFROM --platform=linux/arm64 x AS one\nRUN <<EOF\n#!/bin/sh\necho\nEOF\nRUN --mount=type=cache,target=/c cat <<A && `\n  true\nin\nA\nCMD [\"a\", \"b\"]\nFROM one\n"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Escape != "`" || len(f.Args) != 1 || len(f.Stages) != 2 || f.Stages[0].Name != "one" || f.Stages[0].Platform != "linux/arm64" || f.Stages[1].Line != 13 {
		t.Errorf("got %+v", f)
	}
	steps := f.Stages[0].Steps
	if string(steps[0].Script) != "#!/bin/sh\necho\n" || steps[0].Line != 4 || steps[0].Text != "RUN <<EOF" {
		t.Errorf("a here-document that is a program: got %+v", steps[0])
	}
	if want := "cat <<A &&   true\nin\nA"; len(steps[1].Words) != 1 || steps[1].Words[0] != want || !steps[1].Shell || len(steps[1].Mounts) != 1 || steps[1].Mounts[0].Target != "/c" {
		t.Errorf("a here-document of a command: got %+v, want %q", steps[1], want)
	}
	if steps[2].Shell || len(steps[2].Words) != 2 {
		t.Errorf("got %+v", steps[2])
	}
}

// What is not supported is said, with its line; what is wrong, too.
func TestWrong(t *testing.T) {
	for line, want := range map[string]string{
		"RUN --mount=type=ssh x":                                    "--mount=type=ssh",
		"RUN --mount=type=tmpfs,target=/t x":                        "--mount=type=tmpfs",
		"RUN --mount=type=bind,rw,target=/t x":                      "bind,rw",
		"RUN --mount=type=cache,from=y,target=/t x":                 "from, uid",
		"RUN --mount=type=cache,uid=5,target=/t x":                  "from, uid",
		"RUN --network=host x":                                      "--network=host",
		"RUN --security=insecure x":                                 "--security",
		"ADD https://host.example/x /":                              "not a file",
		"ADD git@host.example:x /":                                  "not a file",
		"ADD --checksum=sha256:" + strings.Repeat("0", 64) + " x /": "--checksum",
		"COPY --parents a /":                                        "--parents",
	} {
		f, err := Parse([]byte("FROM x\n" + line + "\n"))
		if err != nil || !strings.Contains(f.Stages[0].Steps[0].Unsupported, want) {
			t.Errorf("%s: got %+v, %v; want %q", line, f, err, want)
		}
	}
	for text, want := range map[string]string{
		"FROM x\n\nNOTHING\n": "3: ", "FROM x\nCOPY a\n": "2: ", "RUN x\n": "1: ", "FROM x\nRUN --mount=type=none x\n": "2: ",
		"FROM x\nCOPY <<A /\n": "2: ",
	} {
		if _, err := Parse([]byte(text)); runtime.Class(err) != runtime.ErrInvalid || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v; want one that begins with %q", text, err, want)
		}
	}
	if _, err := Parse(make([]byte, maxText+1)); runtime.Class(err) != runtime.ErrInvalid {
		t.Error(err)
	}
}

// No text makes the parser panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte("FROM x\nRUN <<EOF\nx\nEOF\nCOPY --chmod=1 a b /\nHEALTHCHECK --interval=1s CMD x\n"))
	f.Add([]byte("ARG A\nFROM $A AS b\nONBUILD RUN x\nRUN --mount=type=secret,id=a,env=B x\n"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = Parse(text) })
}
