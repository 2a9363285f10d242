// Gen bundles the page of the console into the directory dist, which is committed.
//
// The page is TypeScript and styles in src, and the packages of npm that package-lock.json pins. Gen needs npm and its
// registry, unless -modules names a directory node_modules that has the packages.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// limit is how long npm may take: a guard against a hang.
const limit = 5 * time.Minute

//go:generate go run . -web ..

func main() {
	web := flag.String("web", "..", "the directory with the sources")
	modules := flag.String("modules", "", "a directory node_modules; default: npm installs one for this run")
	flag.Parse()
	if err := run(*web, *modules); err != nil {
		fmt.Fprintf(os.Stderr, "gen: %v\n", err)
		os.Exit(1)
	}
}

// run writes the bundle into the directory dist of the sources.
func run(web, modules string) error {
	if modules == "" {
		dir, err := install(web)
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		modules = filepath.Join(dir, "node_modules")
	}
	files, err := bundle(web, modules)
	if err != nil {
		return err
	}
	dist := filepath.Join(web, "dist")
	old, err := filepath.Glob(filepath.Join(dist, "*"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dist, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// install has npm install the packages of the page into a new directory, which the caller removes.
func install(web string) (dir string, err error) {
	dir, err = os.MkdirTemp("", "wolffia-web-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(web, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if text, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, text)
	}
	return dir, nil
}
