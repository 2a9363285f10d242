package usage

import "github.com/spf13/cobra"

// Near returns the names that are like a word, by cobra's measure for commands.
func Near(names []string, word string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: distance(word)}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return all.SuggestionsFor(word)
}

// distance is by how many letters a name that is like a word may differ.
func distance(word string) int { return max(0, min(2, len(word)-1)) }
