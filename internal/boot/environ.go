package boot

import (
	"os"

	"wolffia/internal/step"
)

// passed are the variables that the processes of a sandbox on the host get from
// the caller; nothing else of its environment is their business.
var passed = []string{"PATH"}

// Environ is their environment.
func Environ() []string {
	env := []string{"GOTRACEBACK=single"}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, step.Env()...)
}
