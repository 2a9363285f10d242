package usage

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"wolffia/docs"
)

func headings(sections []section) (all []string) {
	for _, s := range sections {
		all = append(all, s.page+": "+s.heading)
	}
	return all
}

func TestSplit(t *testing.T) {
	got := split("a.md", "# Title\n\nAbove.\n\n## One\n```\n# not a heading\n\ncommand\n```\nA long\nsentence.\n- One,\n  two.\n- Three.\n\n| a |\n| b |\n### Two\n")
	if want := []string{"a.md: Title", "a.md: One", "a.md: Two"}; !slices.Equal(headings(got), want) {
		t.Fatalf("sections %q, want %q", headings(got), want)
	}
	if want := []string{"# not a heading", "command", "A long sentence.", "- One, two.", "- Three.", "| a |", "| b |"}; !slices.Equal(got[1].lines, want) || got[1].title != "Title" {
		t.Errorf("the section One has the lines %q of %q, want %q", got[1].lines, got[1].title, want)
	}
}

func TestSearch(t *testing.T) {
	sections, err := sectionsOf(fstest.MapFS{
		"faq.md":   {Data: []byte("# Questions\n## Share a cache\nUse it.\n## Hang\nNo cache.\n")},
		"cache.md": {Data: []byte("# Caches\nA directory.\n## Share\nA mycache, shared.\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ words, want string }{
		{"cache", "cache.md: Caches, faq.md: Share a cache, faq.md: Hang"},
		{"CACHE?", "cache.md: Caches, faq.md: Share a cache, faq.md: Hang"},
		{"share cache", "faq.md: Share a cache"},
		{"share cache nosuch", "faq.md: Share a cache"},
		{"--direct", "cache.md: Caches"},
		{"ache", ""},
		{"nosuch", ""},
		{"-", ""},
	} {
		if got := strings.Join(headings(search(sections, strings.Fields(test.words))), ", "); got != test.want {
			t.Errorf("search for %q finds %q, want %q", test.words, got, test.want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	s := section{heading: "Ports", lines: []string{"one", "| --- | --- |", "a **[link](x.md)** of two", "three", "four", "five"}}
	for _, test := range []struct{ word, want string }{
		{"port", "one|a link of two|three|four"},
		{"two", "a link of two|three|four|five"},
	} {
		if got := strings.Join(excerpt(s, []string{test.word}), "|"); got != test.want {
			t.Errorf("the excerpt for %q is %q, want %q", test.word, got, test.want)
		}
	}
}

func TestBroken(t *testing.T) {
	long := strings.Repeat("x", mostColumns)
	for _, test := range []struct{ line, want string }{
		{"", ""},
		{"short line", "short line"},
		{long, long},
		{long + "y", long + "y"},
		{long + " a b", long + "|  a b"},
		{"a " + long + " b", "a|  " + long + "|  b"},
		{strings.Repeat("ab ", 30), strings.Repeat("ab ", 24) + "ab|  ab ab ab ab ab"},
	} {
		if got := strings.Join(broken(test.line), "|"); got != test.want {
			t.Errorf("%q is broken to %q, want %q", test.line, got, test.want)
		}
	}
}

func TestPage(t *testing.T) {
	for _, name := range []string{"git", "git.md", "docs/git.md"} {
		if text, found := page(docs.Pages, name); !found || !strings.HasPrefix(text, "# Git\n") {
			t.Errorf("page %q begins with %.20q (%v)", name, text, found)
		}
	}
	if text, found := page(docs.Pages, "toolchains"); !found || strings.Contains(text, "<!--") {
		t.Errorf("page toolchains has markers (%v)", found)
	}
	for _, name := range []string{"go", "recipes/go"} {
		if text, found := page(docs.Pages, name); !found || !strings.HasPrefix(text, "# Go\n") {
			t.Errorf("page %q begins with %.20q (%v)", name, text, found)
		}
	}
	for _, name := range []string{"nosuch", "", "../README", "pages.go"} {
		if _, found := page(docs.Pages, name); found {
			t.Errorf("page %q is found", name)
		}
	}
}

// TestQuestions: what users ask leads to the answer.
func TestQuestions(t *testing.T) {
	sections, err := sectionsOf(docs.Pages)
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"share cache":           "Share a cache",
		"why is my file hidden": "Why is my file hidden",
		"allow pypi":            "Allow PyPI, npm or another host",
		"get files out":         "Get files out",
		"reboot":                "What happens at a reboot",
		"100 at once":           "100 sandboxes at once",
		"upgrade":               "Upgrade",
		"uninstall":             "Uninstall",
		"denied yesterday":      "What was denied yesterday",
		"hang":                  "Debug a hang",
	} {
		if found := search(sections, strings.Fields(question)); len(found) == 0 || found[0].page != "faq.md" || found[0].heading != want {
			t.Errorf("%q finds %q, want %q of faq.md first", question, headings(found), want)
		}
	}
}
