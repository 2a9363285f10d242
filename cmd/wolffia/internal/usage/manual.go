package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"wolffia/docs"
)

const (
	mostSections = 8  // that a search prints
	mostLines    = 4  // of a section that a search prints
	mostColumns  = 74 // of such a line
)

// A section is the part of a page below one heading.
type section struct {
	page    string // its path below docs
	title   string // of the page
	heading string // the page's title, for what is above the first heading
	lines   []string
}

// answerHelp prints what the words after help mean: the help of a command, else a page, else the
// sections that have the words. Words behind a command that takes no other are a question, too. It returns an error if nothing has them. It prints a command's help
// by calling ofCommand.
func answerHelp(help *cobra.Command, words []string, ofCommand func()) error {
	if cmd := wholeHelp(help.Root(), words); cmd != nil {
		return errors.Join(cmd.ParseFlags([]string{"all"}), cmd.Help())
	}
	if cmd, rest, err := help.Root().Find(words); err == nil && cmd.HasParent() && !cmd.HasSubCommands() && len(rest) > 0 {
		if found, err := printFound(help, words); found { // a question, such as "why is my file hidden"
			return err
		}
	}
	err := helpTopic(help, words)
	if err == nil {
		ofCommand()
		return nil
	}
	if cmd, _, _ := help.Root().Find(words[:1]); cmd != nil && cmd.HasParent() {
		return err // a word that is not a command of that command
	}
	if len(words) == 1 {
		if text, found := page(docs.Pages, words[0]); found {
			_, err := io.WriteString(help.OutOrStdout(), text)
			return err
		}
	}
	if found, ferr := printFound(help, words); found {
		return ferr
	}
	return err
}

// printFound prints the sections of the pages that have the words, and reports whether there are any.
func printFound(help *cobra.Command, words []string) (bool, error) {
	sections, err := sectionsOf(docs.Pages)
	if err != nil {
		return true, err
	}
	found := search(sections, words)
	if len(found) == 0 {
		return false, nil
	}
	if use := OtherWords[words[0]]; use != "" && len(words) == 1 {
		fmt.Fprintf(help.OutOrStdout(), "The command for it: %s\n\n", use)
	}
	return true, printSections(help.OutOrStdout(), found, words)
}

// wholeHelp returns the command of which "all" and other words, in any order, want all flags; nil if
// the words mean something else.
func wholeHelp(root *cobra.Command, words []string) *cobra.Command {
	name := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "all" })
	cmd, rest, err := root.Find(name)
	if len(name) == len(words) || err != nil || len(rest) > 0 || !cmd.HasParent() {
		return nil
	}
	return cmd
}

// page returns the page with a name, such as "git", "git.md", "docs/git.md", or "recipes/go". If no
// other page has the name, "go" is a recipe.
func page(pages fs.FS, name string) (text string, found bool) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md") + ".md"
	for _, file := range []string{name, path.Join("recipes", name)} {
		if b, err := fs.ReadFile(pages, file); err == nil {
			return withoutMarkers(string(b)), true
		}
	}
	return "", false
}

// pageAbout returns the name of the page that is about a command; empty if there is none: image has
// images.md.
func pageAbout(cmd *cobra.Command) string {
	for _, name := range []string{cmd.Name() + ".md", cmd.Name() + "s.md"} {
		if _, err := fs.Stat(docs.Pages, name); err == nil && cmd.HasParent() && !cmd.Parent().HasParent() {
			return name
		}
	}
	return ""
}

// pageNames returns the names of pages that begin with some text, as a completion.
func pageNames(pages fs.FS, begun string) (names []string) {
	for _, pattern := range []string{"*.md", "recipes/*.md"} {
		files, _ := fs.Glob(pages, pattern) // the pattern is valid
		for _, file := range files {
			if strings.HasPrefix(file, begun) {
				names = append(names, file+"\ta page of the documents")
			}
		}
	}
	return names
}

// withoutMarkers returns a page without the comments that tests look for.
func withoutMarkers(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "<!--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// sectionsOf returns the sections of all pages: those of the questions first, since each is an
// answer, the index of the recipes last.
func sectionsOf(pages fs.FS) (all []section, err error) {
	err = fs.WalkDir(pages, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(pages, file)
		all = append(all, split(file, withoutMarkers(string(text)))...)
		return err
	})
	rank := map[string]int{"faq.md": -2, "getting-started.md": -1, "recipes/README.md": 1}
	slices.SortStableFunc(all, func(a, b section) int { return cmp.Compare(rank[a.page], rank[b.page]) })
	return all, err
}

// split returns the sections of a page. A paragraph is one line of a section.
func split(file, text string) (all []section) {
	code, goesOn := false, false // in a block of code, in a paragraph
	title := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code, goesOn = !code, false
			continue
		}
		if heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && !code && line[0] == '#' {
			title, goesOn = cmp.Or(title, heading), false
			all = append(all, section{page: file, title: title, heading: heading})
			continue
		}
		prose := !code && !isListed(line)
		switch n := len(all) - 1; {
		case n < 0:
		case strings.TrimSpace(line) == "":
			goesOn = false
		case goesOn && prose:
			lines := all[n].lines
			lines[len(lines)-1] += " " + strings.TrimSpace(line)
		default:
			all[n].lines = append(all[n].lines, line)
			goesOn = !code && !strings.HasPrefix(line, "|")
		}
	}
	return all
}

// isListed reports whether a line begins an item of a list or a row of a table.
func isListed(line string) bool {
	number := strings.TrimLeft(line, "0123456789")
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|") || strings.HasPrefix(number, ". ")
}

// search returns the sections that have the most of some words, the best first: a word in a heading
// counts more than in the page's name, and that more than in the text.
func search(sections []section, words []string) (found []section) {
	type hit struct {
		section
		words, score int
	}
	words = plain(words)
	var hits []hit
	for _, s := range sections {
		h := hit{section: s}
		text, heading := strings.ToLower(strings.Join(s.lines, "\n")), strings.ToLower(s.heading)
		name := strings.ToLower(s.page + " " + s.title)
		for _, word := range words {
			inHeading, inText := min(count(heading, word), 1), min(count(text, word), 5)
			if inHeading+inText > 0 {
				h.words++
				h.score += 20*inHeading + 5*min(count(name, word), 1) + inText
			}
		}
		if h.words > 0 {
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.words, a.words), cmp.Compare(b.score, a.score))
	})
	for _, h := range hits {
		if h.words == hits[0].words {
			found = append(found, h.section)
		}
	}
	return found
}

// plain returns words as they are searched for: without the signs of flags and sentences.
func plain(words []string) (out []string) {
	for _, word := range words {
		out = append(out, strings.Trim(strings.ToLower(word), "-?!."))
	}
	return out
}

// count returns how often words that begin with a word are in a text.
func count(text, word string) (n int) {
	if word == "" {
		return 0
	}
	for at := 0; ; at += len(word) {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return n
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if at == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			n++
		}
	}
}

// printSections prints some lines of the sections that a search has found.
func printSections(w io.Writer, found []section, words []string) error {
	var b strings.Builder
	for _, s := range found[:min(len(found), mostSections)] {
		fmt.Fprintf(&b, "%s: %s\n", s.page, s.heading)
		for _, line := range excerpt(s, plain(words)) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		b.WriteString("\n")
	}
	if more := len(found) - mostSections; more > 0 {
		fmt.Fprintf(&b, "%d more sections have it: add a word, as in wolffia help share cache.\n", more)
	}
	fmt.Fprintf(&b, "wolffia help %s prints the whole page.\n", found[0].page)
	_, err := io.WriteString(w, b.String())
	return err
}

// excerpt returns the first lines of a section, broken to the width of a terminal; if its heading
// has none of the words, those from the first line on that has one.
func excerpt(s section, words []string) (out []string) {
	has := func(text string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return count(strings.ToLower(text), word) > 0 })
	}
	lines := s.lines
	if i := slices.IndexFunc(lines, has); i > 0 && !has(s.heading) {
		lines = lines[i:]
	}
	links := regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`) // here, so that no other command compiles it
	for _, line := range lines {
		if ruler := line[0] == '|' && strings.Trim(line, "|- ") == ""; !ruler {
			out = append(out, broken(links.ReplaceAllString(strings.ReplaceAll(line, "**", ""), "$1"))...)
		}
	}
	return out[:min(len(out), mostLines)]
}

// broken returns a line in pieces of at most mostColumns, if its words are not longer.
func broken(line string) (pieces []string) {
	line, indent := strings.TrimSpace(line), ""
	for len(indent+line) > mostColumns {
		end := strings.LastIndexByte(line[:mostColumns-len(indent)+1], ' ')
		if end < 0 {
			end = strings.IndexByte(line, ' ')
		}
		if end < 0 {
			break
		}
		pieces = append(pieces, indent+strings.TrimRight(line[:end], " "))
		line, indent = strings.TrimLeft(line[end:], " "), "  "
	}
	return append(pieces, indent+line)
}
