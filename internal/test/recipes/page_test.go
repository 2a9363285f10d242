package recipes

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// A step is a part of a page that is tried.
type step struct {
	line  int
	file  string   // the file to write, with text as its content; or empty
	text  string   // what the shell evaluates
	needs []string // programs without which it is left out
	says  string   // what is printed, with "..." for any text
	check bool     // says is what is printed
	fails bool     // a code other than 0 is expected: the next command shows it
	admin bool     // it changes the machine: for a bare one only
	root  bool     // on a bare machine root does it, as in a container
}

var (
	fence   = regexp.MustCompile("(?ms)^```([a-z]*) ?([^\n]*)\n(.*?)^```$")
	changes = regexp.MustCompile(`\b(sudo|apt-get|WOLFFIA_DEB)\b`)
)

// parse returns the steps of a page. A fenced block says what it is after its language:
//
//	sh install           how a bare machine gets the toolchain; scripts/bare reads it
//	sh recipe [PROGRAM]  is evaluated, and ends with 0
//	console recipe [PROGRAM]  each line after "$ " is evaluated, and prints the lines below
//	LANGUAGE file PATH   is a file of the project
//	LANGUAGE job PATH    is one too, whose commands are tried
//	LANGUAGE elsewhere   is for another machine: only read
func parse(text string) (steps []step, err error) {
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		language, body := text[m[2]:m[3]], text[m[6]:m[7]]
		words := append(strings.Fields(text[m[4]:m[5]]), "")
		s := step{line: strings.Count(text[:m[0]], "\n") + 2, text: body, needs: words[1 : max(2, len(words))-1]}
		switch kind := words[0]; {
		case kind == "install" && language == "sh", kind == "elsewhere":
		case kind == "recipe" && language == "sh":
			steps = append(steps, s)
		case kind == "recipe" && language == "console":
			all, err := commands(s)
			if err != nil {
				return nil, err
			}
			steps = append(steps, all...)
		case (kind == "file" || kind == "job") && len(words) == 3:
			s.file, s.needs = words[1], nil
			steps = append(steps, s)
			if kind == "job" {
				all, err := jobs(s)
				if err != nil {
					return nil, err
				}
				steps = append(steps, all...)
			}
		default:
			return nil, fmt.Errorf("line %d: a block of %s %q: it says neither how it is tried nor why not", s.line-1, language, words)
		}
	}
	for i := range steps {
		steps[i].admin = steps[i].file == "" && changes.MatchString(steps[i].text)
	}
	return steps, nil
}

// commands are those of a console.
func commands(block step) (all []step, err error) {
	for i, line := range slices.Collect(strings.Lines(block.text)) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			if n := len(all); n > 0 && strings.TrimSpace(command) == "echo $?" {
				all[n-1].fails = true
			}
			all = append(all, step{line: block.line + i, text: command, needs: block.needs, check: true})
			continue
		}
		last := len(all) - 1
		if last < 0 {
			return nil, fmt.Errorf("line %d: a console begins with a command", block.line)
		}
		if more, is := strings.CutPrefix(line, "> "); is && all[last].says == "" {
			all[last].text += more
			continue
		}
		all[last].says += line
	}
	return all, nil
}

// jobs are the commands of a file for another program: GitHub Actions, GitLab, Kubernetes.
func jobs(file step) (all []step, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(file.text), yaml.Strict())
	for {
		var document map[string]any
		if err := decoder.Decode(&document); err != nil {
			if len(all) > 0 && err.Error() == "EOF" {
				return all, nil
			}
			return nil, fmt.Errorf("line %d: %s: %w", file.line, file.file, err)
		}
		_, pod := document["spec"]
		_, workflow := document["on"]
		for _, text := range run(document) {
			all = append(all, step{line: file.line, text: text, root: !pod && !workflow})
		}
	}
}

// run returns the commands in a document: in "run" and "script", and a pod's "args".
func run(node any) (texts []string) {
	switch node := node.(type) {
	case []any:
		for _, n := range node {
			texts = append(texts, run(n)...)
		}
	case map[string]any:
		keys := []string{"before_script", "script", "run", "args"}
		for _, key := range keys {
			switch v := node[key].(type) {
			case string:
				texts = append(texts, v)
			case []any:
				var words []string
				for _, w := range v {
					words = append(words, fmt.Sprint(w))
				}
				if key == "args" {
					texts = append(texts, "'"+strings.Join(words, "' '")+"'")
					continue
				}
				texts = append(texts, words...)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(node)) {
			if !slices.Contains(keys, name) {
				texts = append(texts, run(node[name])...)
			}
		}
	}
	return texts
}

// matches reports whether a command prints what a page says: "..." is any text, and alone
// on a line any lines.
func matches(says, printed string) bool {
	var pattern bytes.Buffer
	pattern.WriteString(`^`)
	for line := range strings.Lines(says) {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
	}
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	pattern.WriteString(`$`)
	return regexp.MustCompile(pattern.String()).MatchString(printed)
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		says, printed string
		want          bool
	}{
		{"", "", true},
		{"", "x\n", false},
		{"a\n", "a\n", true},
		{"a\n", "ab\n", false},
		{"a...c\n", "abbbc\n", true},
		{"a...c\n", "a\nc\n", false},
		{"a\n...\nc\n", "a\nb\nb\nc\n", true},
		{"a\n...\nc\n", "a\nc\n", true},
		{"a\n...\n", "b\n", false},
	} {
		if got := matches(c.says, c.printed); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.says, c.printed, got)
		}
	}
}

func TestParse(t *testing.T) {
	page := "# X\n\n```sh install\nsudo apt install x\n```\n```console recipe tool\n$ a\n> b\nsaid\n$ false\n$ echo $?\n1\n```\n" +
		"```yaml job ci.yml\nscript:\n  - one\n  - sudo two\n```\n"
	steps, err := parse(page)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%d %s %q %v %q %v %v", s.line, s.file, s.text, s.needs, s.says, s.fails, s.admin))
	}
	want := []string{
		`7  "a\nb\n" [tool] "said\n" false false`,
		`10  "false\n" [tool] "" true false`,
		`11  "echo $?\n" [tool] "1\n" false false`,
		`15 ci.yml "script:\n  - one\n  - sudo two\n" [] "" false false`,
		`15  "one" [] "" false false`,
		`15  "sudo two" [] "" false true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, bad := range []string{"```sh\nx\n```\n", "```\nx\n```\n", "```console recipe\nx\n```\n", "```yaml job x\na: [\n```\n"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("no error of %q", bad)
		}
	}
}
