package shimtest

import (
	"bufio"
	"testing"

	"wolffia/runtime"
)

// sends sends descriptors that no process receives until the kernel refuses, says so and waits.
const sends = `
import array, os, resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
fds, pairs = array.array('i', [os.open('/dev/null', os.O_RDONLY)] * 250), []
said = 'no limit was met'
try:
    for _ in range(hard // 250 + 2):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pairs.append((a, b))
        a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
except OSError as e:
    said = os.strerror(e.errno)
print(said, flush=True)
sys.stdin.read()
`

// InFlight checks that a sandbox that has sent all the descriptors that it can, and whose kernel counts those that the processes of a
// user have sent and nobody has received, stops neither the user's other sandboxes nor the start of new ones.
func InFlight(t *testing.T, rt *Runtime) {
	start := func() string { return on(t, rt, &runtime.SandboxConfig{CodebasePath: PublicDir(t)}).ID }
	full, other := start(), start()
	p, err := rt.StartProcess(t.Context(), full, &runtime.Command{OpenStdin: true, Command: []string{"/usr/bin/python3", "-I", "-S", "-c", sends}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const refused = "Too many references: cannot splice\n"
	if said, err := bufio.NewReader(p.Stdout()).ReadString('\n'); said != refused {
		t.Fatalf("the kernel said %q, %v", said, err)
	}
	says(t, rt, other, "echo answers", "answers\n")
	says(t, rt, start(), "echo answers", "answers\n")
}
