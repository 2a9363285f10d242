package boot

import (
	"os"
	"runtime"
	"strconv"

	"wolffia/internal/sys/hostpath"
	"wolffia/internal/sys/step"
)

// passed are the variables of the caller that the processes of a sandbox on the host get, beside
// PATH: they say which authorities the caller trusts (crypto/x509), for the hosts of headers.
var passed = []string{"SSL_CERT_FILE", "SSL_CERT_DIR"}

// looked are the programs that these processes look for in PATH.
var looked = []string{"bwrap", "fusermount3", "umount", "git"}

const (
	// Waiting is how many threads of such a process may wait in the kernel, or work there, beside
	// those that run.
	Waiting = 1

	// mostProcessors bounds Processors. On a host with 64, three processes of a sandbox took 3 MB
	// more.
	mostProcessors = 8
)

// Processors returns how many processors a process of a sandbox uses at once. Each that Go's
// runtime may use (GOMAXPROCS in package runtime) takes 16 kB, and memory that it alone allocates
// from.
func Processors() int { return min(runtime.NumCPU(), mostProcessors) }

// Environ returns the environment of these processes.
func Environ() []string {
	// Go gives the processor of a thread that waits in the kernel to another one late, so that
	// there are some more.
	env := []string{"GOTRACEBACK=single", "GOMAXPROCS=" + strconv.Itoa(Processors()+Waiting), "PATH=" + hostpath.Path(looked...)}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, step.Env()...)
}
