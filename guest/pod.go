package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

const (
	// closedLimit is how long a pod's network may take to close: its rules may come after its start.
	closedLimit = 15 * time.Second
	// dialLimit is how long an address may take to answer. One that does not is closed.
	dialLimit = 2 * time.Second
)

// InstallArg is the first argument of the program that runs [Install]; the second is the path.
const InstallArg = "install"

// StayArg is the argument of the program that runs [Stay].
const StayArg = "stay"

// Stay waits while [Install] is executed beside this process, and ends.
func Stay() error {
	time.Sleep(time.Minute)
	return nil
}

// tokens is where a pod has the credentials of a service account.
const tokens = "/var/run/secrets/kubernetes.io"

// CheckPod returns why a pod is not a sandbox: a cluster may change what it is asked for, and leaves
// out what it does not know. closed says that neither the API server nor the node may be reached from
// inside. Some networks of clusters ignore NetworkPolicies.
func CheckPod(closed bool) error {
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		words, err := proc.Status(1, set)
		if err != nil {
			return err
		}
		if n, err := strconv.ParseUint(strings.Join(words, ""), 16, 64); err != nil || n != 0 {
			return fmt.Errorf("the pod has capabilities (%s %s): a policy of the cluster has added them", set, words)
		}
	}
	if words, err := proc.Status(1, "NoNewPrivs"); err != nil || len(words) != 1 || words[0] != "1" {
		return fmt.Errorf("the pod may gain privileges (NoNewPrivs %s): the cluster ignores allowPrivilegeEscalation", words)
	}
	if os.Getuid() == 0 {
		return errors.New("the pod runs as root: the cluster ignores runAsUser")
	}
	if _, err := os.Lstat(tokens); err == nil {
		return fmt.Errorf("the pod has a service account's token in %s: the cluster ignores automountServiceAccountToken", tokens)
	}
	if !closed {
		return nil
	}
	var all []string
	if host := os.Getenv("HOST_IP"); host != "" {
		all = append(all, net.JoinHostPort(host, "10250")) // the kubelet's
	}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		all = append(all, net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")))
	}
	if len(all) == 0 {
		return errors.New("the pod does not know its node's address: nothing to check its network with")
	}
	for end := time.Now().Add(closedLimit); ; time.Sleep(dialLimit / 4) {
		reached := anyReached(all)
		if reached == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the pod reaches %s: its network is open; add a NetworkPolicy without egress for pods with the label wolffia.dev/id, in a cluster whose network has such rules, or use --network host", reached)
		}
	}
}

// anyReached returns one of addresses that answers, be it that it refuses connections; empty: none.
func anyReached(all []string) string {
	reached := make(chan string, len(all))
	for _, address := range all {
		go func() { // ends after dialLimit
			c, err := net.DialTimeout("tcp", address, dialLimit)
			if err == nil {
				_ = c.Close()
			}
			if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ECONNRESET) {
				address = ""
			}
			reached <- address
		}()
	}
	found := ""
	for range all {
		if address := <-reached; address != "" {
			found = address
		}
	}
	return found
}

// Install copies this program to a path, where others can execute it, and not read it: see [Connect].
func Install(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(0o711), to.Close())
}
