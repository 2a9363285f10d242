package policy_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"wolffia/perm"
	"wolffia/policy"
)

// The rules of the default preset for a codebase with a secret and a repository.
func ExampleFor() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	codebase := filepath.Join(tmp, "codebase")
	for _, name := range []string{".git/HEAD", ".git/config", ".env", "main.go"} {
		file := filepath.Join(codebase, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			log.Fatal(err)
		}
	}
	p, err := policy.For(context.Background(), codebase, &policy.Options{StateDir: filepath.Join(tmp, "state")})
	if err != nil {
		log.Fatal(err)
	}
	rules, err := perm.Compile(p.Rules)
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range []string{"main.go", ".env", ".git", "lib.git/config", ".vscode/tasks.json"} {
		fmt.Println(rules.Level(file, false), file)
	}
	// Output:
	// write main.go
	// none .env
	// write .git
	// read lib.git/config
	// read .vscode/tasks.json
}
