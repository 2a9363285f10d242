package build

import (
	"maps"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"wolffia/internal/image/dockerfile"
)

// platform returns the arguments that are there before the first FROM, and in a stage that declares
// them.
func platform() map[string]string {
	all := map[string]string{}
	for _, of := range []string{"TARGET", "BUILD"} {
		all[of+"PLATFORM"], all[of+"OS"], all[of+"ARCH"], all[of+"VARIANT"] = "linux/"+goruntime.GOARCH, "linux", goruntime.GOARCH, ""
	}
	return all
}

// A lexer replaces variables as BuildKit does.
type lexer struct{ escape rune }

// env returns the variables of lists. A later value of a variable replaces an earlier one.
func env(lists ...[]string) shell.EnvGetter { return shell.EnvsFromSlice(slices.Concat(lists...)) }

// listOf returns variables as a list, sorted.
func listOf(vars map[string]string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		all = append(all, k+"="+vars[k])
	}
	return all
}

// word replaces the variables in a word, and removes its quotes.
func (l lexer) word(text string, vars shell.EnvGetter) (string, error) {
	out, _, err := shell.NewLex(l.escape).ProcessWord(text, vars)
	return out, err
}

// raw is word for a text whose quotes and escapes stay.
func (l lexer) raw(text string, vars shell.EnvGetter) (string, error) {
	lex := shell.NewLex(l.escape)
	lex.RawQuotes, lex.RawEscapes = true, true
	out, _, err := lex.ProcessWord(text, vars)
	return out, err
}

// words is word for a text that becomes several words.
func (l lexer) words(text string, vars shell.EnvGetter) ([]string, error) {
	return shell.NewLex(l.escape).ProcessWords(text, vars)
}

// all replaces the variables in each word.
func (l lexer) all(texts []string, vars shell.EnvGetter) (out []string, err error) {
	for _, text := range texts {
		text, err := l.word(text, vars)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// pairs replaces the variables in pairs, and calls set with each.
func (l lexer) pairs(all []dockerfile.Pair, vars shell.EnvGetter, set func(k, v string)) error {
	for _, p := range all {
		words, err := l.all([]string{p.Key, p.Value}, vars)
		if err != nil {
			return err
		}
		set(words[0], words[1])
	}
	return nil
}

// baseArgs returns the values of the arguments before the first FROM.
func baseArgs(f *dockerfile.File, given map[string]string) (map[string]string, error) {
	l, values := lexer{escapeOf(f)}, platform()
	for _, a := range f.Args {
		v, isGiven := given[a.Key]
		switch {
		case isGiven:
		case a.Value != nil:
			var err error
			if v, err = l.word(*a.Value, env(listOf(values))); err != nil {
				return nil, err
			}
		default:
			continue
		}
		values[a.Key] = v
	}
	return values, nil
}

func escapeOf(f *dockerfile.File) rune {
	for _, r := range f.Escape {
		return r
	}
	return '\\'
}

// sameStage reports whether two names are of one stage.
func sameStage(a, b string) bool { return strings.EqualFold(a, b) && a != "" }
