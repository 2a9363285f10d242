package boot

import (
	"os"
	"runtime"
	"strconv"

	"wolffia/internal/step"
)

// passed are the variables of the caller that the processes of a sandbox on the host get: the last two
// say which authorities the caller trusts (crypto/x509), for the hosts of headers.
var passed = []string{"PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// Waiting is how many threads of such a process usually wait in the kernel, or work there, beside those that run.
const Waiting = 3

// Environ returns the environment of these processes.
func Environ() []string {
	// Go gives the processor of a thread that waits in the kernel to another one late, so that there are some more
	// of them (GOMAXPROCS in package runtime).
	env := []string{"GOTRACEBACK=single", "GOMAXPROCS=" + strconv.Itoa(runtime.NumCPU()+Waiting)}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, step.Env()...)
}
