//go:build generate

package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"

	"github.com/spf13/cobra/doc"
)

// With the tag generate, "wolffia generate DIR" writes the manual pages and the completions for
// shells below DIR, as they are installed below share/. The product lacks it: it would
// link a parser of Markdown.
func init() {
	if len(os.Args) != 3 || os.Args[1] != "generate" {
		return
	}
	if err := generate(os.Args[2]); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

func generate(share string) error {
	root := (&app{Host: &host.Host{Console: new(console.Console)}}).command("")
	root.DisableAutoGenTag = true
	man := filepath.Join(share, "man/man1")
	bash := filepath.Join(share, "bash-completion/completions")
	zsh := filepath.Join(share, "zsh/site-functions")
	fish := filepath.Join(share, "fish/vendor_completions.d")
	for _, dir := range []string{man, bash, zsh, fish} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		// Its date is SOURCE_DATE_EPOCH.
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "wolffia", Manual: "wolffia"}, man),
		root.GenBashCompletionFileV2(filepath.Join(bash, "wolffia"), true),
		root.GenZshCompletionFile(filepath.Join(zsh, "_wolffia")),
		root.GenFishCompletionFile(filepath.Join(fish, "wolffia.fish"), true),
	)
}
