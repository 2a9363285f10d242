package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// MaxSize is how large all files of the page may be together, in bytes.
const MaxSize = 400_000

// packages are those of npm that the page has, each with the name of its licence.
var packages = []string{"@xterm/xterm", "@xterm/addon-fit"}

// static are files that are copied as they are.
var static = []string{"index.html", "icon.svg"}

// bundle returns the files of the page by name. web has the sources, modules the packages of npm.
func bundle(web, modules string) (map[string][]byte, error) {
	web, err := filepath.Abs(web)
	if err != nil {
		return nil, err
	}
	modules, err = filepath.Abs(modules)
	if err != nil {
		return nil, err
	}
	built := api.Build(api.BuildOptions{
		AbsWorkingDir: web,
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "src/main.ts", OutputPath: "console"},
			{InputPath: "src/console.css", OutputPath: "console"},
		},
		Outdir: filepath.Join(web, "dist"), ChunkNames: "[name]",
		Bundle: true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8,
		MinifyIdentifiers: true, MinifySyntax: true, MinifyWhitespace: true,
		MangleProps: "^_[a-z]", LegalComments: api.LegalCommentsNone, // the texts are in LICENCES.txt
		NodePaths: []string{modules}, Plugins: []api.Plugin{patch},
		TsconfigRaw: `{"compilerOptions": {"useDefineForClassFields": true}}`,
	})
	if len(built.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(built.Errors, api.FormatMessagesOptions{}), "\n"))
	}
	files := make(map[string][]byte)
	for _, f := range built.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range static {
		if files[name], err = os.ReadFile(filepath.Join(web, "src", name)); err != nil {
			return nil, err
		}
	}
	if files["LICENCES.txt"], err = licences(modules); err != nil {
		return nil, err
	}
	size := 0
	for _, text := range files {
		size += len(text)
	}
	if size > MaxSize {
		return nil, fmt.Errorf("the page has %d bytes: make it smaller than %d", size, MaxSize)
	}
	return files, nil
}

// A change replaces each text that matches from in xterm.js. It must match so many times: another version may
// need another change.
type change struct {
	from  *regexp.Regexp
	to    string
	times int
}

// changes make xterm.js work under a content security policy without inline styles: element <w-style>, in
// src/style.ts, has styles as <style> does, by an adopted style sheet.
var changes = []change{
	{regexp.MustCompile(`\.createElement\("style"\)`), `.createElement("w-style")`, 3},
	{regexp.MustCompile("(\\w+)\\.setAttribute\\(\"style\",`\\$\\{\\w+\\.getAttribute\\(\"style\"\\)\\|\\|\"\"\\}\\$\\{(\\w+)\\};`\\)"), "$1.style.cssText+=$2", 1},
}

// patch makes the changes of xterm.js.
var patch = api.Plugin{Name: "patch", Setup: func(b api.PluginBuild) {
	b.OnLoad(api.OnLoadOptions{Filter: `/xterm\.mjs$`}, func(f api.OnLoadArgs) (api.OnLoadResult, error) {
		raw, err := os.ReadFile(f.Path)
		if err != nil {
			return api.OnLoadResult{}, err
		}
		text := string(raw)
		for _, c := range changes {
			if n := len(c.from.FindAllString(text, -1)); n != c.times {
				return api.OnLoadResult{}, fmt.Errorf("%s has %d matches of %s, not %d: see changes in gen/bundle.go", f.Path, n, c.from, c.times)
			}
			text = c.from.ReplaceAllString(text, c.to)
		}
		return api.OnLoadResult{Contents: &text}, nil
	})
}}

// licences returns the texts of the licences of the packages.
func licences(modules string) ([]byte, error) {
	var all strings.Builder
	all.WriteString("The page of wolffia's console contains the following software, under these terms.\n")
	for _, name := range packages {
		text, err := os.ReadFile(filepath.Join(modules, filepath.FromSlash(name), "LICENSE"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "\n=== %s ===\n\n%s", name, strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	return []byte(all.String()), nil
}
