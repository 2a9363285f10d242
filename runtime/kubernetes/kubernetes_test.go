package kubernetes

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
)

// All commands for a sandbox use the cluster that the first one has.
func TestComplete(t *testing.T) {
	files := map[string]string{
		"/k": "apiVersion: v1\ncurrent-context: \"dev\"\ncontexts: []\n", "/home/ann/.kube/config": "current-context: prod\n", "/none": "kind: Config\n",
	}
	read := func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
	type env map[string]string
	for what, tt := range map[string]struct {
		env  env
		in   *runtime.KubernetesConfig
		want *runtime.KubernetesConfig
		err  string
	}{
		"home":     {env: env{"HOME": "/home/ann"}, want: &runtime.KubernetesConfig{Config: "/home/ann/.kube/config", Context: "prod"}},
		"variable": {env: env{"HOME": "/home/ann", "KUBECONFIG": "/k"}, want: &runtime.KubernetesConfig{Config: "/k", Context: "dev"}},
		"pod":      {env: env{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, want: &runtime.KubernetesConfig{}},
		"recorded": {env: env{"KUBECONFIG": "/other", Variable: "guest=x"}, in: &runtime.KubernetesConfig{Config: "/gone", Context: "c"}, want: &runtime.KubernetesConfig{Config: "/gone", Context: "c"}},
		"settings": {env: env{"KUBECONFIG": "/k", Variable: "namespace=n,context=c,runtime-class=gvisor,guest=g:1"}, want: &runtime.KubernetesConfig{Config: "/k", Context: "c", Namespace: "n", RuntimeClass: "gvisor", Guest: "g:1"}},
		"some set": {
			env: env{"KUBECONFIG": "/k", Variable: "namespace=n,guest=g:1"}, in: &runtime.KubernetesConfig{Namespace: "own"},
			want: &runtime.KubernetesConfig{Config: "/k", Context: "dev", Namespace: "own", Guest: "g:1"},
		},
		"bad":        {env: env{"KUBECONFIG": "/k", Variable: "namespaces=n"}, err: "it must be context="},
		"two files":  {env: env{"KUBECONFIG": "/k:/none"}, err: "one file"},
		"no file":    {env: env{"KUBECONFIG": "/gone"}, err: "set KUBECONFIG"},
		"no context": {env: env{"KUBECONFIG": "/none"}, err: "kubectl config use-context"},
	} {
		c := &runtime.SandboxConfig{Kubernetes: tt.in}
		err := complete(c, func(name string) string { return tt.env[name] }, read)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %q", what, err, tt.err)
			}
			continue
		}
		if err != nil || cmp.Diff(tt.want, c.Kubernetes) != "" {
			t.Errorf("%s: %v, -want +got:\n%s", what, err, cmp.Diff(tt.want, c.Kubernetes))
		}
	}
}

// What a pod cannot do is refused, with the fix.
func TestRefuse(t *testing.T) {
	for want, change := range map[string]func(*runtime.SandboxConfig){
		"":             func(*runtime.SandboxConfig) {},
		"use --image":  func(c *runtime.SandboxConfig) { c.Image = "" },
		"--kube-guest": func(c *runtime.SandboxConfig) { c.Kubernetes.Guest = "" },
		"network host": func(c *runtime.SandboxConfig) { c.Network = runtime.NetworkHost },
		"--disk":       func(c *runtime.SandboxConfig) { c.Resources.Disk = 1 },
		"--pids":       func(c *runtime.SandboxConfig) { c.Resources.PIDs = 1 },
	} {
		c := &runtime.SandboxConfig{Image: "debian:13", Kubernetes: &runtime.KubernetesConfig{Guest: "g:1"}}
		change(c)
		err := refuse(c)
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Git inside takes the directory of the codebase, which is the kubelet's, unless the caller has set it up.
func TestGitTakesTheCodebase(t *testing.T) {
	read := func(string) ([]byte, error) { return []byte("current-context: c\n"), nil }
	getenv := func(name string) string { return map[string]string{"KUBECONFIG": "/k", Variable: "guest=g:1"}[name] }
	given := map[string]string{"GIT_CONFIG_COUNT": "0"}
	for _, tt := range []struct {
		code string
		env  map[string]string
		want string
	}{{"/code", nil, "*"}, {"/code", map[string]string{"A": "b"}, "*"}, {"/code", given, ""}, {"", nil, ""}} {
		c := &runtime.SandboxConfig{Runtime: Name, Image: "i", CodebasePath: tt.code, Env: tt.env}
		if err := complete(c, getenv, read); err != nil || c.Env["GIT_CONFIG_VALUE_0"] != tt.want || tt.env["GIT_CONFIG_VALUE_0"] != "" {
			t.Errorf("%+v: %v, %v", tt, c.Env, err)
		}
	}
}
