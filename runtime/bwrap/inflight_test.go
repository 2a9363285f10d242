package bwrap_test

import (
	"bufio"
	"strings"
	"testing"

	"wolffia/runtime"
)

// sends sends descriptors that nobody receives until the kernel refuses, says so and waits.
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

// The kernel counts the descriptors that the processes of a user have sent and nobody has received. A sandbox that has sent all it can stops
// neither the user's other sandboxes nor the start of new ones.
func TestDescriptorsInFlight(t *testing.T) {
	need(t)
	rt := backend.Fresh(t)
	over := func() *runtime.SandboxConfig { return &runtime.SandboxConfig{CodebasePath: t.TempDir()} }
	boxes := []string{started(t, rt, over()), started(t, rt, over()), created(t, rt, over())}
	p, err := rt.StartProcess(t.Context(), boxes[0], &runtime.ProcessSpec{Command: []string{"/usr/bin/python3", "-I", "-S", "-c", sends}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const refused = "Too many references: cannot splice\n"
	if said, err := bufio.NewReader(p.Stdout()).ReadString('\n'); said != refused {
		t.Fatalf("the kernel said %q, %v", said, err)
	}
	if err := rt.Start(t.Context(), boxes[2]); err != nil {
		t.Error(err)
	}
	for _, id := range boxes[1:] {
		r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"echo", "answers"}})
		if err != nil {
			t.Error(err)
		} else if strings.TrimSpace(string(r.Stdout)) != "answers" {
			t.Errorf("%s%s", r.Stdout, r.Stderr)
		}
	}
}
