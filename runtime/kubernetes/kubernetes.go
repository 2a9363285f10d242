// Package kubernetes launches sandboxes as pods of a Kubernetes cluster, by its Sandbox API
// (kubernetes-sigs/agent-sandbox). PID 1 is the same as with every backend.
//
// Credentials of a cluster are as good as all that runs in its namespace, so the shim, which reads
// data from the guest, does not have them. The keeper does: wolffia-kube keep TAG. It has the cluster
// create the pod, and passes the bytes of a connection to PID 1 on to the shim.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Name is the runtime's name.
const Name = "kubernetes"

// Program is the name of the keeper's program.
const Program = "wolffia-kube"

// Variable is the environment variable with what a configuration leaves out at Create, as KEY=VALUE,...:
// the keys are context, namespace, runtime-class and guest.
const Variable = "WOLFFIA_KUBERNETES"

// Backend is the backend for package local's New.
func Backend() launch.Backend {
	return launch.Backend{
		Launcher: Launcher{}, Place: launch.Elsewhere, Keeper: Program,
		Complete: func(c *runtime.SandboxConfig) error { return complete(c, os.Getenv, os.ReadFile) },
		Engine:   engineOf,
	}
}

// complete fills in which cluster runs the sandbox, so that all commands for it use the same one, and
// refuses what a pod cannot do.
func complete(c *runtime.SandboxConfig, getenv func(string) string, readFile func(string) ([]byte, error)) error {
	k := runtime.KubernetesConfig{}
	if c.Kubernetes == nil || c.Kubernetes.Config == "" { // else it is complete
		if err := parse(&k, getenv(Variable)); err != nil {
			return err
		}
	}
	if own := c.Kubernetes; own != nil {
		k = runtime.KubernetesConfig{
			Config: own.Config, Context: cmp.Or(own.Context, k.Context), Namespace: cmp.Or(own.Namespace, k.Namespace),
			RuntimeClass: cmp.Or(own.RuntimeClass, k.RuntimeClass), Guest: cmp.Or(own.Guest, k.Guest),
		}
	}
	c.Kubernetes = &k
	if k.Config == "" && getenv("KUBERNETES_SERVICE_HOST") == "" {
		if k.Config = getenv("KUBECONFIG"); k.Config == "" {
			k.Config = filepath.Join(getenv("HOME"), ".kube", "config")
		}
		if !filepath.IsAbs(k.Config) || strings.Contains(k.Config, ":") {
			return runtime.Errorf(runtime.ErrUnsupported, "KUBECONFIG is %q: it must be the absolute path of one file", k.Config)
		}
	}
	if k.Config != "" && k.Context == "" {
		text, err := readFile(k.Config)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "runtime %s: the cluster's configuration: %w: set KUBECONFIG", Name, err)
		}
		if k.Context = currentContext(string(text)); k.Context == "" {
			return runtime.Errorf(runtime.ErrInvalid, "runtime %s: %s has no current-context: kubectl config use-context NAME", Name, k.Config)
		}
	}
	if c.Runtime != Name { // only which cluster is asked for
		return nil
	}
	if _, set := c.Env["GIT_CONFIG_COUNT"]; c.CodebasePath != "" && !set {
		// The codebase's directory is the kubelet's: git would take it for another user's.
		c.Env = maps.Clone(c.Env)
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env["GIT_CONFIG_COUNT"], c.Env["GIT_CONFIG_KEY_0"], c.Env["GIT_CONFIG_VALUE_0"] = "1", "safe.directory", "*"
	}
	return refuse(c)
}

// parse reads settings.
func parse(k *runtime.KubernetesConfig, text string) error {
	keys := map[string]*string{"context": &k.Context, "namespace": &k.Namespace, "runtime-class": &k.RuntimeClass, "guest": &k.Guest}
	for each := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(each, "=")
		if each == "" {
			continue
		}
		if keys[key] == nil || value == "" {
			return runtime.Errorf(runtime.ErrInvalid, "%s: %q: it must be context=, namespace=, runtime-class= or guest=, with a value", Variable, each)
		}
		*keys[key] = value
	}
	return nil
}

// currentContext returns the context that a file of kubectl's names: a key at the top, on a line of
// its own.
func currentContext(text string) string {
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(line, "current-context:"); is {
			return strings.Trim(strings.TrimSpace(name), `"'`)
		}
	}
	return ""
}

// refuse returns why a pod cannot be such a sandbox, or nil.
func refuse(c *runtime.SandboxConfig) error {
	for _, r := range []struct {
		what string
		is   bool
		fix  string
	}{
		{"no image", c.Image == "", "a pod has none of this host's system: use --image"},
		{"no image with the guest", c.Kubernetes.Guest == "", "use --kube-guest IMAGE"},
		{"network host", c.Network == runtime.NetworkHost, "a pod has none of this host's: use --network filtered"},
		{"a limit of the disk", c.Resources.Disk > 0, "leave --disk out"},
		{"a limit of processes", c.Resources.PIDs > 0, "a kubelet has one for all pods (podPidsLimit): leave --pids out"},
	} {
		if r.is {
			return runtime.Errorf(runtime.ErrUnsupported, "runtime %s: %s: %s", Name, r.what, r.fix)
		}
	}
	return nil
}

// engineOf returns the part of a completed configuration that names the cluster, and its address.
func engineOf(c *runtime.SandboxConfig) (engine runtime.SandboxConfig, address string) {
	k := c.Kubernetes
	address = "kubernetes:" + strings.Join(slices.DeleteFunc([]string{k.Config, k.Context, k.Namespace}, func(s string) bool { return s == "" }), "#")
	return runtime.SandboxConfig{Runtime: Name, Kubernetes: &runtime.KubernetesConfig{Config: k.Config, Context: k.Context, Namespace: k.Namespace}}, address
}

// A Launcher attaches to a sandbox that a keeper has started.
type Launcher struct{}

var _ launch.Launcher = Launcher{}

// Name implements [launch.Launcher].
func (Launcher) Name() string { return Name }

// Launch implements [launch.Launcher].
func (Launcher) Launch(spec *launch.Spec) (*launch.Instance, error) {
	if spec.Attached == nil {
		return nil, errors.New("launch.Spec.Attached is nil: the keeper has not started the sandbox")
	}
	conn, err := net.FileConn(spec.Attached.Stream)
	if err = errors.Join(err, spec.Attached.Stream.Close()); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the connection to the pod: %w", err)
	}
	stderr, said := io.Pipe()
	killed, kill := context.WithCancel(context.Background())
	return &launch.Instance{
		Stream: conn, Stderr: stderr,
		Wait: func() error {
			err := spec.Attached.Wait()
			if err != nil {
				_, _ = io.WriteString(said, err.Error()+"\n")
			}
			return errors.Join(err, said.Close(), conn.Close()) // in that order
		},
		Kill: func() error {
			kill()
			return errors.Join(spec.Attached.Kill(), conn.Close())
		},
		Again: func() (io.ReadWriteCloser, error) {
			select {
			case file, more := <-spec.Attached.Again:
				if !more {
					return nil, io.EOF
				}
				defer file.Close()
				return net.FileConn(file)
			case <-killed.Done():
				return nil, io.EOF
			}
		},
		Pause: spec.Attached.Pause, Resume: spec.Attached.Resume, Renew: spec.Attached.Renew,
	}, nil
}
