package perm_test

import (
	"fmt"

	"wolffia/perm"
)

func ExampleCompile() {
	p, err := perm.Compile([]perm.Rule{
		{Pattern: "**", Level: perm.Write},
		{Pattern: ".env", Level: perm.None, Priority: perm.PrioritySecret},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Level("src/main.go", false))
	fmt.Println(p.Level("src/.env", false))
	// Output:
	// write
	// none
}

// The rules of the command line for wolffia run --preset read-only --rule 'build/=write'.
func ExampleAssemble() {
	build, err := perm.ParseRule("build/=write")
	if err != nil {
		fmt.Println(err)
		return
	}
	rules, err := perm.Assemble(&perm.Request{Preset: "read-only", Rules: []perm.Rule{build}})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := perm.Compile(rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"main.go", "build/out.o", "build/.env"} {
		fmt.Println(p.Explain(path, false).Level, path)
	}
	fmt.Println(p.Explain("main.go", false).Remedy(perm.Write))
	// Output:
	// read main.go
	// write build/out.o
	// none build/.env
	// --rule '/main.go=write'
}
