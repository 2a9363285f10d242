package boot

import (
	"os"

	"wolffia/internal/step"
)

// passed are the variables of the caller that the processes of a sandbox on the host get: the last two
// say which authorities the caller trusts (crypto/x509), for the hosts of headers.
var passed = []string{"PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// Environ returns the environment of these processes.
func Environ() []string {
	env := []string{"GOTRACEBACK=single"}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, step.Env()...)
}
